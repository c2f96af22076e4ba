"""Traces of frames as a collector receives them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.runtime.stats.report import Report
from tests.integration.telemetry.collector import Attributes, Collector, attributes, collector

ZONES = {"zones": {"b": {"polygon": [[0, 0], [1, 0], [1, 1]]}}}


@dataclass(frozen=True)
class Span:
    """A span as a backend sees it; `parent` is the id of another span, empty for the first of a trace."""

    name: str
    id: bytes
    parent: bytes
    trace: bytes
    start_ns: int
    end_ns: int
    attributes: Attributes
    status: int
    message: str
    links: Sequence[bytes]


def traces_of(found: Collector) -> list[dict[bytes, Span]]:
    """The spans of each trace by their ids."""
    traces: dict[bytes, dict[bytes, Span]] = {}
    for request in found.trace_requests:
        for of_resource in request.resource_spans:
            for of_scope in of_resource.scope_spans:
                for one in of_scope.spans:
                    span = Span(
                        one.name,
                        one.span_id,
                        one.parent_span_id,
                        one.trace_id,
                        one.start_time_unix_nano,
                        one.end_time_unix_nano,
                        attributes(one.attributes),
                        one.status.code,
                        one.status.message,
                        [link.span_id for link in one.links],
                    )
                    spans = traces.setdefault(one.trace_id, {})
                    assert one.span_id not in spans
                    spans[one.span_id] = span
    return list(traces.values())


def root_of(trace: Mapping[bytes, Span]) -> Span:
    [root] = [span for span in trace.values() if not span.parent]
    return root


def names(trace: Mapping[bytes, Span]) -> list[str]:
    return sorted(span.name for span in trace.values())


def run(found: Collector, folder: Path, *, frames: int = 30, streams: int = 1) -> Report:
    """Run a pipeline with a step of each kind of threading, which traces every frame."""
    (folder / "det.txt").write_text("\n".join(f"{n + 1},-1,{4 + n},10,30,30,0.9,-1,-1,-1" for n in range(frames)))
    return Pipeline(
        sources={f"gate-{n}": {"pattern": "counter", "size": [64, 48], "frames": frames} for n in range(streams)},
        steps=[
            {"replay": {"path": str(folder / "det.txt"), "label": "car"}},
            "track",
            {"tee": {"files": [{"jsonl": "out/tee-{stream}.jsonl"}]}},
            {"parallel": {"left": [{"lines": {"a": {"from": [0, 0.2], "to": [1, 0.2]}}}], "right": [ZONES]}},
            {"video": "out/{stream}.mp4"},
            {"jsonl": "out/{stream}.jsonl"},
        ],
        telemetry={"endpoint": found.url, "sample": 1.0, "max_rate": 1000, "metrics": False},
        outputs=folder,
    ).run()


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Report, Collector]]:
    """A run of which every frame is traced."""
    with collector() as found:
        yield run(found, tmp_path_factory.mktemp("traced"), streams=2), found


def test_every_frame_is_one_trace_with_a_span_for_each_part_of_its_way(traced: tuple[Report, Collector]) -> None:
    report, found = traced

    traces = traces_of(found)

    assert len(traces) == report.frames == 60
    assert {tuple(names(trace)) for trace in traces} == {
        (
            "batch",
            "frame",
            "jsonl-1",
            "jsonl-2",
            "lines-1",
            "read",
            "replay-1",
            "track-1",
            "video-1",
            "wait into-left-1",
            "wait into-right-3",
            "wait source",
            "wait tee-files-0",
            "wait trunk-5",
            "wait video-1",
            "zones-1",
        )
    }


def test_parents_are_there_and_times_nest(traced: tuple[Report, Collector]) -> None:
    for trace in traces_of(traced[1]):
        root = root_of(trace)
        for span in trace.values():
            parent = trace[span.parent] if span.parent else root
            assert span.start_ns <= span.end_ns
            assert parent.start_ns <= span.start_ns
            assert span.end_ns <= parent.end_ns


def test_a_frame_goes_through_its_parts_in_order(traced: tuple[Report, Collector]) -> None:
    order = ["read", "wait source", "batch", "replay-1", "track-1", "wait trunk-5", "jsonl-2"]
    for trace in traces_of(traced[1]):
        by_name = {span.name: span for span in trace.values()}
        for before, after in pairwise(order):
            assert by_name[before].end_ns <= by_name[after].start_ns


def test_attributes_say_which_frame_and_which_batch(traced: tuple[Report, Collector]) -> None:
    roots = [root_of(trace) for trace in traces_of(traced[1])]

    ids = {(root.attributes["sightline.stream"], root.attributes["sightline.frame.index"]) for root in roots}
    assert ids == {(f"gate-{n}", index) for n in range(2) for index in range(30)}
    assert {root.attributes["sightline.frame.pts"] for root in roots if root.attributes["sightline.frame.index"] == 0}
    sizes = Counter(root.attributes["sightline.batch.id"] for root in roots)
    assert all(
        sizes[root.attributes["sightline.batch.id"]] == root.attributes["sightline.batch.size"] for root in roots
    )


def test_frames_of_a_batch_are_linked(traced: tuple[Report, Collector]) -> None:
    roots = [root_of(trace) for trace in traces_of(traced[1])]

    for root in roots:
        mates = {
            one.id
            for one in roots
            if one is not root and one.attributes["sightline.batch.id"] == root.attributes["sightline.batch.id"]
        }
        assert set(root.links) == mates


def test_steps_take_as_long_as_the_report_says(traced: tuple[Report, Collector]) -> None:
    report, found = traced
    for element in report.elements:
        spans = {
            span.attributes["sightline.batch.id"]: span
            for trace in traces_of(found)
            for span in trace.values()
            if span.name == element.element_id
        }
        lengths = [span.end_ns - span.start_ns for span in spans.values()]
        assert len(spans) == element.calls
        assert sum(int(span.attributes["sightline.element.frames"]) for span in spans.values()) == element.frames
        assert sum(lengths) >= element.latency.total_ns
        assert min(lengths) <= 1.2 * element.latency.percentile_ns(50)  # the others may have been interrupted


def test_latency_is_that_of_the_report(traced: tuple[Report, Collector]) -> None:
    report, found = traced
    roots = [root_of(trace) for trace in traces_of(found)]
    for stream in report.streams:
        of_stream = [root.attributes for root in roots if root.attributes["sightline.stream"] == stream.stream.name]
        latencies = [float(found["sightline.frame.latency"]) for found in of_stream]
        assert len(latencies) == stream.finished
        assert sum(latencies) == pytest.approx(stream.latency.total_ns / 1e9, rel=0.5)


def test_the_report_counts_what_was_sent(traced: tuple[Report, Collector]) -> None:
    report, found = traced

    assert report.to_json()["telemetry"] == {
        "traces": 60,
        "spans": sum(map(len, traces_of(found))),
        "spans_dropped": 0,
        "exports": 0,
        "exports_failed": 0,
    }


def test_the_resource_names_the_pipeline(traced: tuple[Report, Collector]) -> None:
    found = traced[1].trace_requests[0].resource_spans[0]

    resource = attributes(found.resource.attributes)
    assert resource["sightline.pipeline"] == "pipeline"
    assert {"service.name", "service.instance.id", "host.name"} <= set(resource)
    assert found.scope_spans[0].scope.name == "sightline"
