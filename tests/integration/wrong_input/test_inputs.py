"""Inputs that cannot be read: the message names stream, file and cause; other streams run to their end."""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.integration.sources.clips import write_bomb, write_clip, write_sound
from tests.integration.wrong_input.running import (
    CONFIG,
    QUIET_RUN,
    SECRET,
    Mistake,
    assert_told_once,
    call_apart,
    call_here,
    images_in,
    lines_of,
    steps,
)

SINKS = "{jsonl: 'out/{stream}.jsonl'}, {video: 'out/{stream}.mp4'}"
NO_VIDEO = "it holds no video that can be read"
PLAYLIST = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n{entry}\n#EXT-X-ENDLIST\n"


def text_file(name: str, content: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content)

    return make


def truncated(folder: Path) -> None:
    content = write_clip(folder / "whole.mp4").read_bytes()
    (folder / "cut.mp4").write_bytes(content[: len(content) // 2])


def two_images(folder: Path) -> None:
    write_clip(folder / "a.mp4", count=2)


def nothing(folder: Path) -> None:
    del folder


def make_folder(folder: Path) -> None:
    (folder / "empty").mkdir()


def make_mixed(folder: Path) -> None:
    (folder / "mixed").mkdir()
    (folder / "mixed" / "a.mp4").touch()
    (folder / "mixed" / "b.jpg").touch()


INPUTS: dict[str, tuple[str, Callable[[Path], object], tuple[str, ...], int]] = {
    "missing": ("no.mp4", nothing, (f"{CONFIG}:1:16: sources.cam.uri: there is no file", "no.mp4"), 2),
    "missing, nearly": ("caf.mp4", text_file("car.mp4", "x"), ("did you mean 'car.mp4'?",), 2),
    "empty": ("a.mp4", text_file("a.mp4", ""), ("stream 'cam' (", "a.mp4): the file is empty"), 1),
    "empty folder": ("empty", make_folder, (f"{CONFIG}:1:16: sources.cam.uri: the folder ", "empty is empty"), 2),
    "folder of text": (
        "texts",
        text_file("texts/a.txt", "x"),
        ("stream 'cam' (", "it holds no images and no videos", "folder/**/*.mp4"),
        1,
    ),
    "text": ("a.mp4", text_file("a.mp4", "hello\n" * 99), ("a.mp4): ", NO_VIDEO, "convert it anew"), 1),
    "sound": ("a.mkv", lambda folder: write_sound(folder / "a.mkv"), ("a.mkv): it holds no video (audio only",), 1),
    "cut off": ("cut.mp4", truncated, ("cut.mp4): ", NO_VIDEO, "cut off before its index"), 1),
    "an image too large": ("b.png", lambda folder: write_bomb(folder / "b.png"), ("b.png): ", "35389440 pixels"), 1),
    "a video too large": (
        "{uri: a.mp4, max_pixels: 1000}",
        two_images,
        ("a.mp4): ", "1000 pixels", "raise max_pixels"),
        1,
    ),
    "device": ("/dev/zero", nothing, ("(/dev/zero): it is a pipe or device",), 1),
    "glob of nothing": ("'images/*.jpg'", nothing, ("sources.cam.uri: no file matches", "images/*.jpg"), 2),
    "numbers of nothing": ("'p/%04d.jpg'", nothing, ("p/%04d.jpg): it holds no images and no videos",), 1),
    "mixed folder": ("mixed", make_mixed, ("sources.cam.uri: ", "holds videos (a.mp4) and images (b.jpg)"), 2),
    "too long": ("a" * 400 + ".mp4", nothing, ("there is no file",), 2),
    "folder too long": ("a" * 400, nothing, ("there is no file",), 2),
    "glob too long": ("'" + "a" * 400 + "/*.jpg'", nothing, ("no file matches",), 2),
    "concat": ("'concat:a.mp4|b.mp4'", nothing, ("there is no file", "concat:a.mp4|b.mp4"), 2),
    "subfile": ("'subfile,,start,0,end,9,,:a.mp4'", nothing, ("there is no file",), 2),
    "concat script": (
        "a.mp4",
        text_file("a.mp4", "ffconcat version 1.0\nfile b.mp4\n"),
        ("a.mp4): it is of a kind",),
        1,
    ),
    "file in a playlist": (
        "a.m3u8",
        text_file("a.m3u8", PLAYLIST.format(entry="file:///etc/passwd")),
        ("a.m3u8): ", "no video"),
        1,
    ),
    "server in a playlist": (
        "a.m3u8",
        text_file("a.m3u8", PLAYLIST.format(entry="http://127.0.0.1:9/a.ts")),
        ("a.m3u8): ", "no video"),
        1,
    ),
    "start behind the end": (
        "{uri: a.mp4, start: 60s}",
        lambda folder: write_clip(folder / "a.mp4", count=5),
        ("a.mp4): it ends before start (60 s)",),
        1,
    ),
    "second video of one": (
        "{uri: a.mp4, stream_index: 3}",
        two_images,
        ("a.mp4): it has 1 video stream(s)", "there is no number 3"),
        1,
    ),
    "no web server": (
        f"'http://u:{SECRET}@127.0.0.1:9/a.mp4'",
        nothing,
        ("stream 'cam' (http://***@127.0.0.1:9/a.mp4): the connection was refused", "that the server runs"),
        1,
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_an_input_that_can_not_be_read_is_told_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source, make, told, code = INPUTS[name]
    make(tmp_path)
    mistake = Mistake(steps(SINKS, sources=f"sources: {{cam: {source}}}\n"), told, code)

    outcome = call_here(mistake, tmp_path, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("clip", "told"),
    [
        ("short-cenc.mp4", "encrypted"),
        ("invalid_userdata.mp4", "promises 5544 frames, and not one is in it"),
        ("chunk_out_of_range.mp4", NO_VIDEO),
        ("invalid-bitstream.webm", "none of its 51 packets can be decoded"),
    ],
)
def test_a_damaged_or_encrypted_clip_is_told_once(
    clip: str,
    told: str,
    shared_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    uri = shared_data / "videos" / "hostile" / clip
    mistake = Mistake(steps(SINKS, sources=f"sources: {{cam: '{uri}'}}\n"), (f"stream 'cam' ({uri}): ", told), 1)

    outcome = call_here(mistake, tmp_path, monkeypatch=monkeypatch, capfd=capfd)

    assert_told_once(outcome, mistake, tmp_path)


def test_one_bad_stream_among_good_ones_is_named_and_the_others_run_to_their_end(tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("hello\n" * 99)
    write_clip(tmp_path / "good.mp4", count=40)
    sources = "sources: {bad: text.mp4, good: good.mp4, also: {pattern: bars, size: [64, 48], frames: 9}}\n"
    mistake = Mistake(steps(SINKS, sources=sources), ("error: stream 'bad' (", "text.mp4): ", NO_VIDEO), 1)

    outcome = call_apart(mistake, tmp_path)

    assert_told_once(outcome, mistake, tmp_path)
    assert lines_of(tmp_path / "out" / "good.jsonl") == list(range(40))
    assert lines_of(tmp_path / "out" / "also.jsonl") == list(range(9))
    assert images_in(tmp_path / "out" / "good.mp4") == 40
    assert not (tmp_path / "out" / "bad.jsonl").exists()


def forget_to_be_root() -> None:
    """From here on the process obeys the permissions of files, although root owns it (prctl(2), capabilities(7))."""
    drop_from_bounding_set, override, read_search = 24, 1, 2
    for capability in (override, read_search):
        ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)


def test_a_file_without_permission_says_so(tmp_path: Path) -> None:
    write_clip(tmp_path / "locked.mp4", count=2).chmod(0)
    told = ("stream 'cam' (", "locked.mp4): it may not be read; check its permissions")
    mistake = Mistake(steps(SINKS, sources="sources: {cam: locked.mp4}\n"), told, 1)

    outcome = call_apart(mistake, tmp_path, prepare=forget_to_be_root)

    assert_told_once(outcome, mistake, tmp_path)


def test_a_camera_that_refuses_is_tried_again_until_the_duration_has_passed(tmp_path: Path) -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        sources = f"sources: {{cam: 'rtsp://u:{SECRET}@127.0.0.1:{port}/a'}}\n"
        outcome = call_apart(
            Mistake(steps(SINKS, sources=sources), (), arguments=(*QUIET_RUN, "--duration", "1s")), tmp_path
        )

    where = f"stream 'cam' (rtsp://***@127.0.0.1:{port}/a): the connection was refused; check host and port"
    lost, failed = outcome.stderr.splitlines()
    assert lost.startswith(where)
    assert lost.endswith("trying again")
    assert failed.startswith(f"error: {where}")
    assert (outcome.code, outcome.stdout) == (1, "")


def test_a_wrong_password_of_a_camera_is_an_error_that_does_not_show_it(tmp_path: Path) -> None:
    clip = load_clip(str(write_clip(tmp_path / "clip.mp4", count=3)))
    with FakeCamera(clip, credentials="admin:other") as camera:
        sources = f"sources: {{cam: '{camera.url.replace('//', f'//admin:{SECRET}@')}'}}\n"
        outcome = call_apart(
            Mistake(steps(SINKS, sources=sources), (), arguments=(*QUIET_RUN, "--duration", "1s")), tmp_path
        )

    refused, failed = outcome.stderr.splitlines()
    assert refused.startswith("stream 'cam' (rtsp://***@")
    assert "check user and password" in refused
    assert failed.startswith("error: stream 'cam' (rtsp://***@")
    assert SECRET not in outcome.stderr
    assert (outcome.code, outcome.stdout) == (1, "")
