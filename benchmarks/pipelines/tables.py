"""What was measured, as text: medians, ratios paired by round, and whether the targets are met."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median

from benchmarks.pipelines.contestants import IN_BFLOAT16, OURS, OURS_BFLOAT16, TARGETS, Contestant, Group
from benchmarks.pipelines.rounds import Measured, Table

FRAMEWORK_SHARE = 0.05
FRAMEWORK_US_PER_FRAME = 150


def ours_beside(table: Table, other: Contestant) -> Contestant:
    """The one of ours that computes in the same precision as another contestant."""
    in_bfloat16 = other.group in IN_BFLOAT16 and OURS_BFLOAT16 in table.runs
    return OURS_BFLOAT16 if in_bfloat16 and other is not OURS_BFLOAT16 else OURS


def ratio(table: Table, other: Contestant) -> float:
    """How many times as fast as another contestant ours is: the median of the ratios in each round."""
    pairs = zip(table.runs[ours_beside(table, other)], table.runs[other], strict=True)
    return median(ours.fps / its.fps for ours, its in pairs)


def cpu_ratio(table: Table, other: Contestant) -> float:
    """How many times the CPU time of ours another contestant takes."""
    pairs = zip(table.runs[ours_beside(table, other)], table.runs[other], strict=True)
    return median(its.cpu_ms / ours.cpu_ms for ours, its in pairs)


def markdown(table: Table) -> Iterable[str]:
    """The table of one number of streams, in Markdown."""
    yield f"#### {_streams(table)}\n"
    yield "| contestant | implementation | fps | from - to | CPU ms per frame | ratio of fps | ratio of CPU | objects |"
    yield "|---|---|---|---|---|---|---|---|"
    for contestant, runs in table.runs.items():
        rates = [run.fps for run in runs]
        figures = (
            f"{median(rates):.0f}",
            f"{min(rates):.0f} - {max(rates):.0f}",
            f"{median(run.cpu_ms for run in runs):.2f}",
            f"{ratio(table, contestant):.2f} x" if contestant is not OURS else "",
            f"{cpu_ratio(table, contestant):.2f} x" if contestant is not OURS else "",
            f"{runs[0].objects}",
        )
        yield f"| {contestant.name} | {contestant.about} | {' | '.join(figures)} |"
    for contestant, reason in table.skipped.items():
        yield f"| {contestant.name} | {contestant.about} | not run: {reason} | | | | | |"
    yield ""


def verdicts(table: Table) -> Iterable[str]:
    """One line a target: what it is, what was measured, whether it is met."""
    for group, target in TARGETS.items():
        rivals = [contestant for contestant in table.runs if contestant.group is group]
        if OURS in table.runs and rivals:
            best = min(rivals, key=lambda rival: ratio(table, rival))
            found = ratio(table, best)
            what = f"{found:.2f} x {best.name}, the fastest of {group.value}; target {target:.1f}"
            yield _verdict(table, what, good=found >= target)
    for contestant, runs in table.runs.items():
        if contestant.group in (Group.OURS, Group.OURS_BFLOAT16):
            share, microseconds = _detail(runs, "framework_share"), _detail(runs, "framework_us_per_frame")
            what = f"framework's own share of {contestant.name}: {share:.1%} and {microseconds:.0f} us per frame"
            good = share < FRAMEWORK_SHARE and microseconds < FRAMEWORK_US_PER_FRAME
            yield _verdict(table, f"{what}; target below 5 % and 150", good=good)


def breakdown(table: Table) -> Iterable[str]:
    """Where the CPU time of ours goes."""
    for contestant, runs in table.runs.items():
        if contestant.group in (Group.OURS, Group.OURS_BFLOAT16):
            names = [name for name in runs[0].outcome.details if name.endswith("_ms_per_frame")]
            parts = (f"{name.removesuffix('_ms_per_frame')} {_detail(runs, name):.3f}" for name in names)
            yield f"- {_streams(table)}, {contestant.name}, CPU ms per frame: {', '.join(parts)}"


def _verdict(table: Table, what: str, *, good: bool) -> str:
    return f"- {_streams(table)}: {what}: {'met' if good else '**missed**'}"


def _streams(table: Table) -> str:
    return "1 stream" if table.streams == 1 else f"{table.streams} streams"


def _detail(runs: list[Measured], name: str) -> float:
    return median(run.outcome.details[name] for run in runs)
