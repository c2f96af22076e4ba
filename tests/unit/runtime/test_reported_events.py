"""Events that listeners get, and the counts in the view of a run."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from threading import Lock

import pytest

from sightline import Pipeline
from sightline.graph import Element, Operator, Parallel, PipelineDescription, Site, Step, Tee
from sightline.media import Batch, Event, Overlay
from sightline.runtime.scheduling.rule_findings import RuleFindings, new_events
from sightline.testing import make_batches, make_frames
from tests.unit.runtime.elements import Find, Remark, Synthetic, Tally
from tests.waiting import wait_until

FRAMES = 20
Seen = dict[tuple[str, str], list[tuple[int, str, str]]]


class Renewed(Element):
    """Replaces events by equal ones, and adds one of its own to each frame."""

    name = "renewed"

    def build(self, site: Site) -> Operator:
        del site
        return _Renewer()


class _Renewer(Operator):
    def process(self, batch: Batch) -> Batch:
        again = [Event(one.kind, one.rule, one.frame, dict(one.data), one.step) for one in batch.events]
        own = [Event("remark", "own", row) for row in range(len(batch))]
        return Batch(batch.frames, batch.objects, (*again, *own), batch.tensors, batch.columns)


def run(*steps: Step, batch_size: int = 4) -> Seen:
    """The events that a listener gets, by step and stream: the frame, the kind and the rule."""
    sources = {name: Synthetic(frames=FRAMES) for name in ("gate", "yard")}
    pipeline = Pipeline.from_description(PipelineDescription(sources=sources, steps=steps, batch={"size": batch_size}))
    seen: Seen = defaultdict(list)
    lock = Lock()

    def listen(batch: Batch, events: Sequence[Event]) -> None:
        with lock:
            for event in events:
                frame = batch.frames[event.frame]
                seen[event.step, frame.stream.name].append((frame.index, event.kind, event.rule))

    pipeline.on_events(listen)
    pipeline.run()
    return seen


def every_frame(rule: str) -> list[tuple[int, str, str]]:
    return [(index, "remark", rule) for index in range(FRAMES)]


@pytest.mark.parametrize("batch_size", [1, 3, 16])
def test_each_step_reports_its_own_events_once_and_in_order(batch_size: int) -> None:
    seen = run(Remark(rule="a"), Find(), Remark(rule="b"), Tally(), batch_size=batch_size)

    assert seen == {
        (f"remark-{number}", stream): every_frame(rule)
        for number, rule in ((1, "a"), (2, "b"))
        for stream in ("gate", "yard")
    }


def test_events_in_branches_are_reported_by_the_branch_alone() -> None:
    seen = run(
        Remark(rule="main"),
        Tee(branches={"one": (Remark(rule="one"), Tally()), "two": (Tally(),)}),
        Parallel(branches={"left": (Find(), Remark(rule="left")), "right": (Remark(rule="right"),)}),
        Tally(),
    )

    assert {(step, rows[0][2]) for (step, _), rows in seen.items()} == {
        ("remark-1", "main"),
        ("remark-2", "one"),
        ("remark-3", "left"),
        ("remark-4", "right"),
    }
    assert all(rows == every_frame(rows[0][2]) for rows in seen.values())


def test_a_step_for_some_streams_reports_events_of_those() -> None:
    seen = run(Remark(rule="all"), Remark(rule="some", streams=("ya*",), id="some"))

    assert seen["some", "yard"] == every_frame("some")
    assert ("some", "gate") not in seen


def test_a_step_that_may_be_skipped_reports_its_events() -> None:
    seen = run(Remark(rule="a", on_error="skip"), Renewed(on_error="skip"))

    assert seen["remark-1", "gate"] == every_frame("a")
    assert seen["renewed-1", "gate"] == every_frame("own")


def test_events_that_a_step_has_made_anew_are_not_reported_again() -> None:
    seen = run(Remark(rule="a"), Renewed(), Renewed(id="again"))

    assert seen["remark-1", "yard"] == every_frame("a")
    assert seen["renewed-1", "yard"] == seen["again", "yard"] == every_frame("own")


def test_events_that_were_there_are_not_new() -> None:
    old = [Event("line", "a", 0, {"track_id": 1}), Event("line", "a", 0, {"track_id": 1})]
    new = Event("line", "b", 0)

    assert new_events(old, [old[0], new, old[1]]) == [new]
    assert new_events(old, [Event("line", "a", 0, {"track_id": 1}), new]) == [new]
    assert new_events(old, [new]) == [new]
    assert new_events([], [new, new]) == [new, new]


def test_a_step_that_a_reload_adds_reports_its_first_event() -> None:
    sources = {"gate": Synthetic(frames=None)}
    pipeline = Pipeline.from_description(PipelineDescription(sources=sources, steps=(Tally(),)))
    tally_frames: list[int] = []
    seen: list[int] = []

    def count(batch: Batch) -> None:
        tally_frames.extend(frame.index for frame in batch.frames)

    pipeline.probe("tally-1", count)
    pipeline.on_events(lambda batch, events: seen.extend(batch.frames[one.frame].index for one in events))
    with pipeline:
        wait_until(lambda: tally_frames)
        pipeline.reload(PipelineDescription(sources=sources, steps=(Remark(), Tally())), prove=0).wait(300)
        wait_until(lambda: len(seen) > 10)

    assert seen == list(range(seen[0], seen[-1] + 1))
    assert seen[0] > 0
    assert seen[-1] == tally_frames[-1]


def test_a_listener_that_fails_is_logged_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = Pipeline.from_description(
        PipelineDescription(sources={"gate": Synthetic(frames=3)}, steps=(Remark(),), batch={"size": 1})
    )
    pipeline.on_events(lambda batch, events: [][0])
    seen: list[Event] = []
    pipeline.on_events(lambda batch, events: seen.extend(events))

    with caplog.at_level(logging.ERROR):
        report = pipeline.run()

    assert report.frames == len(seen) == 3
    assert "a listener failed on 1 events of remark-1" in caplog.text


def test_the_counts_of_rules_are_kept_by_stream() -> None:
    def overlays(count: int) -> tuple[Overlay, ...]:
        return (Overlay("line", "gate_in", (), (("in", count),)),)

    batches = make_batches(make_frames(6), size=3)
    before = [one.with_overlays([(Overlay("zone", "other", (), (("inside", 9),)),)] * 3) for one in batches]
    findings = RuleFindings("lines-1", on_events=None)

    for number, batch in enumerate(before):
        findings.take(batch, batch.with_overlays([overlays(10 * number + row) for row in range(3)]))
        findings.take(batch, batch)

    assert findings.counts() == {batches[0].frames[0].stream.name: {"gate_in": {"in": 12}}}


def test_the_view_of_a_run_has_the_counts_of_its_rules() -> None:
    pipeline = Pipeline(
        sources={"street": "sample_videos/street.mp4"},
        steps=[
            {"replay": {"path": "sample_videos/street.mot.txt", "ids": True}},
            {"lines": {"middle": {"from": [0.5, 0], "to": [0.5, 1]}}},
        ],
    )

    report = pipeline.run(frames=200)
    view = pipeline.view()

    assert view is not None
    counts = view.counts["lines-1"]["street"]["middle"]
    assert sum(counts.values()) > 0
    assert counts.items() <= report.totals["lines-1"]["street"]["middle"].items()
