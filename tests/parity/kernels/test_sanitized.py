"""Under the sanitizers, on images and outputs with nothing behind them, kernels touch only what is theirs."""

from __future__ import annotations

from pathlib import Path

from tests.fakes import run_sanitized


def test_kernels_that_find_draw_reduce_and_move_stay_inside_their_memory(repository: Path) -> None:
    done = run_sanitized(["-m", "tests.parity.kernels.sanitized_results"], cwd=repository)

    assert done.returncode == 0, done.stderr
