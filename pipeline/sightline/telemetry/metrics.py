"""The metrics of a run as those of OpenTelemetry.

They are the families that `/metrics` shows, made into data of the SDK at once: its observable instruments would take a
view of the run each, and there is none for a histogram that has been counted already. A name is that of `/metrics` with
dots behind the namespace and behind the part that it is about, without its unit: `sightline_link_oldest_age_seconds` is
`sightline.link.oldest_age` in `s`. So the names that Prometheus makes of them are those of `/metrics`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, cast

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramData
from opentelemetry.sdk.resources import Resource

from sightline.runtime.stats.counters import LIMITS_NS, Histogram
from sightline.runtime.stats.metrics import Labels, MetricFamily, MetricKind, metric_families
from sightline.runtime.stats.snapshot import RunView
from sightline.telemetry.spans import SCOPE

_ABOUT = (
    *("build", "delivery", "drift", "element", "engine", "gpu", "link", "pipeline", "process", "stream", "telemetry"),
)
_UNITS = {"seconds": "s", "bytes": "By"}
_COUNTED = {
    "alarms": "{alarm}",
    "calls": "{call}",
    "files": "{file}",
    "frames": "{frame}",
    "objects": "{object}",
    "packets": "{packet}",
    "records": "{record}",
    "runs": "{run}",
    "spans": "{span}",
    "threads": "{thread}",
}
_BOUNDS = tuple(limit / 1e9 for limit in LIMITS_NS)
_CUMULATIVE = AggregationTemporality.CUMULATIVE


def metrics_of(view: RunView, resource: Resource) -> MetricsData:
    """Return all metrics of a run at this moment."""
    now_ns = time.time_ns()
    metrics = [
        _metric(family, began_ns=view.began_epoch_ns, now_ns=now_ns)
        for family in metric_families(view, is_ready=view.is_ready)
    ]
    return MetricsData([ResourceMetrics(resource, [ScopeMetrics(SCOPE, metrics, "")], "")])


def named(name: str) -> tuple[str, str]:
    """Return the name and the unit of OpenTelemetry for the name of a family.

    >>> named("link_oldest_age_seconds"), named("stream_frames_received"), named("ready")
    (('sightline.link.oldest_age', 's'), ('sightline.stream.frames_received', '{frame}'), ('sightline.ready', ''))
    """
    *front, last = name.split("_")
    unit = _UNITS.get(last, "")
    words = front if unit else [*front, last]
    unit = unit or next((_COUNTED[word] for word in words if word in _COUNTED), "")
    about, *rest = words
    dotted = f"{about}.{'_'.join(rest)}" if about in _ABOUT and rest else "_".join(words)
    return f"sightline.{dotted}", unit


def _metric(family: MetricFamily, *, began_ns: int, now_ns: int) -> Metric:
    name, unit = named(family.name)
    data: Gauge | Sum | HistogramData
    if family.kind is MetricKind.HISTOGRAM:
        points = [_histogram(*one, began_ns=began_ns, now_ns=now_ns) for one in family.histograms]
        data = HistogramData(points, _CUMULATIVE)
    elif family.kind is MetricKind.COUNTER:
        data = Sum(list(_numbers(family, began_ns=began_ns, now_ns=now_ns)), _CUMULATIVE, is_monotonic=True)
    else:
        data = Gauge(list(_numbers(family, began_ns=began_ns, now_ns=now_ns)))
    return Metric(name, family.meaning, unit, data)


def _numbers(family: MetricFamily, *, began_ns: int, now_ns: int) -> Iterator[NumberDataPoint]:
    for labels, value in family.samples:
        yield NumberDataPoint(_attributes(labels), began_ns, now_ns, value)


def _histogram(labels: Labels, histogram: Histogram, *, began_ns: int, now_ns: int) -> HistogramDataPoint:
    cumulative = histogram.cumulative()
    buckets = [number - before for number, before in zip(cumulative, [0, *cumulative], strict=False)]
    return HistogramDataPoint(
        attributes=_attributes(labels),
        start_time_unix_nano=began_ns,
        time_unix_nano=now_ns,
        count=cumulative[-1],
        sum=histogram.total_ns / 1e9,
        bucket_counts=buckets,
        explicit_bounds=_BOUNDS,
        min=cast("float", None),  # not counted; the field is optional in the protocol
        max=histogram.maximum_ns / 1e9 if cumulative[-1] else cast("float", None),
    )


def _attributes(labels: Labels) -> dict[str, Any]:
    """The labels of `/metrics`; an empty one there stands for none."""
    return {name: text.encode(errors="replace").decode() for name, text in labels.items() if text}
