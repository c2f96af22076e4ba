"""A fixed budget of mutants, from fixed seeds: no crash, no hang over its limit, memory within its bound.

`make fuzz` looks further, with other seeds.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tools.fuzz.hunt import hunt, replay
from tools.fuzz.targets.names import TARGETS

SEED = 20_260_000
BUDGETS = {"media": (400, 4.0), "rtsp": (20, 5.0), "config": (60, 4.0), "card": (40, 2.5), "model": (60, 2.5)}
"""Mutants at most, and seconds at most: a machine that is busy tries fewer."""
AT_LEAST = 5
"""Mutants that are tried however long they take."""
PATIENCE_SECONDS = 300.0


def test_every_target_has_a_budget() -> None:
    assert BUDGETS.keys() == TARGETS.keys()


@pytest.mark.parametrize("target", BUDGETS)
def test_wrong_input_is_answered_in_our_words_and_within_limits(target: str, tmp_path: Path) -> None:
    for mutants, seconds in (BUDGETS[target], (AT_LEAST, PATIENCE_SECONDS)):
        tally = hunt(
            target, seed=SEED, work=tmp_path, kept=tmp_path / "kept", shared=None, seconds=seconds, mutants=mutants
        )
        assert not tally.findings, "\n".join(finding.text() for finding in tally.findings)
        if tally.mutants >= AT_LEAST:
            break
    assert tally.mutants >= AT_LEAST, tally.text()
    assert len(tally.outcomes) >= 2 or tally.mutants < 20, f"all ended alike: {tally.text()}"


def test_the_same_seed_makes_the_same_mutants(tmp_path: Path) -> None:
    outcomes = [
        hunt("card", seed=7, work=tmp_path, kept=tmp_path / "kept", shared=None, seconds=60, mutants=6).outcomes
        for _ in range(2)
    ]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0] != Counter()


@pytest.mark.parametrize(
    ("what", "told"), [("dies", "SIGSEGV"), ("hangs", "no answer within"), ("swells", "MiB"), ("raises", "KeyError")]
)
def test_what_a_mutant_does_to_the_process_is_seen(what: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / f"mutant.{what}"
    path.write_bytes(b"")
    limit_seconds = 3 if what == "hangs" else PATIENCE_SECONDS
    assert told in replay("trap", path, work=tmp_path, shared=None, wall_seconds=limit_seconds)


def test_the_mutant_that_a_child_dies_of_is_named_and_kept(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    tally = hunt("trap", seed=0, work=tmp_path, kept=kept, shared=None, seconds=60, mutants=4)
    assert [finding.seed for finding in tally.findings] == ["2"]
    assert tally.findings[0].path.read_bytes() == b"2"
    assert "SIGSEGV" in (kept / "trap-2.dies.txt").read_text()
