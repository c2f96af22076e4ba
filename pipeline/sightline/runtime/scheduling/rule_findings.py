"""What the rules of one element have found: events, which are reported once, and the counts of each stream."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence

from sightline.graph.rule import INSIDE, Counts, Occupancy
from sightline.media import Batch, Event, Overlay

EventListener = Callable[[Batch, Sequence[Event]], None]
"""Gets the events that a step has just reported, and the batch on whose frames they are."""
_MOST_STREAMS = 1_000


class RuleFindings:
    """Compares what an operator was given with what it returned; for the thread that runs the operator.

    A step that adds neither events nor overlays costs two comparisons of identity.
    """

    def __init__(self, element_id: str, *, on_events: EventListener | None) -> None:
        self._element_id = element_id
        self._on_events = on_events
        self._overlays: dict[str, tuple[Overlay, ...]] = {}
        self._occupancy: dict[str, dict[str, Counter[int]]] = {}

    def take(self, given: Batch, result: Batch) -> None:
        """Report the events that the operator has added, and keep the overlays that it has added."""
        before, after = given.columns.overlays, result.columns.overlays
        if after is not before and after:
            for row, frame in enumerate(result.frames):
                own = after[row][len(before[row]) :] if before else after[row]
                self._overlays[frame.stream.name] = own
                self._count_inside(frame.stream.name, own)
            if len(self._overlays) > _MOST_STREAMS:
                oldest = next(iter(self._overlays))
                del self._overlays[oldest]
                self._occupancy.pop(oldest, None)
        if self._on_events is not None and result.events is not given.events:
            new = new_events(given.events, result.events)
            if new:
                named = [one if one.step else dataclasses.replace(one, step=self._element_id) for one in new]
                self._on_events(result, named)

    def counts(self) -> dict[str, Counts]:
        """Return the latest counts of rules that have an outline, by stream; from any thread."""
        latest = self._overlays.copy()
        return {stream: {one.name: dict(one.counts) for one in overlays} for stream, overlays in latest.items()}

    def occupancy(self) -> dict[str, Occupancy]:
        """Return how many objects were inside on how many frames since the beginning, by stream; from any thread."""
        counted = self._occupancy.copy()
        return {stream: {rule: one.copy() for rule, one in own.copy().items()} for stream, own in counted.items()}

    def _count_inside(self, stream: str, overlays: Sequence[Overlay]) -> None:
        for overlay in overlays:
            for name, value in overlay.counts:
                if name == INSIDE:
                    by_rule = self._occupancy.setdefault(stream, {})
                    by_rule.setdefault(overlay.name, Counter())[value] += 1


def new_events(before: Sequence[Event], after: Sequence[Event]) -> list[Event]:
    """Return the events of `after` that are not among those `before`, in their order."""
    known = {id(event) for event in before}
    new = [event for event in after if id(event) not in known]
    if len(new) == len(after) - len(before):
        return new
    left, new = list(before), []  # the operator has made events anew, or has removed some
    for event in after:
        if event in left:
            left.remove(event)
        else:
            new.append(event)
    return new
