"""Outputs that cannot be written: told before anything runs where it can be known; what was written stays readable."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.figures import Record
from tests.integration.sources.clips import write_clip
from tests.integration.wrong_input.running import (
    CAMERA,
    CONFIG,
    QUIET_RUN,
    Mistake,
    Outcome,
    assert_told_once,
    call_apart,
    call_here,
    images_in,
    lines_of,
    steps,
)
from tests.integration.wrong_input.test_inputs import forget_to_be_root

FOUND = "{replay: {path: det.txt, format: mot, label: car}}"
TWO = "sources: {a: {pattern: bars, frames: 3}, b: {pattern: bars, frames: 3}}\n"
NOISE = "sources: {cam: {pattern: noise, size: [320, 240], frames: 200}}\n"

PLACES: dict[str, tuple[str, tuple[str, ...]]] = {
    "lines outside the root": ("{jsonl: ../a.jsonl}", ("jsonl.path: ", "'../a.jsonl' leaves the output folder")),
    "video outside the root": ("{video: ../../a.mp4}", ("video.path: ", "'../../a.mp4' leaves the output folder")),
    "lines below a file": ("{jsonl: file/a.jsonl}", ("jsonl.path: ", "file is no folder")),
    "video below a file": ("{video: file/a.mp4}", ("video.path: ", "file is no folder")),
    "lines on a folder": ("{jsonl: folder}", ("jsonl.path: ", "folder is a folder: name a file")),
    "lines in a folder of no name": ("{csv: 'tables/'}", ("csv.path: ", "'tables/' is a folder: name a file in it")),
    "video on a folder": ("{video: folder.mp4}", ("video.path: ", "folder.mp4 is a folder: name a file")),
    "lines through a link": ("{jsonl: link.jsonl}", ("jsonl.path: ", "link.jsonl is a symbolic link")),
    "video through a link": ("{video: link.mp4}", ("video.path: ", "link.mp4 is a symbolic link")),
    "video of another suffix": ("{video: a.avi}", ("video.path: 'a.avi' must end in .mp4 or .mkv",)),
    "images of another suffix": (
        "{snapshots: {path: '{frame}.gif', every: 1s}}",
        ("snapshots.path: ", "must end in"),
    ),
    "two steps into one file": ("{jsonl: a.jsonl}, {jsonl: ./a.jsonl}", ("pipeline.1.jsonl.path: ", "writes it too")),
    "lines over the configuration": ("{jsonl: street.yaml}", ("jsonl.path: ", "street.yaml is the configuration")),
    "lines over what a step reads": (FOUND + ", {jsonl: det.txt}", ("jsonl.path: ", "det.txt")),
    "lines over a file of somebody": (
        "{jsonl: thesis.txt}",
        ("jsonl.path: ", "thesis.txt was not written by Sightline"),
    ),
    "a video over a file of somebody": ("{video: holiday.mp4}", ("video.path: ", "holiday.mp4 was not written by")),
    "a video over its source": ("{video: clip.mp4}", ("video.path: ", "clip.mp4 cannot be written: the source 'cam'")),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with things in the way of outputs."""
    inside = tmp_path / "inside"
    for name in ("folder", "folder.mp4"):
        (inside / name).mkdir(parents=True)
    (inside / "file").write_text("kept")
    (inside / "thesis.txt").write_text("kept")
    (inside / "holiday.mp4").write_bytes(b"kept")
    for name in ("link.jsonl", "link.mp4"):
        (inside / name).symlink_to(tmp_path / "elsewhere")
    (inside / "det.txt").write_text("".join(f"{n},-1,1,1,5,5,0.9,-1,-1,-1\n" for n in range(1, 201)))
    write_clip(inside / "clip.mp4", count=3)
    return inside


@pytest.mark.parametrize("name", PLACES)
def test_an_output_that_can_not_be_is_told_once_before_anything_runs(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    text, told = PLACES[name]
    mistake = Mistake(steps(text, sources="sources: {cam: clip.mp4}\n"), (f"{CONFIG}:2:", *told))
    before = sorted(folder.parent.rglob("*"))

    outcome = call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, folder)
    assert set(folder.parent.rglob("*")) - set(before) == {folder / CONFIG}
    assert {(folder / name).read_text() for name in ("file", "thesis.txt", "holiday.mp4")} == {"kept"}
    assert images_in(folder / "clip.mp4") == 3


@pytest.mark.parametrize("text", ["{video: out/a.mp4}", "{mot: out/a.txt}", "{kitti: out/a.txt}"])
def test_two_streams_can_not_share_a_file(
    text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mistake = Mistake(steps(f"{FOUND}, track, {text}", sources=TWO), (".path: ", "put {stream} into the path"))

    outcome = call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, folder)


@pytest.mark.parametrize("text", ["{jsonl: 'locked/a.jsonl'}", "{video: 'locked/a.mp4'}"])
def test_a_folder_that_may_not_be_written_is_told_before_anything_runs(text: str, folder: Path) -> None:
    (folder / "locked").mkdir(mode=0o500)
    mistake = Mistake(steps(text), (f"{CONFIG}:2:", "path: ", "locked/a.", "no permission to write to"))

    outcome = call_apart(mistake, folder, prepare=forget_to_be_root)

    assert_told_once(outcome, mistake, folder)


def test_a_document_written_aside_does_not_replace_a_device_or_pipe(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(folder / "pipe.json")
    told = ("error: element 'coco-2' failed on stream 'cam', frame 0: ", "pipe.json: it is no ordinary file")
    text = steps(f"{FOUND}, {{coco: {{path: pipe.json, id: coco-2}}}}") + "batch: {size: 1}\n"
    mistake = Mistake(text, told, 1)

    outcome = call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, folder)
    assert (folder / "pipe.json").is_fifo()
    assert not list(folder.glob("*.part"))


