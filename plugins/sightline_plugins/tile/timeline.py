"""When a tiled image is made, and which frame of each stream it shows.

Files are matched by their timestamps (`MatchedTimeline`): an image shows of each stream the frame of that moment, so
that results depend neither on batches nor on how fast the files are read. Cameras cannot be waited for
(`NewestTimeline`): an image shows the newest frame of each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import prod
from typing import Protocol

from sightline.media import Frame, Surface

_SECOND_NS = 1_000_000_000
_USUAL_INTERVAL_NS = 40_000_000
_LEAST_INTERVAL_NS = 1_000_000
"""Between images of cameras whose frames came together."""
_SILENT_INTERVALS = 8
_MEASURED = 15
"""Intervals of a camera of which the middle one counts."""
_MOST_HELD_BYTES = 128 << 20
_FIRST = 5
"""Frames of a file that tell its rate."""


class Status(StrEnum):
    """What viewers should know of a tile: it shows a frame, none yet, or the last one there was."""

    SHOWN = "shown"
    WAITING = "waiting"
    LOST = "lost"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, eq=False)
class TileState:
    """What a stream shows at a moment: its frame's surface and time of day, where there are any."""

    surface: Surface | None = None
    capture_ns: int | None = None
    status: Status = Status.WAITING


@dataclass(frozen=True, slots=True)
class Moment:
    """An image to be made: its time, and what each stream shows."""

    pts_ns: int
    tiles: Mapping[str, TileState]


class Timeline(Protocol):
    """Decides on moments. Used by one thread."""

    def add(self, frames: Sequence[Frame], *, now_ns: int) -> Iterator[Moment]:
        """Take frames, and yield the moments that are due."""
        ...

    def pause(self, name: str) -> None:
        """No frame of that stream comes for a while."""
        ...

    def end(self, name: str) -> Iterator[Moment]:
        """No frame of that stream comes any more. Yield the moments that are due."""
        ...


