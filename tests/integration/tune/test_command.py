"""`sightline tune` on the street: its table, what it chooses, and the file that it writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.cli.main import execute
from sightline.config import load_description
from sightline_plugins import Detect

CONFIG = """\
# The gate, as it was put up in May.
sources:
  gate: {repository}/sample_videos/street.mp4
pipeline:
  - detect: {{model: {repository}/models/street.onnx}}  # the night model is worse
  - track
  - lines: {{road: {{from: [0.18, 0.62], to: [0.82, 0.58]}}}}
  - jsonl: {{path: out/gate.jsonl}}
"""
FRAMES = "50"


@pytest.fixture
def config(repository: Path, tmp_path: Path) -> Path:
    path = tmp_path / "gate.yaml"
    path.write_text(CONFIG.format(repository=repository))
    return path


def test_the_cheapest_that_keeps_to_the_loss_is_written_with_comments(
    config: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clip, truth, tuned = (
        repository / "sample_videos/street.mp4",
        repository / "sample_videos/street.mot.txt",
        config.with_name("tuned.yaml"),
    )
    arguments = ["--clip", str(clip), "--truth", str(truth), "--frames", FRAMES, "--lose", "100", "-o", str(tuned)]
    assert execute(["tune", str(config), *arguments]) == 0

    told = capsys.readouterr()
    rows = [line.split("  ") for line in told.out.splitlines()]
    assert [row[0] for row in rows[1:7]] == [f"every: {number}" for number in (1, 2, 3, 4, 6, 8)]
    assert sum(row[-1] == "chosen" for row in rows) == 1
    assert "A frame without the network takes" in told.out
    assert "1/11  every: 1" in told.err
    detect = load_description(tuned).element("detect-1")
    assert isinstance(detect, Detect)
    assert detect.every != 1
    assert [line for line in tuned.read_text().splitlines() if "#" in line and "detect" not in line] == [
        "# The gate, as it was put up in May."
    ]
    assert "# the night model is worse" in tuned.read_text()
    assert config.read_text() == CONFIG.format(repository=repository)
    assert not (config.parent / "out").exists()


def test_mistakes_are_told_before_anything_runs(
    config: Path, repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clip = ["--clip", str(repository / "sample_videos/street.mp4")]
    (tmp_path / "other").mkdir()

    assert execute(["tune", str(config), *clip, "--stream", "yard"]) == 2
    assert "there is no stream 'yard'; streams: gate" in capsys.readouterr().err
    assert execute(["tune", str(config), *clip, "-o", str(tmp_path / "other" / "x.yaml")]) == 2
    assert "must be in the folder of" in capsys.readouterr().err
    assert execute(["tune", str(config), "--clip", str(tmp_path / "none.mp4")]) == 2
    assert "none.mp4" in capsys.readouterr().err
