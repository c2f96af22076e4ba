"""`model:` takes names of the catalogue: the pulled file, or one sentence that says what to do."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sightline.config import InvalidConfiguration, load_description
from sightline_plugins import Detect
from sightline_plugins.catalogue import find_entry
from sightline_plugins.catalogue.storage import keep

PIPELINE = """
sources: {{cam: {{pattern: bars, frames: 2}}}}
pipeline:
  - detect: {{model: {model}}}
"""


@pytest.fixture
def here(tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store in which something lies under the name of an entry."""
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmp_path / "models"))
    file = shutil.copy(shared_data / "models" / "yolox_nano.onnx", tmp_path / "brought.onnx")
    return keep(find_entry("yolox-nano"), Path(file)).model


def loaded(folder: Path, model: str) -> Path | str:
    (folder / "p.yaml").write_text(PIPELINE.format(model=model))
    (step,) = load_description(folder / "p.yaml").steps
    assert isinstance(step, Detect)
    return step.model


def problem(folder: Path, model: str) -> str:
    with pytest.raises(InvalidConfiguration) as caught:
        loaded(folder, model)
    (only,) = caught.value.problems
    return f"{only.place.line}: {only.message}"


def test_a_name_becomes_the_file_that_was_pulled(tmp_path: Path, here: Path) -> None:
    assert loaded(tmp_path, "yolox-nano") == here
    assert Detect(model="yolox-nano").model == here


def test_a_file_of_that_name_goes_first(tmp_path: Path, repository: Path, here: Path) -> None:
    shutil.copy(repository / "models" / "street.onnx", tmp_path / "yolox-nano")
    shutil.copy(repository / "models" / "street.yaml", tmp_path / "yolox-nano.yaml")

    assert loaded(tmp_path, "yolox-nano") == tmp_path / "yolox-nano"


def test_what_was_not_pulled_says_how(tmp_path: Path, here: Path) -> None:
    assert problem(tmp_path, "fastestdet") == (
        "4: fastestdet is in the catalogue, but not on this machine: run `sightline models pull fastestdet`"
    )


def test_a_name_that_is_nearly_one_is_corrected(tmp_path: Path, here: Path) -> None:
    assert "did you mean 'fastestdet'?" in problem(tmp_path, "fastesdet")


def test_another_word_is_a_missing_file(tmp_path: Path, here: Path) -> None:
    assert problem(tmp_path, "mine") == f"4: there is no file {tmp_path / 'mine'}"
