"""Counters: what is counted, and that all of it is published."""

from __future__ import annotations

from collections import Counter

import pytest

from sightline import Pipeline
from sightline.media import Batch, Objects, Origin, Stream
from sightline.runtime.stats.counters import (
    CounterInfo,
    DropReason,
    ElementStats,
    LinkStats,
    StreamStats,
    add_up,
    count_objects,
    counters,
    snapshot,
)
from sightline.runtime.stats.report import Report
from sightline.runtime.stats.snapshot import RunView, StreamStatus
from sightline.server.metrics import metrics_text
from sightline.server.status import status_json
from sightline.testing import make_frames
from tests.unit.runtime.elements import Find


def test_when_the_run_is_over_a_frame_that_an_input_still_has_in_hand_is_not_counted() -> None:
    stats = StreamStats(Stream("cam"))
    for _ in range(3):
        stats.receive()
    stats.finish(damaged=False, latency_ns=1)
    stats.drop(DropReason.OVERLOADED)

    stats.close()
    stats.drop(DropReason.STOPPED)
    stats.receive()

    assert (stats.received, stats.finished, stats.dropped) == (2, 1, {DropReason.OVERLOADED: 1})


@pytest.fixture(scope="module")
def finished() -> tuple[Report, RunView, tuple[StreamStatus, ...]]:
    pipeline = Pipeline(sources={"cam": {"pattern": "bars", "frames": 3}})
    report = pipeline.run()
    view = pipeline.view()
    assert view is not None
    return report, view, pipeline.status()


@pytest.mark.parametrize("info", counters(StreamStats), ids=lambda info: str(info.field))
def test_every_counter_of_a_stream_is_published_everywhere(
    info: CounterInfo, finished: tuple[Report, RunView, tuple[StreamStatus, ...]]
) -> None:
    report, view, (status,) = finished
    in_report = "frames" if info.key == "received" else info.key

    assert in_report in report.to_json()["streams"]["cam"]
    assert info.key in status.counts
    assert info.key in status_json(view, is_ready=True, messages=[])["streams"][0]
    assert f"sightline_{info.metric}_total{{" in metrics_text(view, is_ready=True)


@pytest.mark.parametrize("info", counters(LinkStats), ids=lambda info: str(info.field))
def test_every_counter_of_a_link_is_in_the_report(info: CounterInfo) -> None:
    report = Pipeline(sources={"cam": {"pattern": "bars", "frames": 3}}, steps=[Find()]).run()

    assert report.links
    assert all(info.key in link for link in report.to_json()["links"].values())


def test_times_are_published_in_seconds_and_reasons_by_name() -> None:
    stats = StreamStats(Stream("cam"), read_cpu_ns=1_500_000_000)
    stats.drop(DropReason.OVERLOADED, 2)

    counts = snapshot(stats)

    assert (counts["read_cpu_seconds"], counts["dropped"]) == (1.5, {"overloaded": 2})


def batch_of(*labels: list[str]) -> Batch:
    """A batch with a frame for each list, with objects of these labels on it."""
    rows = [(frame, label) for frame, found in enumerate(labels) for label in found]
    names = tuple(sorted({label for _, label in rows}))
    objects = Objects.from_columns(
        frame=[frame for frame, _ in rows],
        xyxy=[(0, 0, 8, 8)] * len(rows),
        confidence=[1.0] * len(rows),
        class_id=[names.index(label) for _, label in rows],
        source=Origin("detect-1", names),
    )
    return Batch(tuple(make_frames(len(labels))), objects=objects)


def test_what_is_present_is_what_the_newest_frame_of_each_stream_holds() -> None:
    gate, yard = StreamStats(Stream("gate")), StreamStats(Stream("yard"))

    count_objects(batch_of(["car", "car"], ["car", "bus"], ["car"]), [gate, gate, yard])
    assert (gate.present, yard.present) == ({"car": 1, "bus": 1}, {"car": 1})
    assert gate.labels["car"].objects == 3

    count_objects(batch_of([]), [yard])
    assert (gate.present, yard.present) == ({"car": 1, "bus": 1}, {})


def test_the_status_has_what_is_present_and_how_long_a_stream_has_been_silent(
    finished: tuple[Report, RunView, tuple[StreamStatus, ...]],
) -> None:
    view = finished[1]
    view.streams[0].present = {"car": 2}
    view.streams[0].received_ns = view.at_ns - 1_500_000_000

    (stream,) = status_json(view, is_ready=True, messages=[])["streams"]

    assert (stream["present"], stream["silent_seconds"]) == ({"car": 2}, 1.5)


def test_the_stats_of_an_element_in_two_lanes_are_added_up() -> None:
    one = ElementStats("a-1", "a", calls=2, busy_ns=5, failures=Counter({"ValueError": 1}))
    other = ElementStats("a-1", "a", calls=3, busy_ns=6, failures=Counter({"ValueError": 1, "KeyError": 1}))

    whole = add_up([one, other])

    assert (whole.calls, whole.busy_ns, whole.failures) == (5, 11, Counter({"ValueError": 2, "KeyError": 1}))
    assert one.calls == 2
