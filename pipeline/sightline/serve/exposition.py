"""The text format of Prometheus, version 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sightline.runtime.statistics import LIMITS_NS, Histogram

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_NAMESPACE = "sightline"
_LIMITS = tuple(f"{limit / 1e9:g}" for limit in LIMITS_NS)

Labels = Mapping[str, str]
Sample = tuple[Labels, float]


@dataclass(slots=True)
class Exposition:
    """Metrics as text, family by family. A family without samples is left out."""

    _lines: list[str] = field(default_factory=list)

    def counter(self, name: str, meaning: str, samples: Iterable[Sample]) -> None:
        """What only grows; `name` without `_total`."""
        self._family(f"{name}_total", "counter", meaning, samples)

    def gauge(self, name: str, meaning: str, samples: Iterable[Sample]) -> None:
        """What goes up and down."""
        self._family(name, "gauge", meaning, samples)

    def histogram(self, name: str, meaning: str, samples: Iterable[tuple[Labels, Histogram]]) -> None:
        """Durations in seconds."""
        full = self._head(name, "histogram", meaning)
        for labels, histogram in samples:
            *below, count = histogram.cumulative()
            for limit, number in zip(_LIMITS, below, strict=True):
                self._lines.append(_line(f"{full}_bucket", {**labels, "le": limit}, number))
            self._lines.append(_line(f"{full}_bucket", {**labels, "le": "+Inf"}, count))
            self._lines.append(_line(f"{full}_sum", labels, histogram.total_ns / 1e9))
            self._lines.append(_line(f"{full}_count", labels, count))

    def text(self) -> str:
        """Everything."""
        return "\n".join(self._lines) + "\n"

    def _family(self, name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> None:
        listed = list(samples)
        if listed:
            full = self._head(name, kind, meaning)
            self._lines += [_line(full, labels, value) for labels, value in listed]

    def _head(self, name: str, kind: str, meaning: str) -> str:
        full = f"{_NAMESPACE}_{name}"
        self._lines += [f"# HELP {full} {meaning}", f"# TYPE {full} {kind}"]
        return full


def _line(name: str, labels: Labels, value: float) -> str:
    inner = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    number = str(value) if isinstance(value, int) else repr(float(value))
    return f"{name}{{{inner}}} {number}" if inner else f"{name} {number}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
