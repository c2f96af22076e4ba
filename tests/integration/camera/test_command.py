"""`sightline camera` as people call it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import av
import pytest
from av.video.stream import VideoStream

from sightline_plugins.commands.camera.script import read_script
from tests.integration.camera.clips import noise_clip, watch, write_noise

COMMAND = (sys.executable, "-m", "sightline.cli.main", "camera")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_noise(tmp_path_factory.mktemp("clips") / "street.mp4")


@contextmanager
def showing(*arguments: str | Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command in a process of its own, and the first address that it prints."""
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments), "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def refused(*arguments: str | Path) -> str:
    """What the command says when it refuses to start."""
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (1, 2)
    assert done.stdout == ""
    return done.stderr


def test_a_file_becomes_a_camera_until_ctrl_c(path: Path) -> None:
    with showing(path) as (url, process):
        watched = watch(url, packets=5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)

    assert url.endswith("/street")
    assert len(watched.packets) == 5
    assert process.returncode == 130
    assert "street: h264, 160x96, 25 fps, 2.0 s" in said
    assert "watches over RTP/AVP/TCP" in said
    assert "street: 1 sessions" in said
    assert "Traceback" not in said


def test_it_asks_for_user_and_password_and_never_shows_them(path: Path) -> None:
    with showing(f"gate={path}", "--user", "admin:s3cret") as (url, process):
        assert isinstance(watch(url).error, av.error.HTTPUnauthorizedError)
        assert len(watch(url.replace("//", "//admin:s3cret@"), packets=3).packets) == 3
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=300)

    assert process.returncode == 0
    assert url.endswith("/gate")
    assert "s3cret" not in url + said


def test_a_script_is_carried_out_and_told(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "day.yaml"
    script.write_text("steps:\n  - {at: 100ms, kill: true, lasts: 100ms}\n  - {at: 300ms, loss: 50%}\n")
    done = subprocess.run(
        [*COMMAND, str(path), "--port", "0", "--script", str(script), "--duration", "800ms"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if " s: " in line]
    assert told == ["0.1 s: killed for 0.1 s", "0.2 s: over: killed", "0.3 s: loss 0.5"]


def test_a_script_names_other_clips_by_file(path: Path) -> None:
    script = path.with_name("swap.yaml")
    script.write_text("steps:\n  - {at: 1s, clip: street.mp4}\nrepeat: 2s\n")

    (step,), repeat_seconds = read_script(script)

    assert step.swap is not None
    assert len(step.swap.packets) == 50
    assert repeat_seconds == 2


def test_all_mistakes_of_a_script_are_told_at_once(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "day.yaml"
    script.write_text("steps:\n  - {at: 1s, los: 5%}\n  - {at: 1s}\n  - {at: soon, loss: 300%}\n")

    said = refused(path, "--script", script)

    assert f"{script}:2:14: steps.0.los: there is no such option; did you mean 'loss'?" in said
    assert "steps.1: nothing happens in this step" in said
    assert "steps.2.at: 'soon' is not a duration" in said
    assert "steps.2.loss: must be at most 1" in said


def test_a_taken_port_is_said(path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        assert f"cannot listen on port {port} of 127.0.0.1 (Address already in use)" in refused(
            path, "--port", str(port)
        )


@pytest.mark.parametrize(
    ("encoder", "pixel_format", "reason"),
    [
        ("mpeg4", "yuv420p", "cameras send H.264, H.265 or MJPEG, and this is mpeg4: convert it"),
        ("mjpeg", "yuvj444p", "JPEG over RTP carries 4:2:0 and 4:2:2 only"),
    ],
)
def test_a_clip_that_cameras_do_not_send_is_said(tmp_path: Path, encoder: str, pixel_format: str, reason: str) -> None:
    clip = tmp_path / "clip.avi"
    with av.open(clip, "w") as container:
        stream = cast("VideoStream", container.add_stream(encoder, rate=25))
        stream.width, stream.height, stream.pix_fmt = 64, 48, pixel_format
        for packet in [*stream.encode(av.VideoFrame(64, 48, pixel_format)), *stream.encode(None)]:
            container.mux(packet)

    assert reason in refused(clip)


def test_clips_come_out_of_every_container(tmp_path: Path) -> None:
    wanted = noise_clip(tmp_path)
    for suffix in (".mkv", ".ts", ".mov"):
        other = noise_clip(tmp_path, suffix=suffix)

        assert len(other.packets) == len(wanted.packets)
        assert other.parameter_sets == wanted.parameter_sets
        assert other.fps == pytest.approx(25, rel=0.02)
