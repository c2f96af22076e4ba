"""A plan as text."""

from __future__ import annotations

import math
from collections.abc import Iterator

from sightline.cli.text import columns
from sightline_plugins.commands.plan.capacity import Figures
from sightline_plugins.commands.plan.fleet import Fleet, shares
from sightline_plugins.commands.plan.trials import KEPT_UP, Plan

_RATES = (1.0, 2.0, 5.0, 10.0, 15.0)
_MIB = 2**20
_MUCH = 0.05


def plan_text(plan: Plan, *, title: str) -> str:
    """What was measured, what fits, and whether that was so."""
    figures = plan.figures
    head = f"{title} on {figures.cores} cores ({figures.processor}), {figures.memory_bytes / 2**30:.1f} GiB of memory"
    rows = [("as fast as it can", "streams", "frames/s", "CPU ms/frame", "cores in use")]
    for name, run in plan.runs:
        rows.append((name, str(run.streams), f"{run.fps:.0f}", f"{run.cpu_ms:.2f}", f"{run.used:.0%}"))
    parts = [head, columns(rows, indent="  "), columns(_limits(figures), indent="  ")]
    if plan.others > _MUCH:
        parts.append(
            f"Other programs used {plan.others:.0%} of the cores meanwhile: the plan is too low. "
            "Measure again without them."
        )
    elif figures.is_bound_by_a_thread:
        parts.append(
            f"Cores stay idle: {figures.bottleneck}. Several processes may use them (processes: auto), "
            "which is not part of this plan."
        )
    parts += [_rates_text(figures, headroom=plan.headroom), _verdict(plan)]
    return "\n".join(parts)


def fleet_text(fleet: Fleet, plan: Plan) -> str:
    """How many machines of a fleet are needed."""
    filled, left = shares(fleet, plan.figures, headroom=plan.headroom)
    rows = [("machine", "streams on each", "machines", "streams")]
    rows += [(one.name, str(one.each), str(one.machines), str(one.streams)) for one in filled]
    rows.append(("without a place", "", "", str(left)))
    assumed = "taken from this machine: what a frame costs on a core, times `speed`, and how well cores are used"
    return f"{fleet.streams} streams on the fleet ({assumed}):\n{columns(rows, indent='  ')}"


def _limits(figures: Figures) -> Iterator[tuple[str, ...]]:
    rates = sorted(set(map(_rate, figures.rates.values())), key=float)
    yield ("what there is", "one stream takes", "streams at most")
    cost = figures.cpu_ms_a_second()
    usable = f"{figures.cores} cores, {figures.usable:.0%} of them usable"
    yield (
        usable,
        f"{cost:.0f} ms of CPU a second, at {'/'.join(rates)} frames/s",
        _count(figures.streams_by_processor()),
    )
    room = f"{figures.memory_bytes / 2**30:.1f} GiB, {figures.base_bytes / _MIB:.0f} MiB of them without streams"
    yield (room, f"{figures.stream_bytes / _MIB:.0f} MiB", _count(figures.streams_by_memory()))


def _rates_text(figures: Figures, *, headroom: float) -> str:
    fastest = max(figures.rates.values())
    rows = [(fps, math.floor((1 - headroom) * _most(figures, fps))) for fps in _RATES if fps < 0.9 * fastest]
    if not rows:
        return "Fewer frames a second are not worth planning for."
    return "With max_fps: " + ", ".join(f"{fps:g} -> {streams} streams" for fps, streams in rows) + "; all are decoded"


def _most(figures: Figures, fps: float) -> float:
    return min(figures.streams_by_processor(fps=fps), figures.streams_by_memory())


def _verdict(plan: Plan) -> str:
    kept = f"{plan.headroom:.0%} kept free"
    if not plan.streams:
        return (
            f"Fits: not even one stream at its own rate ({kept}). Analyse fewer frames (--fps), or use a smaller model."
        )
    streams = "1 stream" if plan.streams == 1 else f"{plan.streams} streams"
    fits = f"Fits: {streams}, {kept}; {plan.figures.runs_out()} runs out first."
    confirmed, share = plan.confirmed, plan.kept_up
    if confirmed is None or share is None:
        return f"{fits} Not tried, because that is too many at once."
    tried = f"Tried: {share:.1%} of their frames came in time, with {confirmed.used:.0%} of the cores in use"
    if share >= KEPT_UP:
        return f"{fits}\n{tried}."
    fewer = math.floor(plan.streams * share)
    return f"{fits}\n{tried}. That does NOT keep up: run {fewer} at most, and measure on a machine that is left alone."


def _count(streams: float) -> str:
    return "no limit" if math.isinf(streams) else f"{streams:.1f}"


def _rate(fps: float) -> str:
    return f"{fps:.1f}".removesuffix(".0")
