"""The rule contract: tracked objects of one stream in, as columns; events, attributes and running counts out.

A rule element holds one or more named rules (`gate_in`, `plaza`). It subclasses `Rule` and makes a `StreamRule` for
each stream; everything else is shared: which objects belong to which stream and frame, events in the order of frames,
the outlines and counts that `draw` shows, and the totals in the report. A package registers its rule like any element,
under `sightline.elements`. `sightline.testing.rule_conformance` tests the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.graph.element import Capability, Element
from sightline.graph.operator import Operator
from sightline.graph.rule_options import CoolDowns, RuleOptions, with_severity
from sightline.graph.site import Clock, Site, SystemClock
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media import Alarm, Batch, Event, Frame, Graphic, Overlay, Part, Stream, Views

Points: TypeAlias = tuple[tuple[float, float], ...]
Counts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Counts by rule and name, in the order in which they are drawn."""
INSIDE = "inside"
"""The name of the count of objects that are in a zone now: its history is the zone's occupancy."""
TALLY = "tally"
"""Where a saved state has what was counted."""
Occupancy: TypeAlias = Mapping[str, Mapping[int, int]]
"""On how many frames a number of objects was inside, by rule and by that number."""


@dataclass(frozen=True, slots=True)
class RuleEvent:
    """Something a rule saw on a frame: its kind, the rule's name, and what is written with the event, in order.

    `part` marks the two events of something that lasts, and `subject` tells several that last at once apart (a track,
    for instance): so a cool-down reports either both or none of them.
    """

    kind: str
    rule: str
    data: Mapping[str, str | int | float] = field(default_factory=dict)
    part: Part = Part.MOMENT
    subject: int = -1


class StreamRule(ABC):
    """The rules of one element on one stream: their state. One thread at a time calls it, frames come in order."""

    @abstractmethod
    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Take the size of the stream's frames, and return the outline of each rule in pixels, for `draw`.

        Called before the first frame, and again when the size changes. A rule without an outline is not drawn.
        """

    @abstractmethod
    def update(self, tracks: TrackedObjects) -> Iterable[Sequence[RuleEvent]]:
        """Yield the events of each frame, in order; `counts` is read after each.

        Results must not depend on how many frames come together.
        """

    def attributes(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return what was found of the objects of the latest `update`: columns (N,) of numbers, NaN for nothing, or of
        texts, empty for nothing, by name.

        They become attributes of the objects, which `draw` shows and outputs write. Read when all frames were yielded.
        """
        return {}

    @abstractmethod
    def counts(self) -> Counts:
        """Return the counts that are drawn."""

    def graphics(self) -> tuple[Graphic, ...]:
        """Return what is drawn beside the outlines, such as a heat map; read after each frame, like `counts`."""
        return ()

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the counts for the report, by rule."""
        return self.counts()

    def change(self, rule: Any) -> None:
        """Take over the element with other options, between two frames; `place` is called before the next one.

        Only for rules with options that change live. Counts of rules that stay go on, those of rules that are gone stay
        in the totals, and the change itself is no event: what happens to an object because a rule was moved is not what
        the object did. A change to equal options changes nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} takes over no options: {rule.name} must not mark any")

    @abstractmethod
    def save(self) -> Saved:
        """Return all that later events and counts depend on, for another process.

        What was counted stands under `TALLY`, by rule, and nothing else does: counts that begin anew are restored
        without.
        """

    @abstractmethod
    def restore(self, saved: Saved) -> None:
        """Take over what a state of this rule has saved in an earlier process: counts go on, and what lasted lasts.

        Called once, before `place` and the first frame. The rules may have been changed meanwhile: what still
        fits is taken over by name, the rest is forgotten. Raises KeyError, TypeError or ValueError when `saved` is
        something else. Rules that are not under `TALLY` have counted nothing.
        """

    @abstractmethod
    def end(self) -> None:
        """Forget the tracks: the stream has ended. The totals stay."""


