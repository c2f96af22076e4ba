"""Streams served by RTSP, read back by ourselves and by others."""

from __future__ import annotations

import itertools
import shutil
import socket
import subprocess
from pathlib import Path

import av
import pytest

from sightline import Pipeline
from sightline.errors import OutputError, StreamError
from sightline.media.frame import TimeSource
from sightline_plugins.codecs.bitstream import nal_units
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from tests.conftest import missing
from tests.integration.publish.publishing import (
    COUNTER,
    SIZE_WH,
    numbers,
    publishing,
    read_back,
    write_counter,
)
from tests.ports import free_port

COUNT = 30
IMAGE_NS = 40_000_000
TOKEN = "correct-horse-battery"


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_images_arrive_in_order_whole_and_in_time(transport: str) -> None:
    port = free_port()
    with publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}"}):
        frames = read_back(f"rtsp://127.0.0.1:{port}/gate", count=COUNT, transport=transport)

    steps = [later.pts_ns - earlier.pts_ns for earlier, later in itertools.pairwise(frames)]
    shown = numbers(frames)
    assert {frame.size_wh for frame in frames} == {SIZE_WH}
    assert shown == sorted(set(shown))
    assert not any(frame.damaged for frame in frames)
    assert all(step > 0 for step in steps)
    assert sorted(steps)[len(steps) // 2] == pytest.approx(40_000_000, abs=50_000)


def test_drawn_images_are_encoded_and_every_viewer_gets_them() -> None:
    port = free_port()
    with publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}"}, before=["draw"]) as published:
        both = [read_back(f"rtsp://127.0.0.1:{port}/gate", count=5) for _ in range(2)]

    assert [frames[0].size_wh for frames in both] == [SIZE_WH, SIZE_WH]
    assert published.totals()["encoded"]
    assert published.totals()["viewers"] == 2


def slices(data: bytes) -> list[bytes]:
    """The NAL units of a byte stream that hold images."""
    return [unit for unit in nal_units(data) if unit[0] & 0x1F in (1, 5)]


ENCODERS = [("libx264", ".mp4", "h264"), ("libx265", ".mp4", "hevc"), ("mjpeg", ".avi", "mjpeg")]


@pytest.mark.parametrize(("encoder", "suffix", "codec"), ENCODERS)
def test_untouched_images_are_passed_on_and_not_encoded(encoder: str, suffix: str, codec: str, tmp_path: Path) -> None:
    port = free_port()
    clip = write_counter(tmp_path / f"clip{suffix}", encoder=encoder)
    source = {"uri": str(clip), "loop": True, "realtime": True}
    with publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}"}, sources={"gate": source}) as published:
        with av.open(f"rtsp://127.0.0.1:{port}/gate", options={"rtsp_transport": "tcp"}) as client:
            name = client.streams.video[0].codec_context.codec.canonical_name
        shown = numbers(read_back(f"rtsp://127.0.0.1:{port}/gate", count=COUNT))

    assert name == codec
    assert shown == sorted(set(shown))
    assert not published.totals()["encoded"]


def test_what_is_passed_on_is_the_source_s_own_bytes(tmp_path: Path) -> None:
    port = free_port()
    clip = write_counter(tmp_path / "clip.mp4", b_frames=2)
    own = {
        unit for packet in load_clip(str(clip)).packets for unit in nal_units(packet.data) if unit[0] & 0x1F in (1, 5)
    }
    source = {"uri": str(clip), "loop": True, "realtime": True}
    with (
        publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}"}, sources={"gate": source}),
        av.open(f"rtsp://127.0.0.1:{port}/gate", options={"rtsp_transport": "tcp"}) as client,
    ):
        packets = [bytes(packet) for packet in itertools.islice(client.demux(video=0), COUNT)]

    found = [unit for data in packets for unit in slices(data)]
    assert len(found) >= COUNT
    assert set(found) <= own


