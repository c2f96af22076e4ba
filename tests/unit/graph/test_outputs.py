"""Output files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import OutputError
from sightline.graph.outputs import Outputs, safe_name


@pytest.mark.parametrize(
    ("name", "safe"),
    [("gate", "gate"), ("../../etc/passwd", "_.._etc_passwd"), ("a b/ü", "a_b_"), ("", "_"), ("x" * 300, "x" * 64)],
)
def test_stream_names_become_harmless_file_names(name: str, safe: str) -> None:
    assert safe_name(name) == safe


def test_the_stream_is_put_into_the_template(tmp_path: Path) -> None:
    assert Outputs(tmp_path).path("out/{stream}.mp4", stream="gate 1") == tmp_path / "out" / "gate_1.mp4"


def test_a_relative_path_can_not_leave_the_root(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="leaves the output folder"):
        Outputs(tmp_path).path("../elsewhere.jsonl")


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    (tmp_path / "out.jsonl").symlink_to(tmp_path / "precious")

    with pytest.raises(OutputError, match="symbolic link"):
        Outputs(tmp_path).open_binary(tmp_path / "out.jsonl")


def test_a_folder_in_the_place_of_a_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").mkdir()

    with pytest.raises(OutputError, match="it is a folder"):
        Outputs(tmp_path).open_binary(tmp_path / "out.jsonl")


def test_a_file_in_the_place_of_a_folder_is_said(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")

    with pytest.raises(OutputError, match="not a folder"):
        Outputs(tmp_path).open_binary(tmp_path / "out" / "a.jsonl")


def test_opened_files_are_remembered_for_the_report(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)

    outputs.open_binary(tmp_path / "a" / "b.jsonl").close()

    assert list(outputs.files) == [tmp_path / "a" / "b.jsonl"]


@pytest.mark.parametrize("name", ["model.onnx", "hard.onnx", "folder/../model.onnx"])
def test_what_is_read_is_never_written(tmp_path: Path, name: str) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"weights")
    (tmp_path / "hard.onnx").hardlink_to(model)
    (tmp_path / "folder").mkdir()
    outputs = Outputs(tmp_path)
    outputs.protect(model, "the model of detect-1")

    assert outputs.obstacle(tmp_path / name) == f"{tmp_path / name} is the model of detect-1: write to another file"
    with pytest.raises(OutputError, match="it is the model of detect-1"):
        outputs.open_binary(tmp_path / name)
    part = tmp_path / "aside"
    part.write_bytes(b"video")
    with pytest.raises(OutputError, match="it is the model of detect-1"):
        outputs.rename(part, to=tmp_path / name)
    assert model.read_bytes() == b"weights"
