"""The files that `--report` and `--record` name replace nothing that the run reads or writes."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx
import pytest

from sightline.cli.main import execute
from sightline.graph.ownership import mark

STREET = """
sources:
  cam: clip.mp4
pipeline:
  - detect: {model: street.onnx}
  - jsonl: {path: "out/{stream}.jsonl"}
"""

REFUSED = {
    "a clip": ("clip.mp4", "is the uri of the source 'cam'"),
    "a model": ("street.onnx", "is the model of detect-1"),
    "a model card": ("street.yaml", "is the card of the model of detect-1"),
    "the configuration": ("pipeline.yaml", "is the configuration"),
    "the file of a step": ("out/cam.jsonl", "pipeline.1.jsonl.path: "),
}


@pytest.fixture
def folder(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pipeline whose files Sightline wrote itself, as `sightline demo` does."""
    for name in ("models/street.onnx", "models/street.yaml", "sample_videos/street.mp4"):
        shutil.copy(repository / name, tmp_path)
    (tmp_path / "street.mp4").rename(tmp_path / "clip.mp4")
    (tmp_path / "pipeline.yaml").write_text(STREET)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cam.jsonl").write_text('{"stream":"cam","frame":0}\n')
    for path in tmp_path.rglob("*.*"):
        mark(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("option", ["--report", "--record"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_the_run_reads_or_writes_is_refused(
    option: str, name: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    target, told = REFUSED[name]
    before = (folder / target).read_bytes()

    code = execute(["run", "pipeline.yaml", "--frames", "1", option, target, "--overwrite"])

    assert (code, (folder / target).read_bytes()) == (2, before)
    assert told in capfd.readouterr().err


def test_a_file_that_is_not_there_yet_is_not_shared_with_a_step(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "out" / "cam.jsonl").unlink()

    code = execute(["run", "pipeline.yaml", "--frames", "1", "--report", "out/cam.jsonl"])

    assert (code, list((folder / "out").iterdir())) == (2, [])
    assert "out/cam.jsonl is what --report writes: write to another file" in capfd.readouterr().err


def test_report_and_recording_are_two_files(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code = execute(["run", "pipeline.yaml", "--frames", "1", "--report", "run.slr", "--record", "out/../run.slr"])

    assert (code, (folder / "run.slr").exists()) == (2, False)
    assert "--report and --record cannot both write to run.slr." in capfd.readouterr().err


def test_a_step_does_not_replace_the_card_of_a_model(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    card = (folder / "street.yaml").read_bytes()

    code = execute(["run", "pipeline.yaml", "--frames", "1", "--set", "pipeline.jsonl.path=street.yaml", "--overwrite"])

    assert (code, (folder / "street.yaml").read_bytes()) == (2, card)
    assert "street.yaml is the card of the model of detect-1" in capfd.readouterr().err


def test_a_file_with_the_weights_of_a_model_is_never_written_over(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    model = onnx.load(folder / "street.onnx")
    onnx.save(model, folder / "street.onnx", save_as_external_data=True, location="street.onnx.data", size_threshold=0)
    weights = folder / "street.onnx.data"
    before = weights.read_bytes()
    mark(weights)

    code = execute(["run", "pipeline.yaml", "--frames", "1", "--report", weights.name, "--overwrite"])

    assert (code, weights.read_bytes()) == (2, before)
    assert "a file of weights (street.onnx.data) of the model of detect-1" in capfd.readouterr().err