class Rule(Element):
    """Base of elements whose rules watch tracked objects, such as `lines` and `zones`."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.TRACKS})
    gives: ClassVar[frozenset[Capability]] = frozenset({Capability.EVENTS})
    outline: ClassVar[Literal["line", "zone"]] = "zone"
    """How outlines are drawn: as an open line, or as a closed zone."""

    def rule_names(self) -> Iterable[str]:
        """Return the names of the rules, which stand in events and in the report."""
        return (self.name,)

    def rule_options(self) -> Mapping[str, RuleOptions]:
        """Return the options of each rule that the framework sees to, by name; rules that are not here have none."""
        return {}

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        """Make the state of a stream; `earlier` is that of an ended stream of this name, whose counts go on."""
        raise NotImplementedError

    def in_views(self, views: Views | None, *, size_wh: tuple[int, int]) -> Rule:
        """Return this element for frames of that size that are composed of these views (None: of none): with the
        coordinates of the frame instead of those of a view. Raises ConfigurationError for a view that is not there.
        """
        del views, size_wh
        return self

    def found_rules(self) -> frozenset[str]:
        """Return the names of the rules."""
        return frozenset(self.rule_names())

    def serves_all_gpus(self) -> bool:
        """Return True: counts go on when a GPU is lost."""
        return True

    def build(self, site: Site) -> RuleOperator:
        """Make the operator."""
        return RuleOperator(self, step=site.element_id, clock=site.clock)


_UNKNOWN_SIZE_WH = (0, 0)
_SETTLING_NS = 10_000_000_000
"""For how long after a restart the time of day of a frame may turn out to be too late."""


@dataclass(slots=True, eq=False)
class _Watched:
    """A stream, the size of its frames, the clock of its rules, and the overlays for its present counts."""

    rule: StreamRule
    shift_ns: int = 0
    """What is added to the times of its frames: 0 unless it goes on with the state of an earlier process."""
    not_before_ns: int | None = None
    """Since `shift_ns` became less: the time of the last frame before, by the clock of the rules."""
    settling: tuple[int, int] | None = None
    """After a restart, the least that the time of day was ahead of that of a frame, and until which frame it counts."""
    last: tuple[int, int] = (0, 0)
    """The time of the last frame by the clock of the rules, and its time of day."""
    cool_downs: CoolDowns = field(default_factory=CoolDowns)
    size_wh: tuple[int, int] = _UNKNOWN_SIZE_WH
    frame_wh: tuple[int, int] = _UNKNOWN_SIZE_WH
    """The size of its last frame; `size_wh` is that for which the rules were placed."""
    views: Views | None = None
    """What its frames are composed of."""
    saved: Saved | None = None
    """The state that `rule` was restored from, until the first frame says what views there are."""
    outlines: Mapping[str, Points] = field(default_factory=dict)
    shown: tuple[tuple[tuple[str, int], ...], ...] | None = None
    overlays: tuple[Overlay, ...] = ()

    def go_on(self, pts_ns: int, epoch_ns: int) -> None:
        """Let the clock of the rules go on at the first frame after a restart."""
        before_ns, before_epoch_ns = self.last
        self.shift_ns = before_ns + max(epoch_ns - before_epoch_ns, 0) - pts_ns
        self.settling = epoch_ns - pts_ns, pts_ns + _SETTLING_NS

    def settle(self, pts_ns: int, epoch_ns: int) -> None:
        """Correct the clock by a later frame. The first one of a camera waits for the connection, or its time is that
        of its arrival, before the camera has told its own: it seems to be late.
        """
        if self.settling is None:
            return
        ahead_ns, until_ns = self.settling
        late_ns = ahead_ns - (epoch_ns - pts_ns)
        if late_ns > 0:
            self.shift_ns, self.not_before_ns = self.shift_ns - late_ns, self.last[0]
        self.settling = None if pts_ns > until_ns else (ahead_ns - max(late_ns, 0), until_ns)


class RuleOperator(Operator):
    """Feed each stream's tracked objects to its rules; add their events and overlays to the batch."""

    def __init__(self, rule: Rule, *, step: str = "", clock: Clock | None = None) -> None:
        self._step = step
        self._clock = clock or SystemClock()
        self._streams: dict[Stream, _Watched] = {}
        self._latest: dict[str, StreamRule] = {}
        self._restored: dict[str, _Watched] = {}
        self._resets: deque[str | None] = deque()
        self._take(rule)

    def process(self, batch: Batch) -> Batch:
        """Add what the rules saw as events, and their outlines with counts as overlays."""
        while self._resets:
            self._count_anew(self._resets.popleft())
        events: list[Event] = []
        alarms: list[tuple[Alarm, ...]] = [()] * len(batch)
        overlays: list[tuple[Overlay, ...]] = [()] * len(batch)
        graphics: list[tuple[Graphic, ...]] = [()] * len(batch)
        objects = batch.objects
        for rows in _by_stream(batch).values():
            times_ns = [self._time_of_day(batch.frames[row]) for row in rows]
            watched = self._watched(batch.frames[rows[0]], times_ns[0])
            tracks = TrackedObjects.of(
                batch,
                rows,
                shift_ns=watched.shift_ns,
                not_before_ns=watched.not_before_ns,
                times_ns=times_ns,
                schedules=self._schedules,
            )
            watched.last = int(tracks.pts_ns[-1]), times_ns[-1]
            for row, now_ns, seen in zip(rows, tracks.pts_ns.tolist(), watched.rule.update(tracks), strict=True):
                for event in seen:
                    made = Event(event.kind, event.rule, row, self._data(event), self._step, event.part, event.subject)
                    if event.rule in self._verified:
                        alarms[row] += (Alarm(made, now_ns, self._options[event.rule]),)
                    elif self._is_reported(watched, event, now_ns):
                        events.append(made)
                overlays[row], graphics[row] = self._overlays(watched), watched.rule.graphics()
            for name, values in watched.rule.attributes().items():
                objects = tracks.with_attribute(objects, name, values=values)
        found = batch.with_objects(objects).with_events(events).with_alarms(alarms)
        return found.with_overlays(overlays).with_graphics(graphics)

    def save(self, stream: Stream) -> Saved | None:
        """Return the state of the rules on a stream, and when it was."""
        watched = self._streams.get(stream)
        if watched is None:
            return None
        now_ns, epoch_ns = watched.last
        state = {"rules": watched.rule.save(), "cool_downs": watched.cool_downs.save()}
        return {"now_ns": now_ns, "epoch_ns": epoch_ns, **state}

    def restore(self, stream: str, saved: Saved) -> None:
        """Let the rules go on with the state of an earlier process, with the first frame of the stream."""
        rule = self._rule.watch(None)
        rule.restore(saved["rules"])
        last = int(saved["now_ns"]), int(saved["epoch_ns"])
        watched = _Watched(rule, last=last, saved=saved["rules"])
        watched.cool_downs.restore(saved["cool_downs"])
        self._restored[stream] = watched

    def change(self, rule: Rule) -> None:
        """Let the rules of all streams take over other options; their counts go on."""
        self._take(rule)
        watched_ones = [*self._streams.values(), *self._restored.values()]
        placed = {one.rule: rule.in_views(one.views, size_wh=one.frame_wh) for one in self._streams.values()}
        for state in dict.fromkeys([*self._latest.values(), *(watched.rule for watched in watched_ones)]):
            state.change(placed.get(state, rule))
        for watched in watched_ones:
            watched.size_wh, watched.shown = _UNKNOWN_SIZE_WH, None

    def reset_counts(self, stream: str | None) -> None:
        """Let the counts of a stream, or of all (None), begin anew with the next batch; what lasts goes on. From any
        thread.
        """
        self._resets.append(stream)

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's tracks; its totals stay."""
        watched = self._streams.pop(stream, None)
        if watched is not None:
            watched.rule.end()

    def close(self) -> None:
        """End all streams."""
        for stream in list(self._streams):
            self.end_stream(stream)

    def totals(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Return the totals of each rule by stream."""
        return {stream: rule.totals() for stream, rule in self._latest.items()}

    def _count_anew(self, stream: str | None) -> None:
        """Let the counts of a stream, or of all, begin anew: as after a restart that has lost them."""
        watched_ones = [one for key, one in self._streams.items() if stream in (None, key.name)]
        watched_ones += [one for name, one in self._restored.items() if stream in (None, name)]
        anew: dict[StreamRule, StreamRule] = {}
        for watched in watched_ones:
            saved = {**watched.rule.save(), TALLY: {}}
            is_begun = watched.saved is None
            placed = self._rule.in_views(watched.views, size_wh=watched.frame_wh) if is_begun else self._rule
            fresh = placed.watch(None)
            fresh.restore(saved)
            anew[watched.rule] = watched.rule = fresh
            watched.saved = None if is_begun else saved
            watched.size_wh, watched.shown = _UNKNOWN_SIZE_WH, None
        for name, rule in self._latest.items():
            if stream in (None, name):
                self._latest[name] = anew.get(rule) or self._rule.watch(None)

    def _take(self, rule: Rule) -> None:
        self._rule = rule
        self._options = rule.rule_options()
        self._verified = {name for name, one in self._options.items() if one.verification is not None}
        own = (self._options.get(name) for name in rule.rule_names())
        self._schedules = [None if one is None else one.schedule for one in own]

    def _time_of_day(self, frame: Frame) -> int:
        return self._clock.epoch_ns() if frame.capture_ns is None else frame.capture_ns

    def _is_reported(self, watched: _Watched, event: RuleEvent, now_ns: int) -> bool:
        options = self._options.get(event.rule)
        if options is None or not options.cooldown:
            return True
        return watched.cool_downs.lets_through(
            event.rule, event.kind, event.part, event.subject, cooldown_ns=options.cooldown, now_ns=now_ns
        )

    def _data(self, event: RuleEvent) -> Mapping[str, str | int | float]:
        options = self._options.get(event.rule)
        return event.data if options is None else with_severity(event.data, options.severity)

    def _watched(self, frame: Frame, epoch_ns: int) -> _Watched:
        """Return the state of a frame's stream, for frames of that size and with those views."""
        stream, size_wh, views = frame.stream, frame.size_wh, frame.views
        watched = self._streams.get(stream)
        if watched is None:
            placed = self._rule.in_views(views, size_wh=size_wh)
            watched = self._restored.pop(stream.name, None)
            if watched is None:
                watched = _Watched(placed.watch(self._latest.get(stream.name)))
            else:
                watched.go_on(frame.pts_ns, epoch_ns)
                if placed is not self._rule and watched.saved is not None:
                    watched.rule = placed.watch(None)
                    watched.rule.restore(watched.saved)
            watched.views, watched.saved = views, None
            self._streams[stream], self._latest[stream.name] = watched, watched.rule
        elif not _stand_alike(watched.views, views):
            watched.rule.change(self._rule.in_views(views, size_wh=size_wh))
            watched.views, watched.size_wh = views, _UNKNOWN_SIZE_WH
        watched.settle(frame.pts_ns, epoch_ns)
        watched.frame_wh = size_wh
        if watched.size_wh != size_wh:
            watched.size_wh, watched.shown = size_wh, None
            watched.outlines = watched.rule.place(size_wh)
        return watched

    def _overlays(self, watched: _Watched) -> tuple[Overlay, ...]:
        """Return the overlays for the present counts: the same ones until their counts change."""
        counts = watched.rule.counts()
        shown = tuple([tuple(counts[name].items()) for name in watched.outlines])
        if shown != watched.shown:
            before: Sequence[Overlay | None] = [None] * len(shown) if watched.shown is None else watched.overlays
            watched.shown = shown
            watched.overlays = tuple(
                former
                if former is not None and former.counts == own
                else Overlay(self._rule.outline, name, points, own)
                for (name, points), own, former in zip(watched.outlines.items(), shown, before, strict=True)
            )
        return watched.overlays


def _by_stream(batch: Batch) -> dict[tuple[Stream, tuple[int, int]], list[int]]:
    """Return the rows of a batch by stream (and by size, should it change), each in order."""
    rows: dict[tuple[Stream, tuple[int, int]], list[int]] = {}
    for row, frame in enumerate(batch.frames):
        rows.setdefault((frame.stream, frame.size_wh), []).append(row)
    return rows


def _stand_alike(former: Views | None, present: Views | None) -> bool:
    """Whether views have the same names and places."""
    if former is present:
        return True
    if former is None or present is None:
        return False
    return former.names == present.names and np.array_equal(former.xyxy, present.xyxy)
