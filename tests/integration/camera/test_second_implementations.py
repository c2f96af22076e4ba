"""Our camera read by GStreamer, and GStreamer's server read as ours is: neither only understands itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import av
import numpy as np
import pytest

from sightline_plugins.codecs.bitstream import is_parameter_set, nal_units
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.rtsp.payloads import Codec
from tests.conftest import missing
from tests.integration.camera.clips import noise_clip, watch
from tests.integration.sources.gst_camera import GstCamera

FPS = 100
DEPAYLOADERS = {
    Codec.H264: "rtph264depay ! h264parse ! video/x-h264,stream-format=byte-stream,alignment=au",
    Codec.H265: "rtph265depay ! h265parse ! video/x-h265,stream-format=byte-stream,alignment=au",
    Codec.MJPEG: "rtpjpegdepay",
}
DELIMITERS = {Codec.H264: {9}, Codec.H265: {35}}
NAMES = {Codec.H264: "h264", Codec.H265: "hevc", Codec.MJPEG: "mjpeg"}


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[Codec, Clip]:
    folder = tmp_path_factory.mktemp("clips")
    return {codec: noise_clip(folder, codec=codec, count=25) for codec in Codec}


def received(camera: FakeCamera, codec: Codec, *, transport: str, folder: Path, more: str = "") -> bytes:
    """What GStreamer writes into a file of a session, until the camera ends it."""
    program = shutil.which("gst-launch-1.0")
    if program is None:
        missing("no gst-launch-1.0 (apt-get install gstreamer1.0-tools gstreamer1.0-plugins-{base,good,bad})")
    out = folder / "received.bin"
    line = (
        f"rtspsrc location={camera.url} protocols={transport} {more} ! {DEPAYLOADERS[codec]} ! filesink location={out}"
    )
    command = [str(program), "-q", *line.split()]
    subprocess.run(command, capture_output=True, timeout=300, check=False)
    return out.read_bytes()


def images(data: bytes, codec: Codec) -> list[bytes]:
    """NAL units that belong to images."""
    kinds = DELIMITERS[codec]
    shift, mask = (0, 0x1F) if codec is Codec.H264 else (1, 0x3F)
    units = [unit for unit in nal_units(data) if not is_parameter_set(unit, codec=codec.ffmpeg_name)]
    return [unit for unit in units if unit[0] >> shift & mask not in kinds]


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("codec", [Codec.H264, Codec.H265])
def test_gstreamer_gets_every_unit(clips: dict[Codec, Clip], codec: Codec, transport: str, tmp_path: Path) -> None:
    with FakeCamera(clips[codec].at_fps(FPS), options=CameraOptions(passes=1)) as camera:
        data = received(camera, codec, transport=transport, folder=tmp_path)

    sent = b"".join(packet.data for packet in clips[codec].packets)
    assert images(data, codec) == images(sent, codec)


def test_gstreamer_gets_every_jpeg_image(clips: dict[Codec, Clip], tmp_path: Path) -> None:
    with FakeCamera(clips[Codec.MJPEG].at_fps(FPS), options=CameraOptions(passes=1)) as camera:
        data = received(camera, Codec.MJPEG, transport="tcp", folder=tmp_path)

    decoder = av.CodecContext.create("mjpeg", "r")
    found = [b"\xff\xd8" + part for part in data.split(b"\xff\xd8")[1:]]
    got = [decoder.decode(av.Packet(image))[0].to_ndarray() for image in found]
    sent = [decoder.decode(av.Packet(packet.data))[0].to_ndarray() for packet in clips[Codec.MJPEG].packets]
    assert len(got) == len(sent)
    assert all(np.array_equal(one, other) for one, other in zip(got, sent, strict=True))


@pytest.mark.parametrize("authentication", ["digest", "basic"])
def test_gstreamer_logs_in(clips: dict[Codec, Clip], authentication: str, tmp_path: Path) -> None:
    options = CameraOptions(passes=1, authentication="basic" if authentication == "basic" else "digest")
    with FakeCamera(clips[Codec.H264].at_fps(FPS), credentials="admin:s3cret", options=options) as camera:
        login = "user-id=admin user-pw=s3cret"
        data = received(camera, Codec.H264, transport="tcp", folder=tmp_path, more=login)

    assert len(images(data, Codec.H264)) >= 25


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("codec", Codec)
def test_gstreamer_serves_a_clip(clips: dict[Codec, Clip], codec: Codec, transport: str, tmp_path: Path) -> None:
    with GstCamera(clips[codec], folder=tmp_path) as camera:
        watched = watch(camera.url, transport=transport, packets=20)

    assert watched.codec == NAMES[codec]
    assert len(watched.packets) == 20
    assert len(watched.images) >= 19


def test_gstreamer_asks_for_credentials(clips: dict[Codec, Clip], tmp_path: Path) -> None:
    with GstCamera(clips[Codec.H264], folder=tmp_path, credentials="admin:s3cret") as camera:
        right = watch(camera.login_url, packets=5)
        wrong = watch(camera.url.replace("//", "//admin:secret@"), packets=5)

    assert len(right.packets) == 5
    assert isinstance(wrong.error, av.error.HTTPUnauthorizedError)


def test_gstreamer_can_be_killed_frozen_and_started_again(clips: dict[Codec, Clip], tmp_path: Path) -> None:
    with GstCamera(clips[Codec.H264], folder=tmp_path) as camera:
        port = camera.port
        killed = watch(camera.url, during=lambda count: camera.kill() if count == 5 else None)
        camera.start()
        frozen = watch(camera.url, limit_seconds=1, during=lambda count: camera.freeze() if count == 5 else None)
        camera.thaw()
        back = watch(camera.url, packets=5)

    assert camera.port == port
    assert killed.error is None
    assert isinstance(frozen.error, av.error.ExitError | av.error.TimeoutError)
    assert len(back.packets) == 5
