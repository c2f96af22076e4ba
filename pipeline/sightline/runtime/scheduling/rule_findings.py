"""What the rules of one element have found: events, which are reported once, and the counts of each stream."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from sightline.graph.rule import Counts
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

    def take(self, given: Batch, result: Batch) -> None:
        """Report the events that the operator has added, and keep the overlays that it has added."""
        before, after = given.columns.overlays, result.columns.overlays
        if after is not before and after:
            for row, frame in enumerate(result.frames):
                self._overlays[frame.stream.name] = after[row][len(before[row]) :] if before else after[row]
            if len(self._overlays) > _MOST_STREAMS:
                del self._overlays[next(iter(self._overlays))]
        if self._on_events is not None and result.events is not given.events:
            new = new_events(given.events, result.events)
            if new:
                named = [one if one.step else dataclasses.replace(one, step=self._element_id) for one in new]
                self._on_events(result, named)

    def counts(self) -> dict[str, Counts]:
        """Return the latest counts of rules that have an outline, by stream; from any thread."""
        latest = self._overlays.copy()
        return {stream: {one.name: dict(one.counts) for one in overlays} for stream, overlays in latest.items()}


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
