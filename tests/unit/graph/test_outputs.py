"""Output files."""

from __future__ import annotations

import os
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


def test_what_another_run_writes_is_neither_emptied_nor_written(tmp_path: Path) -> None:
    path = tmp_path / "gate.jsonl"
    first = Outputs(tmp_path).open_lines(path)
    first.write(b"one\n")
    other = Outputs(tmp_path)

    for attempt in (other.open_lines, other.open_binary, lambda path: other.open_again(path, whole_bytes=0)):
        with pytest.raises(OutputError, match=r"gate\.jsonl: another run is writing it; end that run, or name another"):
            attempt(path)
    assert path.read_bytes() == b"one\n"

    first.close()
    with other.open_binary(path) as again:
        again.write(b"two\n")
    assert path.read_bytes() == b"two\n"


def without_attributes(*_: object, **__: object) -> bytes:
    raise OSError(95, "Operation not supported")


def test_a_file_of_others_is_not_replaced(tmp_path: Path) -> None:
    report = tmp_path / "thesis.jsonl"
    report.write_bytes(b'{"mine": true}\n')
    outputs = Outputs(tmp_path)
    refusal = "was not written by Sightline: name another file, or allow it with --overwrite"

    assert refusal in (outputs.obstacle(report) or "")
    with pytest.raises(OutputError, match=refusal):
        outputs.open_binary(report)
    (tmp_path / "part").write_bytes(b"video")
    with pytest.raises(OutputError, match=refusal):
        outputs.rename(tmp_path / "part", to=report)
    assert report.read_bytes() == b'{"mine": true}\n'

    outputs.may_overwrite = True
    assert outputs.obstacle(report) is None
    outputs.open_binary(report).close()
    assert report.read_bytes() == b""


def test_own_and_empty_files_are_replaced(tmp_path: Path) -> None:
    with Outputs(tmp_path).open_binary(tmp_path / "tracks.txt") as file:
        file.write(b"1,1,10,10,20,20,0.9,-1,-1,-1\n")
    (tmp_path / "touched.txt").touch()
    again = Outputs(tmp_path)

    for name in ("tracks.txt", "touched.txt"):
        assert again.obstacle(tmp_path / name) is None
        again.open_binary(tmp_path / name).close()
        assert (tmp_path / name).read_bytes() == b""


def test_without_attributes_the_beginning_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "setxattr", without_attributes, raising=False)
    monkeypatch.setattr(os, "getxattr", without_attributes, raising=False)
    (tmp_path / "lines.jsonl").write_bytes(b'{"stream":"gate","frame":0,"pts_ns":0}\n')
    (tmp_path / "video.mp4").write_bytes(b"\0\0\0\x20ftypisom")
    outputs = Outputs(tmp_path)

    assert outputs.obstacle(tmp_path / "lines.jsonl") is None
    assert outputs.obstacle(tmp_path / "video.mp4") is not None
    with outputs.open_binary(tmp_path / "own.mp4") as file:
        file.write(b"\0\0\0\x20ftypisom")
    assert Outputs(tmp_path).obstacle(tmp_path / "own.mp4") is None, "this process wrote it"


def test_a_pipe_needs_no_mark(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    Outputs(tmp_path).open_binary(tmp_path / "pipe").close()

    os.close(reader)
