"""A zone that is edited a hundred times while four streams run, on real clips."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event as Signal
from threading import Lock

import pytest

from sightline import Pipeline
from sightline.graph import Message, MessageKind, PipelineDescription
from sightline.media import Batch, Event
from sightline.testing import FrameOrder, assert_accounted
from sightline_plugins import Lines, Replay, Zones
from tests.integration.figures import Record
from tests.waiting import wait_until

LIMIT_SECONDS = 300
EDITS = 100
STREAMS = tuple(f"street{number}" for number in range(4))
BOX = [[0.19, 0.5], [0.69, 0.42], [0.82, 0.57], [0.19, 0.61]]
LINE = {"from": [0.18, 0.62], "to": [0.82, 0.58]}
Found = dict[tuple[str, int], list[tuple[str, str, object]]]
"""Events by stream and frame: kind, rule and track."""


class Events:
    """Keeps the events of a run."""

    def __init__(self) -> None:
        self.found: Found = {}
        self._lock = Lock()

    def __call__(self, batch: Batch, events: Sequence[Event]) -> None:
        with self._lock:
            for event in events:
                frame = batch.frames[event.frame]
                own = self.found.setdefault((frame.stream.name, frame.index), [])
                own.append((event.kind, event.rule, event.data.get("track_id")))

    def between(self, first: int, last: int) -> Found:
        """The events on frames after `first`, up to `last`."""
        return {place: sorted(events, key=str) for place, events in self.found.items() if first < place[1] <= last}


def zone(shift: float) -> Zones:
    return Zones(box={"polygon": [[x + shift, y] for x, y in BOX]})


@pytest.fixture
def pipeline(repository: Path) -> Pipeline:
    clip = repository / "sample_videos" / "street.mp4"
    steps = [Replay(path=str(clip.with_suffix(".mot.txt")), label="car", ids=True), Lines(road=LINE), zone(0)]
    return Pipeline(sources={name: {"uri": str(clip), "realtime": True} for name in STREAMS}, steps=steps)


def moved(shift: float) -> Callable[[PipelineDescription], PipelineDescription]:
    return lambda now: now.with_element("zones-1", zone(shift))


def hold(batch: Batch, *, until: Signal) -> None:
    """Play the second half slowly, so that the clip does not end before the edits on a busy machine."""
    if batch.frames[-1].index > 300:
        until.wait(0.5)


@pytest.mark.row(id="A14")
def test_a_zone_is_edited_a_hundred_times_and_nothing_is_lost(pipeline: Pipeline, figure: Record) -> None:
    alone, edited, order, messages = Events(), Events(), FrameOrder(), list[Message]()
    quick = {
        name: source.model_copy(update={"realtime": False}) for name, source in pipeline.description.sources.items()
    }
    untouched = Pipeline.from_description(pipeline.description.model_copy(update={"sources": quick}))
    untouched.on_events(alone)
    undisturbed = untouched.run()
    seen = dict.fromkeys(STREAMS, -1)
    pipeline.on_events(edited)
    pipeline.on_message(messages.append)
    pipeline.probe("zones-1", order)
    pipeline.probe("zones-1", lambda batch: seen.update({frame.stream.name: frame.index for frame in batch.frames}))
    are_made = Signal()
    pipeline.probe("zones-1", lambda batch: hold(batch, until=are_made))

    pipeline.start()
    wait_until(lambda: min(seen.values()) > 150)
    first, longest, changes = min(seen.values()), 0.0, []
    for number in range(EDITS):
        shift = 0.001 * (EDITS - 1 - number)  # the last one is the zone that was
        began = time.monotonic()
        changes.append(pipeline.change(moved(shift), expected=pipeline.configuration.etag, prove="2s", by="ada"))
        changes[-1].applied.wait(LIMIT_SECONDS)
        longest = max(longest, time.monotonic() - began)
    are_made.set()
    last = max(seen.values())
    report = pipeline.wait()
    for change in changes:
        change.wait(LIMIT_SECONDS)

    assert_accounted(report)
    order.check(report)
    assert [stream.processed for stream in report.streams] == [stream.processed for stream in undisturbed.streams]
    assert report.totals["lines-1"] == undisturbed.totals["lines-1"]
    end = report.streams[0].processed
    assert 150 < first < last < end
    assert edited.between(-1, first) == alone.between(-1, first)
    assert edited.between(last, end) == alone.between(last, end)
    assert any("box" in str(events) for events in edited.between(last, end).values())
    assert [one.kind for one in messages].count(MessageKind.RELOADED) == EDITS
    assert pipeline.configuration.number == EDITS + 1
    figure(f"{EDITS} edits of a zone, the slowest to be visible", longest, limit=0.5, unit="s")
