"""Directions and objects that stand as nvdsanalytics of DeepStream has them, for `compat: deepstream`.

The method is that of `nvds_analytics.cpp` of DeepStream 9.1, in whole pixels of the frame. An object stands when its
centre has hardly varied over a full ring of samples: by 20 pixels sideways, and by next to nothing up and down. Any
other object has each direction that its way since the oldest samples goes along. Both are judged anew on each frame,
and depend on the frame rate and on the resolution: use them to compare with an installation of DeepStream.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sightline.graph.rule import Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media import Arrows, Part
from sightline.media.frame import NANOSECONDS
from sightline_plugins.rules.deepstream_history import Histories, ObjectHistories, Segment, whole_pixels
from sightline_plugins.rules.geometry import Mask
from sightline_plugins.rules.shapes import continued_tally, former_names

_LEAST_SQUARE, _LEAST_FRAMES, _LEAST_COSINE = 3000, 10, 0.5
"""The squared way in pixels and the number of frames have to be exceeded; the cosine to the arrow has to be reached."""


@dataclass(frozen=True, slots=True)
class DeepStreamRule:
    """A rule: the labels of the objects that it looks at (None for all), and, of a direction, its arrow in fractions
    of the frame or pixels.
    """

    classes: tuple[str, ...] | None
    arrow: Points = ()


class DeepStreamRules(Protocol):
    """The element: its rules by name."""

    @property
    def pixels(self) -> bool:
        """Whether coordinates are pixels."""
        ...

    @property
    def window(self) -> int:
        """How many frames are remembered of each object."""
        ...

    def deepstream_rules(self) -> Mapping[str, DeepStreamRule]:
        """Return the rules."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class SeenFrame:
    """The N objects of one frame for R rules.

    wanted   (N, R)  which objects each rule looks at, by its classes and its schedule
    own      slice of the objects among those of `update`
    gone     the objects that were forgotten: when each was seen last, by its track
    active   (R,)    which rules are active
    """

    now_ns: int
    objects: Histories
    wanted: Mask
    own: slice
    gone: Mapping[int, int]
    active: Mask


