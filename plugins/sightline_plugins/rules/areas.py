"""The base of rules on areas: who is in each area since when; a rule of its own says what that means.

A rule on areas is one module: its options (an `Area`, and an `AreaRule` that holds named ones), what it counts
(a `Tally`), and an `AreaWatch` that turns the stays in one area into events and counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import numpy as np

from sightline.graph import ChangesLive
from sightline.graph.rule import Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media.boxes import Boxes
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules.containment import Area, Containment
from sightline_plugins.rules.presence import Presence
from sightline_plugins.rules.shapes import ShapeRule, continued_tally, drawings, former_names, places_of
from sightline_plugins.rules.stays import NOBODY, Stay, Stays
from sightline_plugins.rules.track_table import Ids


class AreaRule(ShapeRule):
    """Base of rules whose options are named areas."""

    gone: ChangesLive[Duration] = 2_000_000_000
    """A track not seen for this long has left."""

    @property
    def areas(self) -> Mapping[str, Any]:
        """The areas by name."""
        return self.__pydantic_extra__


@dataclass(slots=True)
class Tally:
    """What a rule has counted in one area of a stream: numbers, and lists or mappings of numbers."""

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> Self:
        """Return the counts that another process has saved with `asdict`."""
        return cls(**{one.name: _numbers(saved[one.name]) for one in fields(cls)})


@dataclass(slots=True, eq=False)
class AreaFrame:
    """Who is in one area on one frame.

    `stays` holds the open stays by track in the order in which they began, those of hidden tracks too. `missing` are
    the tracks of those that are not seen inside, and `hidden` those of them that were not seen elsewhere. `entered`
    and `left` are the stays that began and ended with this frame, or by an edit before it (`is_unjudged`). `rows` has
    the row of every track on the frame in `xyxy` ((N, 4) in pixels). When the rule is not active by its schedule, and
    when the stream ends, it is not `is_active`: nobody is there, and what lasts has to end.
    """

    now_ns: int
    is_active: bool
    size_wh: tuple[int, int]
    stays: Mapping[int, Stay]
    missing: Set[int]
    hidden: Set[int]
    entered: Sequence[Stay]
    left: Sequence[Stay]
    rows: Mapping[int, int]
    xyxy: Boxes

    def seen(self) -> list[int]:
        """Return the tracks of those who are seen inside, in the order in which they came."""
        if not self.missing:
            return list(self.stays)
        return [track_id for track_id in self.stays if track_id not in self.missing]

    def outside(self) -> Set[int]:
        """Return the missing tracks that were seen elsewhere since."""
        return self.missing - self.hidden if self.missing else NOBODY


A = TypeVar("A", bound=Area)
T = TypeVar("T", bound=Tally)


class AreaWatch(ABC, Generic[A, T]):
    """The rule of one area on one stream: its state.

    `update` is called in order with the frames on which it may have changed who is there or missing, and with all those
    from `wake_ns` on.
    """

    longest_outside_ns: ClassVar[int] = 0
    """A stay goes on while its track is seen outside for less than this, and for less than `gone`."""

    def __init__(self, name: str, area: A, tally: T) -> None:
        self.name, self.area, self.tally = name, area, tally
        self.stays = Stays()
        self.is_resting = False
        self.wake_ns = 0
        """When something may happen although nobody comes or goes; `update` sets it."""

    @abstractmethod
    def update(self, frame: AreaFrame) -> Iterator[RuleEvent]:
        """Yield what happened on a frame."""

    @abstractmethod
    def counts(self) -> Mapping[str, int]:
        """Return the counts that are drawn."""

    @abstractmethod
    def save(self) -> Saved:
        """Return the state beside stays and tally."""

    @abstractmethod
    def restore(self, saved: Saved) -> None:
        """Take over a saved state; the stays are there already."""


W = TypeVar("W", bound=AreaWatch[Any, Any])


class StreamAreas(StreamRule, Generic[W]):
    """The areas of one stream, and the tracks inside. A subclass makes the tallies and watches of its rule."""

    def __init__(self, options: AreaRule, earlier: StreamAreas[W] | None = None) -> None:
        self._take(options)
        self._containment = Containment(list(self._areas.values()), pixels=self._pixels)
        self._presence = Presence()
        self._last: TrackedObjects | None = None
        """The objects of the latest frames."""
        self._last_ns: int | None = None
        self._interval_ns = 0
        self.tally: dict[str, Any] = (
            {name: self.make_tally() for name in self._areas} if earlier is None else dict(earlier.tally)
        )
        """The counts by area; those of areas that are gone are behind."""
        self.watches = [self.make_watch(name, area, self.tally[name]) for name, area in self._areas.items()]

    @abstractmethod
    def make_tally(self) -> Tally:
        """Return the counts of an area in which nothing has happened."""

    @abstractmethod
    def make_watch(self, name: str, area: Any, tally: Any) -> W:
        """Return the state of the rule of one area."""

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert the areas to pixels of frames of that size."""
        self._presence.forget()
        return dict(zip(self._areas, self._containment.place(size_wh), strict=True))

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield what happened in the areas on each frame."""
        inside, counted = self._containment.judge(tracks)
        self._last = tracks
        for frame, (now_ns, own) in enumerate(zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True)):
            active = None if tracks.active is None else tracks.active[frame].tolist()
            track_id, xyxy = tracks.track_id[own], tracks.xyxy[own]
            self.see(track_id, xyxy, now_ns)
            changed = self._presence.take(track_id, inside[own], counted[own])
            self._interval_ns = 0 if self._last_ns is None else max(0, now_ns - self._last_ns)
            self._last_ns = now_ns
            yield self._watch(now_ns, active, changed, xyxy)

    def see(self, track_id: Ids, xyxy: Boxes, now_ns: int) -> None:
        """Take the tracks (N,) of the next frame and their boxes (N, 4) in pixels, before the watches get it: for what
        a rule asks of all areas at once.
        """

    def look(self, frames: Mapping[int, AreaFrame], *, xyxy: Boxes, now_ns: int) -> Collection[int]:
        """Take who is in the areas (by number) whose watches get the next frame, before they get it: for the same
        purpose. Return which others have to get it, too.
        """
        del frames, xyxy, now_ns
        return ()

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return the counts of each area."""
        return {watch.name: watch.counts() for watch in self.watches}

    def change(self, rule: AreaRule) -> None:
        """Take over other areas, between two frames.

        The last frame is judged anew by each area that is new or was redrawn (also when its classes, its anchor or its
        margin changed). Who was inside and still is stays, with the time of entering. Who is inside because of the
        change stays from the change on, and has not entered; who is outside because of it has not left. A hidden track
        is judged when it is seen again.
        """
        before, pixels, watches = self._areas, self._pixels, self.watches
        self._take(rule)
        former = former_names(before, self._areas)
        self.tally = continued_tally(self.tally, former=former, names=list(self._areas), make=self.make_tally)
        numbers = {name: number for number, name in enumerate(before)}
        places = [numbers[former[name]] if name in former else None for name in self._areas]
        redrawn = {
            number
            for number, (name, area) in enumerate(self._areas.items())
            if name not in former or self._pixels != pixels or area.drawing != before[former[name]].drawing
        }
        last = None if self._last is None else self._last.last_frame()
        last_ids, inside, counted = self._containment.change(
            list(self._areas.values()), pixels=self._pixels, places=places, redrawn=redrawn, last=last
        )
        self._presence.forget()
        self.watches = []
        for number, ((name, area), place) in enumerate(zip(self._areas.items(), places, strict=True)):
            watch = self.make_watch(name, area, self.tally[name]) if place is None else watches[place]
            watch.name, watch.area, watch.tally = name, area, self.tally[name]
            self.watches.append(watch)
            if number in redrawn and last is not None:
                watch.stays.edit(
                    self._last_ns or 0,
                    inside=set(last_ids[inside[:, number]].tolist()),
                    counted=set(last_ids[counted[:, number]].tolist()),
                    visible=set(last_ids.tolist()),
                )

    def save(self) -> Saved:
        """Return the counts, the stays, and what each rule makes of them."""
        return {
            "drawings": drawings(self._areas, pixels=self._pixels),
            "tally": {name: asdict(own) for name, own in self.tally.items()},
            "containment": self._containment.save(),
            "watches": [{"stays": watch.stays.save(), "state": watch.save()} for watch in self.watches],
            "last_ns": self._last_ns,
            "interval_ns": self._interval_ns,
        }

    def restore(self, saved: Saved) -> None:
        """Go on with the counts, and with the stays in areas that look the same; other stays have ended, uncounted."""
        moved = places_of(saved["drawings"], drawings(self._areas, pixels=self._pixels))
        former: dict[int, int] = {now: before for before, now in moved.items()}
        restored = type(self.make_tally()).restored
        self.tally = {**self.tally, **{str(name): restored(own) for name, own in saved["tally"].items()}}
        self._containment.restore(saved["containment"], moved, count=len(saved["drawings"]))
        for number, watch in enumerate(self.watches):
            watch.tally = self.tally[watch.name]
            if number in former:
                own = saved["watches"][former[number]]
                watch.stays.restore(own["stays"])
                watch.restore(own["state"])
        self._last_ns, self._interval_ns = saved["last_ns"], int(saved["interval_ns"])

    def end(self) -> None:
        """Count what lasts until now, and forget the tracks."""
        self._presence.forget()
        if self._containment.size_wh is not None:
            none = [False] * len(self.watches)
            end_ns = (self._last_ns or 0) + self._interval_ns
            self._watch(end_ns, none, NOBODY, np.zeros((0, 4), np.float32))
        self._containment.clear()
        self._last = None

    def _take(self, options: AreaRule) -> None:
        self._areas, self._pixels, self._gone_ns = options.areas, options.pixels, options.gone

    def _watch(self, now_ns: int, active: Sequence[bool] | None, changed: Set[int], xyxy: Boxes) -> list[RuleEvent]:
        """Return the events of a frame, on which others are in the areas `changed` than on the one before."""
        presence, gone_ns = self._presence, self._gone_ns
        outside_ns = min(self.watches[0].longest_outside_ns, gone_ns) if self.watches else 0
        frames: dict[int, AreaFrame] = {}
        for number, watch in enumerate(self.watches):
            is_active, stays = active is None or active[number], watch.stays
            entered = left = _NO_STAYS
            if is_active:
                is_same = number not in changed and not watch.is_resting
                if is_same and stays.rests(now_ns, came=presence.came, gone_ns=gone_ns, outside_ns=outside_ns):
                    if now_ns < watch.wake_ns:
                        continue
                else:
                    entered, left = stays.update(
                        now_ns,
                        inside=presence.inside[number],
                        counted=presence.counted[number],
                        visible=presence.rows.keys(),
                        gone_ns=gone_ns,
                        outside_ns=outside_ns,
                    )
            elif watch.is_resting:
                continue
            else:
                left = stays.close(now_ns)
            watch.is_resting = not is_active
            frames[number] = self._frame(number, xyxy, now_ns, entered, left)
        others = self.look(frames, xyxy=xyxy, now_ns=now_ns)
        for number in others:
            if number not in frames:
                frames[number] = self._frame(number, xyxy, now_ns, _NO_STAYS, _NO_STAYS)
        events: list[RuleEvent] = []
        for number in sorted(frames) if others else frames:
            events += self.watches[number].update(frames[number])
        return events

    def _frame(self, number: int, xyxy: Boxes, now_ns: int, entered: Sequence[Stay], left: Sequence[Stay]) -> AreaFrame:
        watch = self.watches[number]
        stays = watch.stays
        assert self._containment.size_wh is not None
        return AreaFrame(
            now_ns,
            not watch.is_resting,
            self._containment.size_wh,
            stays.open,
            stays.missing,
            stays.hidden,
            entered,
            left,
            self._presence.rows,
            xyxy,
        )


Data: TypeAlias = dict[str, str | int | float]
"""What is written with an event."""


def seconds(nanoseconds: float) -> float:
    """Return a duration as events and reports tell it."""
    return round(nanoseconds / NANOSECONDS, 3)


_NO_STAYS: list[Stay] = []


def _numbers(saved: Any) -> Any:
    if isinstance(saved, Mapping):
        return {str(key): int(value) for key, value in saved.items()}
    return [int(value) for value in saved] if isinstance(saved, list) else int(saved)