@dataclass(slots=True)
class _Camera:
    """The newest frame of a camera, and when it came."""

    state: TileState
    pts_ns: int
    arrived_ns: int
    intervals_ns: deque[int] = field(default_factory=lambda: deque(maxlen=_MEASURED))

    @property
    def interval_ns(self) -> int | None:
        """The usual time from one frame to the next."""
        return sorted(self.intervals_ns)[len(self.intervals_ns) // 2] if self.intervals_ns else None


class NewestTimeline:
    """Shows the newest frame of each stream: `interval_ns` apart, or, when that is None, whenever a frame comes of the
    stream with the most a second.

    A stream of which nothing came for `lost_after_ns` is lost; one that is silent for eight of its frames does not
    count as the fastest.
    """

    def __init__(self, expected: Iterable[str], *, interval_ns: int | None, lost_after_ns: int) -> None:
        self.lost_after_ns = lost_after_ns
        self._expected = dict.fromkeys(expected)
        self._interval_ns = interval_ns
        self._cameras: dict[str, _Camera] = {}
        self._begun_ns: int | None = None
        self._next_ns = 0
        self._last_ns = -_LEAST_INTERVAL_NS
        self._lead: str | None = None

    def add(self, frames: Sequence[Frame], *, now_ns: int) -> Iterator[Moment]:
        """See `Timeline.add`."""
        if self._begun_ns is None:
            self._begun_ns = self._next_ns = now_ns
        self._lead = self._fastest(now_ns)
        due = [number for number, frame in enumerate(frames) if frame.stream.name == self._lead]
        taken = 0
        for number in due[:-1] if self._interval_ns is None else ():
            self._take(frames[taken : number + 1], now_ns)
            taken = number + 1
            yield self._moment(now_ns - (frames[due[-1]].pts_ns - frames[number].pts_ns), now_ns)
        self._take(frames[taken:], now_ns)
        if self._is_time(now_ns) if self._interval_ns is not None else due or self._lead is None:
            yield self._moment(now_ns, now_ns)

    def pause(self, name: str) -> None:
        """See `Timeline.pause`: it is lost after a while, as others are."""

    def end(self, name: str) -> Iterator[Moment]:
        """See `Timeline.end`: its tile goes away."""
        self._cameras.pop(name, None)
        self._expected.pop(name, None)
        yield from ()

    def _take(self, frames: Sequence[Frame], now_ns: int) -> None:
        for frame in frames:
            state = TileState(frame.surface, frame.capture_ns, Status.SHOWN)
            camera = self._cameras.get(frame.stream.name)
            if camera is None:
                self._cameras[frame.stream.name] = _Camera(state, frame.pts_ns, now_ns)
                continue
            if frame.pts_ns > camera.pts_ns:
                camera.intervals_ns.append(frame.pts_ns - camera.pts_ns)
            camera.state, camera.pts_ns, camera.arrived_ns = state, frame.pts_ns, now_ns

    def _is_lost(self, camera: _Camera, now_ns: int) -> bool:
        return now_ns - camera.arrived_ns > self.lost_after_ns

    def _is_time(self, now_ns: int) -> bool:
        """Whether an image is due by the clock."""
        assert self._interval_ns is not None
        if now_ns < self._next_ns - self._interval_ns // 4:
            return False
        self._next_ns = max(self._next_ns + self._interval_ns, now_ns)
        return True

    def _moment(self, at_ns: int, now_ns: int) -> Moment:
        assert self._begun_ns is not None
        self._last_ns = max(at_ns - self._begun_ns, self._last_ns + _LEAST_INTERVAL_NS)
        return Moment(self._last_ns, self._tiles(now_ns))

    def _fastest(self, now_ns: int) -> str | None:
        """The stream with the most frames a second of those that send; the one of before as long as no other is faster
        by a tenth.
        """
        rates = {
            name: interval_ns
            for name, camera in self._cameras.items()
            if (interval_ns := camera.interval_ns) is not None
            and now_ns - camera.arrived_ns <= _SILENT_INTERVALS * interval_ns
        }
        fastest = min(rates, key=lambda name: rates[name], default=None)
        if fastest is None or self._lead not in rates:
            return fastest
        return fastest if 10 * rates[fastest] < 9 * rates[self._lead] else self._lead

    def _tiles(self, now_ns: int) -> Mapping[str, TileState]:
        tiles = dict.fromkeys(self._expected, TileState())
        for name, camera in self._cameras.items():
            state = camera.state
            lost = self._is_lost(camera, now_ns)
            tiles[name] = TileState(state.surface, state.capture_ns, Status.LOST) if lost else state
        return tiles


@dataclass(slots=True, eq=False)
class _Entry:
    """A frame of a file that waits for its moment; its time is on the clock of the image."""

    pts_ns: int
    surface: Surface
    capture_ns: int | None


@dataclass(slots=True, eq=False)
class _File:
    """A stream that is waited for: its frames that were not shown yet, by time, and the one that is shown.

    `first_ns` are the times of its first frames, which tell its rate. `is_apart` says that its times tell nothing: its
    next frame is put at the present moment.
    """

    entries: deque[_Entry] = field(default_factory=deque)
    state: TileState = field(default_factory=TileState)
    shown_ns: int = 0
    first_ns: list[int] = field(default_factory=list)
    shift_ns: int = 0
    is_over: bool = False
    is_paused: bool = False
    is_apart: bool = True

    @property
    def interval_ns(self) -> int | None:
        """The time from one of its first frames to the next; None when that is not, or never will be, known."""
        if (len(self.first_ns) < _FIRST and not self.is_over) or len(self.first_ns) <= 1:
            return None
        return max((self.first_ns[-1] - self.first_ns[0]) // (len(self.first_ns) - 1), 1)

    @property
    def tells_its_rate(self) -> bool:
        """Whether nothing more will be known of its rate."""
        return self.is_over or self.is_paused or len(self.first_ns) == _FIRST

    @property
    def may_grow(self) -> bool:
        """Whether frames of it are waited for."""
        return not (self.is_over or self.is_paused)

    @property
    def has_more(self) -> bool:
        """Whether it has frames that were not shown, or may have."""
        return bool(self.entries) or self.may_grow

    def reaches(self, pts_ns: int) -> bool:
        """Whether it is known what it shows up to that time."""
        return not self.may_grow or bool(self.entries and self.entries[-1].pts_ns >= pts_ns)

    def at(self, limit_ns: int) -> TileState:
        """What it shows; `limit_ns` is the earliest time of a frame that is of the moment."""
        if self.is_over and not self.entries and self.shown_ns < limit_ns:
            return TileState(self.state.surface, self.state.capture_ns, Status.ENDED)
        return self.state


class MatchedTimeline:
    """Shows of each stream the frame of the moment: within a quarter of the interval of images around it, else the
    last one before.

    Images are made `interval_ns` apart, or, when that is None, at each frame of the stream with the most frames a
    second. No image is made before it is known what each of the streams that are `expected` shows. Frames that wait for
    that are shrunk by `shrink`; when they fill 128 MB, the streams that are waited for are too far apart: `warn` gets
    their names, and their next frames are put at the moment when they come.
    """

    def __init__(
        self,
        expected: Iterable[str],
        *,
        interval_ns: int | None,
        shrink: Callable[[str, Surface], Surface],
        warn: Callable[[Sequence[str]], None],
        most_held_bytes: int = _MOST_HELD_BYTES,
    ) -> None:
        self._files = {name: _File() for name in expected}
        self._fixed_names = frozenset(self._files)
        self._interval_ns = interval_ns
        self._shrink = shrink
        self._warn = warn
        self._most_held_bytes = most_held_bytes
        self._held_bytes = 0
        self._lead: str | None = None
        self._now_ns: int | None = None

    def add(self, frames: Sequence[Frame], *, now_ns: int) -> Iterator[Moment]:
        """See `Timeline.add`."""
        del now_ns
        for frame in frames:
            self._take(frame)
            yield from self._due()

    def pause(self, name: str) -> None:
        """See `Timeline.pause`: it is not waited for until it goes on."""
        if name in self._files:
            self._files[name].is_paused = self._files[name].is_apart = True

    def end(self, name: str) -> Iterator[Moment]:
        """See `Timeline.end`: its last image stays, if it was there when the image began; else its tile goes away."""
        if name in self._files:
            self._files[name].is_over = True
            yield from self._due()
            if name not in self._fixed_names:
                self._forget(name)

    def _take(self, frame: Frame) -> None:
        file = self._files.setdefault(frame.stream.name, _File())
        if file.is_over:
            file = self._files[frame.stream.name] = _File(state=file.state)
        if file.is_apart:
            behind_ns = 0 if self._now_ns is None else self._now_ns - frame.pts_ns
            file.shift_ns = max(behind_ns, 0)
            file.is_apart = file.is_paused = False
        if file.entries:
            last = file.entries[-1]
            self._held_bytes -= _bytes_of(last.surface)
            last.surface = self._shrink(frame.stream.name, last.surface)
            self._held_bytes += _bytes_of(last.surface)
        pts_ns = frame.pts_ns + file.shift_ns
        if len(file.first_ns) < _FIRST:
            file.first_ns.append(pts_ns)
        file.entries.append(_Entry(pts_ns, frame.surface, frame.capture_ns))
        self._held_bytes += _bytes_of(frame.surface)

    def _forget(self, name: str) -> None:
        for entry in self._files.pop(name).entries:
            self._held_bytes -= _bytes_of(entry.surface)

    def _due(self) -> Iterator[Moment]:
        while True:
            found = self._next()
            late = self._late(None if found is None else found[0] - found[1] // 4)
            if late and self._held_bytes > self._most_held_bytes:
                self._warn(late)
                for name in late:
                    self._files[name].is_paused = self._files[name].is_apart = True
                continue
            if found is None or late:
                return
            yield self._moment(*found)

    def _late(self, pts_ns: int | None) -> list[str]:
        """The streams that are waited for to know what is shown at a time; None: to know the next time."""
        if pts_ns is not None:
            return [name for name, file in self._files.items() if not file.reaches(pts_ns)]
        return [
            name
            for name, file in self._files.items()
            if not file.tells_its_rate or (file.has_more and not file.entries)
        ]

    def _next(self) -> tuple[int, int] | None:
        """When the next image is made, and the interval of images; None when that is not known, or never."""
        if self._interval_ns is not None:
            return self._next_of_clock(self._interval_ns)
        lead = self._leading()
        if lead is None:
            return None
        interval_ns = lead.interval_ns or _USUAL_INTERVAL_NS
        while lead.entries and self._now_ns is not None and lead.entries[0].pts_ns <= self._now_ns:
            self._show(lead)
        return (lead.entries[0].pts_ns, interval_ns) if lead.entries else None

    def _next_of_clock(self, interval_ns: int) -> tuple[int, int] | None:
        if self._now_ns is not None:
            next_ns = self._now_ns + interval_ns
            has_more = any(
                file.may_grow or (file.entries and file.entries[-1].pts_ns >= next_ns - interval_ns // 4)
                for file in self._files.values()
            )
            return (next_ns, interval_ns) if has_more else None
        if any(file.has_more and not file.entries for file in self._files.values()):
            return None
        first = [file.entries[0].pts_ns for file in self._files.values() if file.entries]
        return (min(first), interval_ns) if first else None

    def _leading(self) -> _File | None:
        """The stream whose frames are the moments: the one with the most a second, as far as that is known."""
        lead = None if self._lead is None else self._files.get(self._lead)
        if lead is not None and lead.has_more:
            return lead
        if not all(file.tells_its_rate for file in self._files.values()):
            return None
        running = [name for name, file in self._files.items() if file.has_more]
        rates = {name: self._files[name].interval_ns or _SECOND_NS for name in running}
        self._lead = min(running, key=lambda name: rates[name], default=None)
        return None if self._lead is None else self._files[self._lead]

    def _moment(self, pts_ns: int, interval_ns: int) -> Moment:
        reach_ns = interval_ns // 4
        for file in self._files.values():
            while file.entries and file.entries[0].pts_ns < pts_ns - reach_ns:
                self._show(file)
            if file.entries and file.entries[0].pts_ns <= pts_ns + reach_ns:
                self._show(file)
        self._now_ns = pts_ns
        return Moment(pts_ns, {name: file.at(pts_ns - reach_ns) for name, file in self._files.items()})

    def _show(self, file: _File) -> None:
        entry = file.entries.popleft()
        self._held_bytes -= _bytes_of(entry.surface)
        file.state, file.shown_ns = TileState(entry.surface, entry.capture_ns, Status.SHOWN), entry.pts_ns


def _bytes_of(surface: Surface) -> int:
    return sum(prod(plane.shape) for plane in surface.pixels)
