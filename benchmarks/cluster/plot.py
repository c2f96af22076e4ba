"""The plot of a simulated cluster over time, as SVG."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT, _LEFT, _TOP, _GAP = 900, 120, 70, 20, 44
_COLORS = ("#2563eb", "#dc2626", "#16a34a")


@dataclass(frozen=True, slots=True)
class Sample:
    """A cluster at one simulated second: starts of streams so far, streams without frames, imbalance (0.05: 5 %)."""

    seconds: float
    starts: int
    blind: int
    imbalance: float


def plot(samples: Sequence[Sample], scenarios: Sequence[tuple[float, str]]) -> str:
    """Return three curves over time: streams that were started in each second, blind ones, and imbalance. Scenarios
    (when they begin, name) are numbered, and named below.
    """
    end = samples[-1].seconds
    starts = [now.starts - before.starts for before, now in itertools.pairwise(samples)]
    curves: list[tuple[str, list[float], Callable[[float], str]]] = [
        ("starts a second", [0.0, *map(float, starts)], lambda value: f"{value:.0f}"),
        ("blind streams", [float(one.blind) for one in samples], lambda value: f"{value:.0f}"),
        ("imbalance", [one.imbalance for one in samples], lambda value: f"{100 * value:.0f} %"),
    ]
    height = _TOP + len(curves) * (_HEIGHT + _GAP) + 18 * len(scenarios)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 20} {height}" '
            'font-family="sans-serif" font-size="12">'
        ),
        f'<rect width="100%" height="{height}" fill="#ffffff"/>',
    ]
    for row, (name, values, text) in enumerate(curves):
        top = _TOP + row * (_HEIGHT + _GAP)
        # the first scenario starts all streams: what follows would be a line at the bottom
        later = [value for value, sample in zip(values, samples, strict=True) if sample.seconds >= scenarios[1][0]]
        most = max(*later, 1e-9) * 1.05
        points = " ".join(
            f"{_LEFT + _WIDTH * sample.seconds / end:.1f},{top + _HEIGHT * (1 - min(value / most, 1)):.1f}"
            for sample, value in zip(samples, values, strict=True)
        )
        parts.append(f'<text x="{_LEFT}" y="{top - 6}">{name}</text>')
        parts.append(f'<text x="{_LEFT - 6}" y="{top + 10}" text-anchor="end">{text(most)}</text>')
        parts.append(f'<text x="{_LEFT - 6}" y="{top + _HEIGHT}" text-anchor="end">0</text>')
        parts.append(f'<rect x="{_LEFT}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="#9ca3af"/>')
        for number, (seconds, _) in enumerate(scenarios, 1):
            x = _LEFT + _WIDTH * seconds / end
            parts.append(f'<path d="M{x:.1f} {top}v{_HEIGHT}" stroke="#d1d5db"/>')
            parts.append(f'<text x="{x + 3:.1f}" y="{top + _HEIGHT + 14}" fill="#6b7280">{number}</text>')
        parts.append(f'<polyline points="{points}" fill="none" stroke="{_COLORS[row]}" stroke-width="1.5"/>')
    for number, (seconds, name) in enumerate(scenarios, 1):
        y = _TOP + len(curves) * (_HEIGHT + _GAP) + 18 * (number - 1)
        parts.append(f'<text x="{_LEFT}" y="{y}">{number}: {escape(name)}, from {seconds:.0f} s</text>')
    return "\n".join([*parts, "</svg>", ""])
