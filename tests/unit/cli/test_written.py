"""What commands may write over: every option that names a file is in one of the tables below."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.conftest import REPOSITORY

from sightline.cli.main import cli, execute
from sightline.cli.written import WrittenFile

MODEL = REPOSITORY / "models" / "plate.onnx"
FOREIGN = "somebody's own\n"
CONFIG = "sources: {a: {pattern: bars, frames: 1}}\npipeline: [draw]\n"
WRITES: dict[tuple[str, str], tuple[str, ...]] = {
    ("run", "--report"): ("run", "p.yaml", "--report", "x"),
    ("run", "--record"): ("run", "p.yaml", "--record", "x"),
    ("ctl snapshot", "--output"): ("ctl", "snapshot", "a", "-o", "x"),
    ("ctl test", "--output"): ("ctl", "test", "rtsp://a.example/b", "-o", "x"),
    ("import deepstream", "--output"): ("import", "deepstream", "app.txt", "-o", "x"),
    ("import deepstream", "--report"): ("import", "deepstream", "app.txt", "--report", "x"),
    ("import gst", "--output"): ("import", "gst", "filesrc ! fakesink", "-o", "x"),
    ("import gst", "--report"): ("import", "gst", "filesrc ! fakesink", "--report", "x"),
    ("models show", "--output"): ("models", "show", str(MODEL), "--image", "i.png", "--output", "x.jpg"),
    ("new", "--output"): ("new", "rtsp://a.example/b", "-o", "x", "--find", "people", "--want", "counts"),
    ("quantize", "--output"): ("quantize", str(MODEL), "--frames", ".", "--output", "x.onnx"),
    ("search", "--montage"): ("search", "car", "--montage", "x.jpg"),
    ("soak", "--report"): ("soak", "p.yaml", "--hours", "1", "--report", "x"),
    ("tune", "--output"): ("tune", "p.yaml", "--clip", "p.yaml", "-o", "x"),
}
"""Options that name a file which is written, and a command line that names one of somebody else's."""
WRITES_BELOW = {
    ("run", "--output-root"),
    ("serve", "--output-root"),
    ("outbox drain", "--output-root"),
    ("outbox purge", "--output-root"),
    ("outbox show", "--output-root"),
    ("cluster run", "--output-root"),
    ("cluster stop", "--output-root"),
    ("cluster worker", "--output-root"),
    ("cluster run", "--ray-folder"),
    ("cluster worker", "--ray-folder"),
    ("replay", "--output-root"),
    ("inspect", "--output"),
    ("search", "--images"),
    ("demo", "folder"),
}
"""Folders in which files are written through `Outputs`, or by Ray."""
READS = {
    "config", "places", "recording", "path", "results", "--truth", "--certificate", "--key", "--allow-files", "--tls",
    "--script", "--plan", "--root", "--store", "--from", "--image", "--fleet", "--in", "--like", "--encoder", "--clip",
    "--frames", "--sources-file", "--tokens", "--policy", "model", "image", "--labels", "file", "--file", "clips",
}  # fmt: skip
"""Options and arguments that name what is read, or where the models are."""


def file_options(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Every option and argument of the commands that takes a path or says FILE or FOLDER."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from file_options(below, (*path, name))
        return
    for one in command.params:
        names_a_file = any(word in (one.metavar or "") for word in ("FILE", "FOLDER", "DIR"))
        if isinstance(one.type, click.Path | click.File) or names_a_file:
            yield " ".join(path), max(one.opts, key=len)


def test_every_option_that_names_a_file_is_known() -> None:
    unknown = [
        (command, option)
        for command, option in file_options(cli)
        if (command, option) not in WRITES and (command, option) not in WRITES_BELOW and option not in READS
    ]

    assert not unknown, "add it to WRITES, with a command line that is to be refused, or to READS"


@pytest.mark.parametrize("option", WRITES, ids=" ".join)
def test_no_command_writes_over_a_file_of_somebody_else(
    option: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(CONFIG)
    for name in ("i.png", "app.txt"):
        (tmp_path / name).touch()
    arguments = WRITES[option]
    file = tmp_path / next(one for one in arguments if one.split(".")[0] == "x")
    file.write_text(FOREIGN)

    code = execute(arguments)

    assert code == 2
    assert file.name in capsys.readouterr().err
    assert file.read_text() == FOREIGN


def test_what_a_command_reads_is_never_written_over(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(CONFIG)
    link = tmp_path / "link"
    link.symlink_to(file)

    for path in (file, link):
        with pytest.raises(click.BadParameter, match="is the configuration: write to another file"):
            WrittenFile("--report", path, overwrite=True, reads={file: "the configuration"}).check()


def test_a_link_does_not_hide_whose_file_it_is(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text(FOREIGN)
    (tmp_path / "link").symlink_to(tmp_path / "theirs")

    with pytest.raises(click.BadParameter, match="was not written by Sightline"):
        WrittenFile("--report", tmp_path / "link").check()


def test_our_own_file_is_written_again_unless_people_edit_such_files(tmp_path: Path) -> None:
    file = WrittenFile("--report", tmp_path / "report.json")
    edited = WrittenFile("--output", tmp_path / "report.json", is_edited=True)
    for content in ("first", b"second"):
        file.check()
        file.write(content)

    assert file.path.read_bytes() == b"second"
    with pytest.raises(click.BadParameter, match="is there already"):
        edited.check()
    WrittenFile("--output", file.path, is_edited=True, overwrite=True).check()
    WrittenFile("--output", file.path, is_edited=True, may_be=file.path).check()


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(click.BadParameter, match="permission denied"):
        WrittenFile("--report", tmp_path / "a").check()


def test_standard_output_and_folders_are_no_files(tmp_path: Path) -> None:
    for path, reason in ((Path("-"), "not to standard output"), (tmp_path, "is a folder")):
        with pytest.raises(click.BadParameter, match=reason):
            WrittenFile("--report", path).check()
    with pytest.raises(click.BadParameter, match="does not exist"):
        WrittenFile("--report", tmp_path / "none" / "a").check()
    WrittenFile("--report", tmp_path / "none" / "a", makes_folder=True).check()
