"""The metrics that a collector receives are those of `/metrics`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from sightline import Pipeline
from sightline.graph import Message, MessageKind
from sightline.runtime.stats.report import Report
from sightline.server.metrics import metrics_text
from tests.integration.delivery.web_server import Exchange, Request, web_server
from tests.integration.telemetry.collector import Collector, attributes, collector, protobuf
from tests.waiting import wait_until

Series = tuple[str, frozenset[tuple[str, str]]]
SAMPLE = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
UNITS = {"s": "_seconds", "By": "_bytes"}
MOVING = re.compile("sightline_(process_.*|pipeline_running|telemetry_.*|link_.*)")
"""What differs between two views of one run: the process, what is sent meanwhile, and links that have gone."""


def in_prometheus(request: ExportMetricsServiceRequest) -> dict[Series, float]:
    """The samples that Prometheus makes of a request, by its documented translation of names and units."""
    found: dict[Series, float] = {}

    def add(name: str, labels: Mapping[str, Any], value: float) -> None:
        key = name, frozenset((label, str(text)) for label, text in labels.items())
        assert key not in found
        found[key] = value

    for of_resource in request.resource_metrics:
        for of_scope in of_resource.scope_metrics:
            for metric in of_scope.metrics:
                name = metric.name.replace(".", "_") + UNITS.get(metric.unit, "")
                assert not metric.unit or metric.unit in UNITS or re.fullmatch(r"\{[a-z]+\}", metric.unit)
                if metric.WhichOneof("data") == "histogram":
                    for point in metric.histogram.data_points:
                        labels, total = attributes(point.attributes), 0
                        for limit, count in zip([*point.explicit_bounds, None], point.bucket_counts, strict=True):
                            total += count
                            le = "+Inf" if limit is None else f"{limit:g}"
                            add(f"{name}_bucket", {**labels, "le": le}, total)
                        add(f"{name}_sum", labels, point.sum)
                        add(f"{name}_count", labels, point.count)
                    continue
                is_sum = metric.WhichOneof("data") == "sum"
                assert not is_sum or (metric.sum.is_monotonic and metric.sum.aggregation_temporality == 2)
                for number in (metric.sum if is_sum else metric.gauge).data_points:
                    value = getattr(number, str(number.WhichOneof("value")))
                    add(name + ("_total" if is_sum else ""), attributes(number.attributes), value)
    return found


def in_text(text: str) -> dict[Series, float]:
    """The samples of `/metrics`; an empty label stands for none."""
    found: dict[Series, float] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            labels = frozenset((name, label) for name, label in LABEL.findall(match["labels"] or "") if label)
            found[match["name"], labels] = float(match["value"])
    return found


def pipeline(found: str, *, frames: int | None = 30, **telemetry: Any) -> Pipeline:
    source = {"pattern": "counter", "size": [64, 48], "frames": frames, "realtime": frames is None}
    return Pipeline(
        sources={"gate": source, "yard": source},
        steps=["draw", {"tee": {"second": ["draw"]}}],
        telemetry={"endpoint": found, "sample": 0, **telemetry},
        name="site",
    )


@pytest.fixture(scope="module")
def ended() -> tuple[Collector, dict[Series, float]]:
    """A run that has come to its end: what a collector has, and what `/metrics` says."""
    with collector() as found:
        run = pipeline(found.url)
        run.run()
    view = run.view()
    assert view is not None
    return found, in_text(metrics_text(view, is_ready=view.is_ready))


def test_all_names_and_labels_are_those_of_prometheus(ended: tuple[Collector, dict[Series, float]]) -> None:
    found, wanted = ended

    assert set(in_prometheus(found.metric_requests[-1])) == set(wanted)


def test_the_last_metrics_are_the_final_ones(ended: tuple[Collector, dict[Series, float]]) -> None:
    found, wanted = ended
    got = in_prometheus(found.metric_requests[-1])

    stable = {series for series in wanted if not MOVING.fullmatch(series[0])}
    assert len(stable) > 100
    assert {series: got[series] for series in stable} == pytest.approx({series: wanted[series] for series in stable})
    assert got["sightline_stream_frames_processed_total", frozenset({("stream", "gate")})] == 30


def test_the_resource_is_that_of_the_traces(ended: tuple[Collector, dict[Series, float]]) -> None:
    resource = attributes(ended[0].metric_requests[0].resource_metrics[0].resource.attributes)

    assert (resource["service.name"], resource["sightline.pipeline"]) == ("sightline", "site")


def test_counters_begin_with_the_run(ended: tuple[Collector, dict[Series, float]]) -> None:
    starts = {
        point.start_time_unix_nano
        for request in ended[0].metric_requests
        for metric in request.resource_metrics[0].scope_metrics[0].metrics
        for point in metric.sum.data_points
    }

    assert len(ended[0].metric_requests) >= 2
    assert len(starts) == 1, "another start means that all counters begin anew"


def test_metrics_are_sent_at_intervals_while_the_run_goes_on() -> None:
    with collector() as found, pipeline(found.url, frames=None, interval="200ms") as run:
        wait_until(lambda: len(found.metric_requests) >= 4)
        run.stop()
        report = run.wait()

    frames = ("sightline_stream_frames_processed_total", frozenset({("stream", "gate")}))
    counted = [in_prometheus(request).get(frames, 0.0) for request in found.metric_requests]
    assert counted == sorted(counted)
    assert counted[-1] > counted[0]
    assert report.telemetry is not None
    assert (report.telemetry.exports, report.telemetry.exports_failed) == (len(counted), 0)


def rejecting(exchange: Exchange, request: Request) -> None:
    partial = ExportMetricsPartialSuccess(rejected_data_points=2)
    protobuf(exchange, 200, ExportMetricsServiceResponse(partial_success=partial).SerializeToString())


def refusing(exchange: Exchange, request: Request) -> None:
    exchange.answer(403, "no")


def stalling(exchange: Exchange, request: Request) -> None:
    exchange.asked.ending.wait()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (refusing, "does not take the metrics: it answers 403"),
        (rejecting, "does not take the metrics: it rejected 2 of "),
        (stalling, "does not take the metrics: it does not answer in time"),
    ],
    ids=["refusing", "rejecting", "stalling"],
)
def test_a_collector_in_trouble_costs_one_warning_and_the_exports(
    script: Callable[[Exchange, Request], None], said: str
) -> None:
    messages: list[Message] = []
    with web_server(script) as web:
        run = pipeline(web.url)
        run.on_message(messages.append)
        report: Report = run.run()

    [warning] = [message.text for message in messages if message.kind is MessageKind.WARNING]
    assert said in warning
    assert report.frames == 60
    assert report.telemetry is not None
    assert report.telemetry.exports == 0
