"""`sightline new` writes pipelines that are right, with and without being asked."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.integration.cli.conftest import Sightline, command

from sightline.config import load_description
from sightline_plugins.catalogue import find_entry
from sightline_plugins.catalogue.storage import keep
from sightline_plugins.commands.new.wishes import WANTS


@pytest.fixture(autouse=True)
def models(tmp_path: Path, shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that has one model of the catalogue."""
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmp_path / "models"))
    brought = shutil.copy(shared_data / "models" / "FastestDet.onnx", tmp_path / "brought.onnx")
    keep(find_entry("fastestdet"), Path(brought))
    return tmp_path / "models"


@pytest.mark.parametrize("wants", [*WANTS, ",".join(WANTS)])
def test_what_it_writes_is_right(called: Sightline, folder: Path, repository: Path, wants: str) -> None:
    clip = repository / "sample_videos" / "street.mp4"

    written = called("new", str(clip), "--find", "people,vehicles", "--want", wants, "-o", "mine.yaml")
    checked = called("check", "mine.yaml")

    assert written.returncode == 0, written.stderr
    assert checked.returncode == 0, checked.stderr
    assert (folder / "mine.yaml").read_text().startswith("# yaml-language-server: $schema=sightline.schema.json\n")
    assert '"$defs"' in (folder / "sightline.schema.json").read_text()


def test_what_it_writes_runs(called: Sightline, folder: Path, shared_data: Path) -> None:
    clip = shared_data / "videos" / "street-cars-640x360.mp4"
    called("new", str(clip), "--find", "car", "--want", "counts,events", "-o", "mine.yaml")

    run = called("run", "mine.yaml", "--frames", "48")

    assert run.returncode == 0, run.stderr
    assert "car:" in run.stderr
    assert len((folder / "out" / "street-cars-640x360.jsonl").read_text().splitlines()) == 48


def test_no_password_gets_into_the_file(called: Sightline, folder: Path) -> None:
    written = called("new", "rtsp://user:geheim@10.0.0.7/gate", "--find", "people", "--want", "zone")

    text = (folder / "pipeline.yaml").read_text()
    assert "geheim" not in text + written.stdout + written.stderr
    assert "export GATE_PASSWORD=" in written.stdout
    description = load_description(folder / "pipeline.yaml", environment={"GATE_PASSWORD": "geheim"})
    assert description.sources["gate"].model_dump()["uri"] == "rtsp://user:geheim@10.0.0.7/gate"


def test_a_model_that_is_not_here_comes_with_its_command(called: Sightline) -> None:
    written = called("new", "gate.mp4", "--find", "faces", "--want", "counts")

    assert "sightline models pull yunet" in written.stdout


def test_a_file_that_is_there_is_kept(called: Sightline, folder: Path) -> None:
    (folder / "pipeline.yaml").write_text("mine")

    written = called("new", "gate.mp4", "--find", "people", "--want", "counts")

    assert written.returncode == 2
    assert "pipeline.yaml is there already" in written.stderr
    assert (folder / "pipeline.yaml").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--find", "peeple", "--want", "counts"), "did you mean 'people'?"),
        (("--find", "people", "--want", "count"), "there is no 'count'; did you mean 'counts'?"),
        (("--find", "people", "--want", "counts", "--model", "yolox"), "there is no 'yolox' in the catalogue"),
        (("--find", "people"), "give --want: there is no terminal to ask on"),
    ],
)
def test_a_wrong_answer_is_one_sentence(called: Sightline, folder: Path, options: tuple[str, ...], text: str) -> None:
    written = called("new", "gate.mp4", *options)

    assert written.returncode == 2
    assert text in written.stderr
    assert not (folder / "pipeline.yaml").exists()


def test_it_asks_three_questions(folder: Path, repository: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("new"), cwd=folder, env=dict(os.environ), stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    clip = repository / "sample_videos" / "street.mp4"
    os.write(ours, f"{clip}\n\ncounts,video\n".encode())
    out, told = process.communicate(timeout=300)
    os.close(ours)
    os.close(theirs)

    assert process.returncode == 0, told
    assert [question in told for question in (b"Which camera or file?", b"What to look for?", b"What to do?")] == [
        True
    ] * 3
    assert b"person in street with fastestdet" in out
    steps = load_description(folder / "pipeline.yaml").steps
    assert [step.name for step in steps] == ["detect", "track", "lines", "jsonl", "draw", "video"]