@pytest.mark.parametrize("text", ["{jsonl: /dev/full}", "{csv: /dev/full}"])
def test_a_full_disk_is_told_once(
    text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    told = ("error: element '", "cannot ", "/dev/full: the disk is full")
    mistake = Mistake(steps(f"{FOUND}, {text}"), told, 1)

    outcome = call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, folder)


def limit_files(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.row(id="C4")
@pytest.mark.parametrize(
    ("text", "size", "file"),
    [
        ("{jsonl: 'out/{stream}.jsonl'}", 5_000, "cam.jsonl"),
        ("{csv: 'out/{stream}.csv'}", 1_000, "cam.csv"),
        ("{video: {path: 'out/{stream}.mp4', gop: 200ms}}", 500_000, "cam.mp4"),
        ("{video: {path: 'out/{stream}.mkv', gop: 200ms}}", 500_000, "cam.mkv"),
        ("{video: {path: 'out/{stream}.mp4', gop: 10s}}", 100_000, "cam.mp4"),
    ],
)
def test_a_file_that_can_not_grow_is_told_once_and_stays_readable(
    text: str, size: int, file: str, folder: Path, figure: Record
) -> None:
    told = ("error: element '", f"out/{file}: it has reached the largest size")
    mistake = Mistake(steps(f"{FOUND}, {text}", sources=NOISE), told, 1)

    outcome = call_apart(mistake, folder, prepare=limit_files(size))

    written = folder / "out" / file
    is_kept = written.exists() and written.stat().st_size > 0
    assert is_kept is ("gop: 10s" not in text), "no whole group of frames was written"
    assert ("what was written before is kept" in outcome.stderr) is is_kept

    figure("`jsonl`, `csv`, `video` end the run: endings without a reason", outcome.code != 1, limit=0, unit="")
    assert_told_once(outcome, mistake, folder)


def test_a_report_on_a_full_disk_is_told_and_the_outputs_are_there(folder: Path) -> None:
    mistake = Mistake(
        steps("{jsonl: out/a.jsonl}"),
        ("error: cannot write /dev/full: the disk is full",),
        1,
        arguments=(*QUIET_RUN, "--report", "/dev/full"),
    )

    outcome = call_apart(mistake, folder)

    assert_told_once(outcome, mistake, folder)
    assert lines_of(folder / "out" / "a.jsonl") == list(range(5))


def test_outputs_that_exist_are_written_anew(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = steps("{jsonl: out/a.jsonl}, {video: out/a.mp4}")

    for frames in ("5", "2"):
        mistake = Mistake(config, (), arguments=(*QUIET_RUN, "--frames", frames))
        outcome = call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd)
        assert (outcome.code, outcome.stderr) == (0, "")

    assert lines_of(folder / "out" / "a.jsonl") == [0, 1]
    assert images_in(folder / "out" / "a.mp4") == 2


@pytest.mark.parametrize("allowed", ["--overwrite", "overwrite: true\n"])
def test_files_of_others_are_replaced_when_it_is_allowed(
    folder: Path, allowed: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    is_option = allowed.startswith("--")
    config = steps("{jsonl: thesis.txt}", sources=CAMERA if is_option else allowed + CAMERA)

    mistake = Mistake(config, (), arguments=(*QUIET_RUN, *([allowed] if is_option else [])))
    outcome = call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd)

    assert (outcome.code, outcome.stderr) == (0, "")
    assert lines_of(folder / "thesis.txt") == list(range(5))


def test_a_report_does_not_replace_a_file_of_somebody(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    config = steps("{jsonl: a.jsonl}")

    def report_to(name: str) -> Outcome:
        mistake = Mistake(config, (), arguments=(*QUIET_RUN, "--report", name))
        return call_here(mistake, folder, monkeypatch=monkeypatch, capfd=capfd)

    outcome = report_to("thesis.txt")

    assert outcome.code == 2
    assert "thesis.txt was not written by Sightline" in outcome.stderr
    assert (folder / "thesis.txt").read_text() == "kept"
    for _ in range(2):
        assert report_to("r.json").code == 0


@pytest.mark.row(id="D8")
def test_too_many_open_files_are_told_with_what_to_do(folder: Path) -> None:
    sources = "".join(f"  s{number}: {{pattern: bars, size: [64, 48], frames: null}}\n" for number in range(8))
    text = steps("{jsonl: 'out/{stream}.jsonl'}, {video: 'out/{stream}.mp4'}", sources=f"sources:\n{sources}")
    told = ("error: element '", "cannot ", "too many files are open; raise the limit (ulimit -n)")
    mistake = Mistake(text, told, 1)

    outcome = call_apart(mistake, folder, prepare=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10)))

    assert_told_once(outcome, mistake, folder)


@pytest.mark.row(id="D8")
def test_eight_streams_do_with_a_limit_of_thirty_two_open_files(folder: Path) -> None:
    sources = "".join(f"  s{number}: clip.mp4\n" for number in range(8))
    text = steps("{jsonl: 'out/{stream}.jsonl'}, {video: 'out/{stream}.mp4'}", sources=f"sources:\n{sources}")

    outcome = call_apart(
        Mistake(text, ()), folder, prepare=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    )

    assert (outcome.code, outcome.stderr) == (0, "")
    assert [images_in(folder / "out" / f"s{number}.mp4") for number in range(8)] == [3] * 8


def test_standard_output_carries_only_the_lines_asked_for(folder: Path) -> None:
    outcome = call_apart(Mistake(steps("{jsonl: '-'}"), (), arguments=("run", CONFIG)), folder)

    assert [json.loads(line)["frame"] for line in outcome.stdout.splitlines()] == list(range(5))
    assert "5 frames" in outcome.stderr
