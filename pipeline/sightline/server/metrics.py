"""Metrics in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sightline.runtime.stats.counters import LIMITS_NS, Histogram
from sightline.runtime.stats.metrics import Labels, MetricFamily, MetricKind, metric_families
from sightline.runtime.stats.snapshot import RunView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAMESPACE = "sightline"
_LIMITS = tuple(f"{limit / 1e9:g}" for limit in LIMITS_NS)


def metrics_text(view: RunView | None, *, is_ready: bool) -> str:
    """All metrics of a run; those of the process only before it has begun."""
    return families_text(metric_families(view, is_ready=is_ready))


def families_text(families: Iterable[MetricFamily]) -> str:
    """Metrics as text, family by family."""
    return "\n".join(line for family in families for line in _lines(family)) + "\n"


def _lines(family: MetricFamily) -> Iterator[str]:
    total = "_total" if family.kind is MetricKind.COUNTER else ""
    full = f"{_NAMESPACE}_{family.name}{total}"
    yield f"# HELP {full} {family.meaning}"
    yield f"# TYPE {full} {family.kind}"
    for labels, value in family.samples:
        yield _line(full, labels, value)
    for labels, histogram in family.histograms:
        yield from _histogram_lines(full, labels, histogram)


def _histogram_lines(full: str, labels: Labels, histogram: Histogram) -> Iterator[str]:
    *below, count = histogram.cumulative()
    for limit, number in zip(_LIMITS, below, strict=True):
        yield _line(f"{full}_bucket", {**labels, "le": limit}, number)
    yield _line(f"{full}_bucket", {**labels, "le": "+Inf"}, count)
    yield _line(f"{full}_sum", labels, histogram.total_ns / 1e9)
    yield _line(f"{full}_count", labels, count)


def _line(name: str, labels: Labels, value: float) -> str:
    inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    number = str(value) if isinstance(value, int) else repr(float(value))
    return f"{name}{{{inner}}} {number}" if inner else f"{name} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
