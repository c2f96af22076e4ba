"""`sightline eval` against published scores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command_line import called

FRAMES = 100
"""How many of the sample world are scored."""


def scores(*arguments: str | Path) -> dict[str, dict[str, float]]:
    done = called("eval", *map(str, arguments), "--json")
    assert done.returncode == 0, done.stderr
    given: dict[str, dict[str, float]] = json.loads(done.stdout)
    return given


@pytest.mark.parametrize(
    ("name", "mota", "idf1", "false", "missed", "switches"),
    [("TUD-Campus", 0.526, 0.558, 13, 150, 7), ("TUD-Stadtmitte", 0.564, 0.645, 45, 452, 7)],
)
def test_scores_of_a_public_tracker_equal_those_of_the_official_kit(
    shared_data: Path, name: str, mota: float, idf1: float, false: int, missed: int, switches: int
) -> None:
    folder = shared_data / "truth" / "mot" / name

    tracking = scores(folder / "cem.txt", "--truth", folder / "gt.txt")["tracking"]

    assert (tracking["false"], tracking["missed"], tracking["switches"]) == (false, missed, switches)
    assert tracking["mota"] == pytest.approx(mota, abs=0.0006)
    assert tracking["idf1"] == pytest.approx(idf1, abs=0.0006)


def test_the_sample_world_is_its_own_truth(repository: Path, tmp_path: Path) -> None:
    rows = (repository / "sample_videos" / "street.mot.txt").read_text().splitlines(keepends=True)
    truth = tmp_path / "street.mot.txt"
    truth.write_text("".join(row for row in rows if int(row.partition(",")[0]) <= FRAMES))

    found = scores(truth, "--truth", truth)

    assert found["tracking"]["hota"] == 1
    assert found["counting"]["error_per_frame"] == 0
    assert found["detection"]["ap"] == pytest.approx(1)


def test_a_file_that_is_no_recording_is_one_clear_error(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello, world\n")

    done = called("eval", str(file), "--truth", str(file))

    assert done.returncode == 2
    assert f"error: {file}, line 1:" in done.stderr
    assert "Traceback" not in done.stderr