def test_the_camera_s_time_of_day_is_passed_on(tmp_path: Path) -> None:
    port = free_port()
    clip = load_clip(str(write_counter(tmp_path / "clip.mp4")))
    with (
        FakeCamera(clip) as camera,
        publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}"}, sources={"gate": camera.url}) as published,
    ):
        late = read_back(f"rtsp://127.0.0.1:{port}/gate", count=COUNT)[COUNT // 2 :]

    # A busy pipeline leaves images out, and their packets are passed on all the same: they lie between its own.
    times = [frame.capture_ns or 0 for frame in late]
    off_ns = [min((abs(own - time) for own in published.captured), default=0) for time in times]
    assert {frame.time_source for frame in late} == {TimeSource.RTCP}
    assert min(off_ns) < 1_000_000
    assert all((off + 1_000_000) % IMAGE_NS < 2_000_000 for off in off_ns)
    assert times == sorted(times)


def test_a_token_keeps_out_whoever_does_not_know_it() -> None:
    port = free_port()
    with publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}", "token": TOKEN}):
        known = read_back(f"rtsp://viewer:{TOKEN}@127.0.0.1:{port}/gate", count=3)
        with pytest.raises(av.error.HTTPUnauthorizedError):
            av.open(f"rtsp://127.0.0.1:{port}/gate", options={"rtsp_transport": "tcp"})
        with pytest.raises(av.error.HTTPUnauthorizedError):
            av.open(f"rtsp://viewer:wrong-horse-battery@127.0.0.1:{port}/gate", options={"rtsp_transport": "tcp"})

    assert len(known) == 3


def test_a_stream_that_is_not_there_is_not_found() -> None:
    port = free_port()
    with publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}"}), pytest.raises(av.error.HTTPNotFoundError):
        av.open(f"rtsp://127.0.0.1:{port}/yard", options={"rtsp_transport": "tcp"})


def test_a_port_that_is_taken_is_an_error_and_is_free_again_afterwards() -> None:
    port = free_port()
    with publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}"}):
        second = Pipeline(sources={"gate": COUNTER}, steps=[{"publish": {"rtsp": f"127.0.0.1:{port}/{{stream}}"}}])
        with pytest.raises(OutputError, match=f"cannot listen at 127.0.0.1:{port}"):
            second.run(frames=1)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))


def test_viewers_are_told_when_the_stream_ends() -> None:
    port, options = free_port(), {"rtsp_transport": "tcp"}
    with (
        publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}"}, sources={"gate": COUNTER, "yard": COUNTER}) as published,
        av.open(f"rtsp://127.0.0.1:{port}/gate", options=options, timeout=300) as client,
    ):
        for number, _ in enumerate(client.decode(video=0)):  # until the server says that it is over
            if number == COUNT:
                published.pipeline.remove_source("gate")

    assert number >= COUNT


@pytest.mark.parametrize("protocols", ["tcp", "udp"])
def test_gstreamer_plays_it(protocols: str) -> None:
    if shutil.which("gst-launch-1.0") is None:
        missing(
            "gst-launch-1.0 is not installed (Debian: gstreamer1.0-tools gstreamer1.0-plugins-good gstreamer1.0-libav)"
        )
    port = free_port()
    command = ["gst-launch-1.0", "-q", "rtspsrc", f"location=rtsp://127.0.0.1:{port}/gate", f"protocols={protocols}"]
    command += [
        "!",
        "rtph264depay",
        "!",
        "h264parse",
        "!",
        "avdec_h264",
        "!",
        "identity",
        "eos-after=20",
        "!",
        "fakesink",
    ]
    with publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}"}):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stderr


def test_ffprobe_reads_it() -> None:
    if shutil.which("ffprobe") is None:
        missing("ffprobe is not installed (Debian: ffmpeg)")
    port = free_port()
    command = ["ffprobe", "-v", "error", "-rtsp_transport", "tcp", "-read_intervals", "%+#20", "-count_frames"]
    command += ["-show_entries", "stream=codec_name,width,height", "-of", "csv=p=0", f"rtsp://127.0.0.1:{port}/gate"]
    with publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}"}):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)

    assert "h264,320,176" in done.stdout


def test_a_pipeline_of_ours_says_why_it_is_refused() -> None:
    port = free_port()
    with publishing({"rtsp": f"127.0.0.1:{port}/{{stream}}", "token": TOKEN}), pytest.raises(StreamError, match="401"):
        Pipeline(sources={"back": f"rtsp://127.0.0.1:{port}/gate"}, steps=[]).run(duration_ns=1_000_000_000)