class DeepStreamMotion(StreamRule):
    """What both kinds share: the rules of one stream, the histories of its objects, and the counts by rule."""

    def __init__(self, options: DeepStreamRules, earlier: DeepStreamMotion | None = None) -> None:
        self._take(options)
        self._objects = ObjectHistories(options.window)
        self._size_wh: tuple[int, int] | None = None
        self.tally: dict[str, dict[str, int]] = (
            {name: self._nothing() for name in self._rules} if earlier is None else earlier.tally
        )

    def change(self, rule: Any) -> None:
        """Take over other rules, between two frames. Counts go on by name, also of rules that are renamed."""
        former = self._rules
        self._take(rule)
        names = former_names(former, self._rules)
        self._objects.take_over({name: old for name, old in names.items() if self._rules[name] == former[old]})
        self.tally = continued_tally(self.tally, former=names, names=list(self._rules), make=self._nothing)
        if self._size_wh is not None:
            self.place(self._size_wh)

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Take the size of the frames: all rules look at the whole frame."""
        self._size_wh = size_wh
        width, height = size_wh
        return dict.fromkeys(self._rules, ((0, 0), (width, 0), (width, height), (0, height)))

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield what the rules saw on each frame."""
        active = tracks.when_active()
        wanted = np.ones((len(tracks), len(self._rules)), np.bool_) if active is None else active
        for number, rule in enumerate(self._rules.values()):
            if rule.classes is not None:
                wanted[:, number] &= tracks.has_label(rule.classes)
        self._begin(tracks)
        always = np.ones((len(tracks.pts_ns), len(self._rules)), np.bool_)
        is_active = always if tracks.active is None else tracks.active
        for number, (now_ns, own) in enumerate(zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True)):
            gone = self._objects.forget(now_ns)
            objects = self._objects.add(tracks, own, now_ns=now_ns)
            yield self._judge(SeenFrame(now_ns, objects, wanted[own], own, gone, is_active[number]))

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the counts for the report, also of rules that are gone."""
        return self.tally

    def save(self) -> Saved:
        """Return the counts and the histories."""
        return {
            "tally": {name: dict(own) for name, own in self.tally.items()},
            "histories": self._objects.save(),
        }

    def restore(self, saved: Saved) -> None:
        """Go on with the counts and the histories."""
        tally = {str(name): {one: int(own[one]) for one in self._nothing()} for name, own in saved["tally"].items()}
        self._objects.restore(saved["histories"], set(self._rules))
        self.tally = {**self.tally, **tally}

    def end(self) -> None:
        self._objects.clear()

    def _take(self, options: DeepStreamRules) -> None:
        self._rules, self._pixels = options.deepstream_rules(), options.pixels

    def _begin(self, tracks: TrackedObjects) -> None:
        """Prepare for the objects of the next frames."""

    @abstractmethod
    def _nothing(self) -> dict[str, int]:
        """Return the counts of a rule that has counted nothing."""

    @abstractmethod
    def _judge(self, seen: SeenFrame) -> list[RuleEvent]:
        """Return the events of the next frame."""


class DeepStreamDirection(DeepStreamMotion):
    """The directions of one stream, and which objects move along them: `dirStatus` of DeepStream."""

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert the arrows to whole pixels of frames of that size, by truncation."""
        arrows: list[Segment] = []
        for rule in self._rules.values():
            start, to = (whole_pixels(point, size_wh, pixels=self._pixels) for point in rule.arrow)
            arrows.append((start, to))
        ends = np.array(arrows, np.float64)
        along = ends[:, 1] - ends[:, 0]
        length = np.hypot(*along.T)
        self._along = along / np.where(length == 0, 1, length)[:, None]
        self._graphics = tuple(Arrows(one.reshape(1, 4).astype(np.float32)) for one in ends)
        return super().place(size_wh)

    def attributes(self) -> Mapping[str, npt.NDArray[np.str_]]:
        """Return the directions of the objects of the latest frames, as `direction`."""
        return {"direction": np.array(self._labels, np.str_)}

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many objects have moved in each direction: `right`."""
        return {name: self.tally[name] for name in self._rules}

    def graphics(self) -> tuple[Arrows, ...]:
        """Return the directions as arrows."""
        return self._graphics

    def _nothing(self) -> dict[str, int]:
        return {"right": 0}

    def _begin(self, tracks: TrackedObjects) -> None:
        self._labels = [""] * len(tracks)

    def _judge(self, seen: SeenFrame) -> list[RuleEvent]:
        objects = seen.objects
        way = (objects.sample[:, :2] - objects.before[:, :2]).astype(np.float64)
        length = np.hypot(*way.T)
        has_come = (objects.squared_way() > _LEAST_SQUARE) & (objects.frames > _LEAST_FRAMES) & ~objects.is_still
        has_come &= length > 0
        cosine = way @ self._along.T / np.where(length == 0, 1, length)[:, None]
        events, names = list[RuleEvent](), list(self._rules)
        for row, number in np.argwhere(seen.wanted & has_come[:, None] & (cosine >= _LEAST_COSINE)).tolist():
            name, track_id = names[number], int(objects.track_id[row])
            place = seen.own.start + row
            self._labels[place] = f"{self._labels[place]}, {name}" if self._labels[place] else name
            if self._objects.report(track_id, name):
                self.tally[name]["right"] += 1
                x, y = way[row].tolist()
                angle = round(float(np.degrees(np.arctan2(-y, x))) % 360, 1) % 360
                data: dict[str, str | int | float] = {"state": "right", "angle": angle, "track_id": track_id}
                events.append(RuleEvent("direction", name, data))
        return events


class DeepStreamStopped(DeepStreamMotion):
    """Which objects of one stream stand: STOPPED in `objStatus` of DeepStream."""

    def __init__(self, options: DeepStreamRules, earlier: DeepStreamStopped | None = None) -> None:
        super().__init__(options, earlier)
        self._since_ns: dict[str, dict[int, int]] = {name: {} for name in self._rules}
        """Since when each object stands, by the rule and the track; those that are hidden stand until forgotten."""

    def change(self, rule: Any) -> None:
        """Take over other rules, between two frames; nothing ends because a rule is gone."""
        former, since_ns = self._rules, self._since_ns
        super().change(rule)
        names = former_names(former, self._rules)
        self._since_ns = {name: since_ns[names[name]] if name in names else {} for name in self._rules}

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many objects stand `now`, and how many have `stopped` so far."""
        return {name: {"now": len(self._since_ns[name]), **self.tally[name]} for name in self._rules}

    def save(self) -> Saved:
        """Return the counts, the histories, and who stands."""
        standing = {name: [list(one) for one in own.items()] for name, own in self._since_ns.items()}
        return {**super().save(), "standing": standing}

    def restore(self, saved: Saved) -> None:
        """Go on with the counts, the histories, and who stands."""
        standing = saved["standing"]
        since_ns = {name: {int(one): int(at) for one, at in standing.get(name, ())} for name in self._rules}
        super().restore(saved)
        self._since_ns = since_ns

    def end(self) -> None:
        super().end()
        self._since_ns = {name: {} for name in self._rules}

    def _nothing(self) -> dict[str, int]:
        return {"stopped": 0}

    def _judge(self, seen: SeenFrame) -> list[RuleEvent]:
        now_ns, track_ids = seen.now_ns, seen.objects.track_id.tolist()
        stands = seen.wanted & seen.objects.is_still[:, None]
        is_still = dict(zip(track_ids, seen.objects.is_still.tolist(), strict=True))
        events: list[RuleEvent] = []
        for number, name in enumerate(self._rules):
            since_ns = self._since_ns[name]
            standing = set(seen.objects.track_id[stands[:, number]].tolist())
            for track_id in [one for one in since_ns if one not in standing]:
                if track_id in is_still or not seen.active[number]:
                    state = "moving" if seen.active[number] and not is_still[track_id] else "gone"
                    events.append(self._event(name, track_id, state, now_ns - since_ns.pop(track_id)))
                elif track_id in seen.gone:
                    events.append(self._event(name, track_id, "gone", seen.gone[track_id] - since_ns.pop(track_id)))
            for track_id in track_ids:
                if track_id in standing and track_id not in since_ns:
                    since_ns[track_id] = now_ns
                    self.tally[name]["stopped"] += 1
                    events.append(self._event(name, track_id, "stopped", 0))
        return events

    def _event(self, name: str, track_id: int, state: str, lasted_ns: int) -> RuleEvent:
        data: dict[str, str | int | float] = {
            "state": state,
            "track_id": track_id,
            "stopped_seconds": round(max(lasted_ns, 0) / NANOSECONDS, 3),
        }
        return RuleEvent("stopped", name, data, Part.BEGIN if state == "stopped" else Part.END, track_id)
