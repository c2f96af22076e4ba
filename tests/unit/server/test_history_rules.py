"""What the history keeps of rules: crossings, how long stays lasted, and how many were in zones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sightline.media import Event, Overlay
from sightline.runtime.scheduling.rule_findings import RuleFindings
from sightline.server.history_rules import DWELL_LIMITS, DwellHistogram
from tests.unit.server.test_feed import batch_of
from tests.unit.server.test_history import MORNING, Run, fill, near, ten_minutes


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    run = Run(tmp_path / "test.history")
    run.history.tick()
    run.process("gate", frames=1)
    yield run
    run.store.close()


def report(run: Run, kind: str, rule: str, step: str, **data: Any) -> None:
    batch = batch_of(Event(kind, rule, 0, data, step))
    run.feed.take(batch, batch.events)


def stay(run: Run, seconds: float, *, rule: str = "plaza") -> None:
    """Somebody leaves a zone after a stay."""
    report(run, "zone", rule, "zones-1", direction="leave", dwell_seconds=seconds, track_id=1)


def inside(run: Run, **frames: dict[int, int]) -> None:
    """Let a number of objects have been in zones on more frames."""
    known: dict[str, Counter[int]] = run.occupancy.setdefault("zones-1", {}).setdefault("gate", {})
    for zone, numbers in frames.items():
        known.setdefault(zone, Counter()).update(numbers)


def test_events_that_are_reported_while_a_run_ends_are_counted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = run.view

    def ends() -> Any:
        report(run, "line", "gate_in", "lines-1", direction="in")
        run.is_running = False
        return seen()

    monkeypatch.setattr(run.history, "_view", ends)
    run.pass_seconds(1)

    assert run.column("crossings", key="lines-1.gate_in.in", **ten_minutes(end_seconds=MORNING + 10)) == [1]


def test_crossings_are_counted_by_rule_and_direction(run: Run) -> None:
    for direction in ("in", "in", "out"):
        report(run, "line", "gate_in", "lines-1", direction=direction)
    report(run, "zone", "plaza", "zones-1", direction="enter")
    report(run, "dwell", "plaza", "zones-1", dwell_seconds=12.0)
    run.pass_seconds(10)
    report(run, "line", "gate_in", "lines-1", direction="out")
    run.pass_seconds(10)

    times = ten_minutes(end_seconds=MORNING + 20)
    assert run.column("crossings", key="lines-1.gate_in.in", **times) == [2, 0]
    assert run.column("crossings", key="lines-1.gate_in.out", **times) == [1, 1]
    assert run.column("crossings", key="zones-1.plaza.enter", **times) == [1, 0]
    keys = {one.key for one in run.history.series(["crossings"], **times).columns}
    assert keys == {"lines-1.gate_in.in", "lines-1.gate_in.out", "zones-1.plaza.enter"}


def test_stays_are_counted_by_how_long_they_lasted(run: Run) -> None:
    for seconds in (0, 0.9, 1, 1.5, 59, 60, 30_000):
        stay(run, seconds)
    stay(run, 3, rule="bench")
    report(run, "zone", "plaza", "zones-1", direction="leave", dwell_seconds="long")
    run.pass_seconds(10)

    bench, plaza = run.history.dwell(end_seconds=MORNING + 20)

    assert (bench.name, bench.stays[:4], bench.seconds) == ("zones-1.bench", [0, 0, 1, 0], 3)
    assert (plaza.stream, plaza.name) == ("gate", "zones-1.plaza")
    assert len(plaza.stays) == len(DWELL_LIMITS) + 1
    assert {(0, *DWELL_LIMITS)[place]: count for place, count in enumerate(plaza.stays) if count} == {
        0: 2,
        1: 2,
        20: 1,
        60: 1,
        DWELL_LIMITS[-1]: 1,
    }
    assert plaza.seconds == pytest.approx(30_122.4)


def test_stays_are_found_in_the_time_in_which_they_ended(run: Run) -> None:
    for _ in range(3):
        stay(run, 5)
        run.pass_seconds(600)

    def stays(begin: int, end: int) -> int:
        found = run.history.dwell(start_seconds=MORNING + begin, end_seconds=MORNING + end)
        return sum(sum(one.stays) for one in found)

    assert [stays(0, 600), stays(600, 1_200), stays(600, 1_800), stays(0, 3_600)] == [1, 1, 2, 3]
    assert stays(3_600, 7_200) == 0


def test_stays_of_months_are_kept_by_the_hour(run: Run) -> None:
    stay(run, 5)
    run.pass_seconds(3_600)
    run.pass_seconds(60 * 86_400)

    (found,) = run.history.dwell(start_seconds=MORNING - 86_400, end_seconds=MORNING + 86_400)

    assert sum(found.stays) == 1


def test_occupancy_is_the_mean_and_the_most_of_all_frames(run: Run) -> None:
    run.process("gate", frames=99)
    inside(run, plaza={0: 50, 2: 40, 5: 10}, bench={1: 100})
    run.pass_seconds(10)
    run.process("gate", frames=100)
    inside(run, plaza={1: 100}, bench={1: 100})
    run.pass_seconds(10)

    times = ten_minutes(end_seconds=MORNING + 20)
    assert run.column("occupancy", key="zones-1.plaza", **times) == [1.3, 1]
    assert run.column("occupancy_max", key="zones-1.plaza", **times) == [5, 1]
    assert run.column("occupancy", key="zones-1.bench", **times) == [1, 1]
    assert run.column("occupancy", key="zones-1.plaza", **times, step_seconds=20) == near(1.15)
    assert run.column("occupancy_max", key="zones-1.plaza", **times, step_seconds=20) == [5]


def test_a_step_that_was_built_anew_counts_from_its_beginning(run: Run) -> None:
    run.process("gate", frames=99)
    inside(run, plaza={4: 100})
    run.pass_seconds(10)
    run.occupancy.clear()
    inside(run, plaza={1: 50})
    run.process("gate", frames=50)
    run.pass_seconds(10)

    assert run.column("occupancy", key="zones-1.plaza", **ten_minutes(end_seconds=MORNING + 20)) == [4, 1]


def test_longer_samples_are_made_up_from_shorter_ones(tmp_path: Path) -> None:
    first = Run(tmp_path / "test.history")
    first.history.tick()
    for _ in range(7):
        stay(first, 5)
        inside(first, plaza={2: 1, 3: 1})
        first.process("gate", frames=2)
        first.pass_seconds(10)
    first.store.close()
    second = Run(tmp_path / "test.history", clock=first.clock)
    second.is_running = False
    second.history.start()
    second.history.close()
    second = Run(tmp_path / "test.history", clock=first.clock)
    second.clock.now_ns += 3 * 3_600 * 10**9

    hour: dict[str, Any] = {"start_seconds": MORNING, "end_seconds": MORNING + 3_600, "step_seconds": 3_600}
    assert second.column("occupancy", key="zones-1.plaza", **hour) == [2.5]
    assert second.column("occupancy_max", key="zones-1.plaza", **hour) == [3]
    assert second.column("crossings", key="zones-1.plaza.leave", **hour) == [7]
    (found,) = second.history.dwell(start_seconds=MORNING, end_seconds=MORNING + 3_600)
    assert found == DwellHistogram("gate", "zones-1.plaza", found.stays, 35)
    second.store.close()


def test_samples_of_an_earlier_version_are_read(run: Run) -> None:
    fill(run, intervals=1)
    body = b"\x99\xca\x41\x20\x00\x00\x64\x80\xc0\xc0\x80\x80\x80\x80"  # nine fields: 10 seconds, 100 frames
    run.store.add([(10, "gate", MORNING * 1_000, body)], [])

    assert run.column("fps", **ten_minutes(end_seconds=MORNING + 10)) == [10]
    assert run.history.series(["occupancy"], **ten_minutes()).columns == []


def test_many_rules_are_bounded(run: Run) -> None:
    for number in range(3_000):
        stay(run, 5, rule=f"zone-{number}")
    run.pass_seconds(1)
    counted = run.history._reported["gate"]

    run.pass_seconds(10)

    assert max(len(counted.events), len(counted.crossings)) <= 1_000
    assert len(run.history.dwell(end_seconds=MORNING + 20)) == 200


def test_the_numbers_inside_are_counted_on_each_frame() -> None:
    findings = RuleFindings("zones-1", on_events=None)
    before = batch_of(frames=3)
    shapes = [
        (Overlay("zone", "plaza", (), (("inside", number), ("visitors", 7))), Overlay("line", "gate", (), (("in", 3),)))
        for number in (2, 0, 2)
    ]
    for _ in range(2):
        findings.take(before, before.with_overlays(shapes))

    assert findings.occupancy() == {"gate": {"plaza": {2: 4, 0: 2}}}
