"""What leaves the fake camera is what its clip holds: read by FFmpeg, which did not make the packets."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest

from sightline_plugins.codecs.bitstream import nal_units
from sightline_plugins.commands.camera.clip import Clip
from sightline_plugins.commands.camera.server import FakeCamera, self_signed_certificate
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.rtsp.payloads import Codec
from tests.integration.camera.clips import Watched, noise_clip, watch

ONCE = CameraOptions(paced=False, passes=1)
QUICK = CameraOptions(passes=1)
QUICK_FPS = 200
NAMES = {Codec.H264: "h264", Codec.H265: "hevc", Codec.MJPEG: "mjpeg"}


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> dict[Codec, Clip]:
    folder = tmp_path_factory.mktemp("clips")
    return {codec: noise_clip(folder, codec=codec, count=25) for codec in Codec}


def units_of(clip: Clip) -> list[list[bytes]]:
    """The NAL units of each image, parameter sets before key frames."""
    found = []
    for packet in clip.packets:
        units = list(nal_units(packet.data))
        known = set(clip.parameter_sets) & set(units)
        found.append([*clip.parameter_sets, *units] if packet.is_key and not known else units)
    return found


def pixels(watched: Watched) -> list[bytes]:
    return [image.to_ndarray().tobytes() for image in watched.images]


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("codec", [Codec.H264, Codec.H265])
def test_every_access_unit_arrives_byte_for_byte(clips: dict[Codec, Clip], codec: Codec, transport: str) -> None:
    with FakeCamera(clips[codec].at_fps(QUICK_FPS), options=QUICK) as camera:
        watched = watch(camera.url, transport=transport)

    assert watched.codec == NAMES[codec]
    assert [list(nal_units(packet)) for packet in watched.packets] == units_of(clips[codec])
    assert len(watched.images) == 25


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_jpeg_images_arrive_pixel_for_pixel(clips: dict[Codec, Clip], transport: str) -> None:
    with FakeCamera(clips[Codec.MJPEG].at_fps(QUICK_FPS), options=QUICK) as camera:
        watched = watch(camera.url, transport=transport)

    decoder = av.CodecContext.create("mjpeg", "r")
    expected = [decoder.decode(av.Packet(packet.data))[0].to_ndarray() for packet in clips[Codec.MJPEG].packets]
    assert len(watched.images) == 25
    assert all(np.array_equal(got.to_ndarray(), want) for got, want in zip(watched.images, expected, strict=True))


@pytest.mark.parametrize("codec", Codec)
def test_timestamps_are_the_clip_s(clips: dict[Codec, Clip], codec: Codec) -> None:
    with FakeCamera(clips[codec], options=ONCE) as camera:
        watched = watch(camera.url)

    later = [pts - (watched.packet_pts[1] or 0) for pts in watched.packet_pts[1:] if pts is not None]
    assert later == list(range(0, 24 * 3_600, 3_600))


def test_b_frames_keep_their_times(tmp_path: Path) -> None:
    clip = noise_clip(tmp_path, b_frames=2, count=20)
    with FakeCamera(clip, options=ONCE) as camera:
        watched = watch(camera.url)

    shown = [image.pts for image in watched.images if image.pts is not None]
    assert len(watched.images) == 20
    assert {later - earlier for earlier, later in pairwise(shown)} == {3_600}


def test_the_clip_goes_round_and_timestamps_go_on(clips: dict[Codec, Clip]) -> None:
    with FakeCamera(clips[Codec.H264], options=CameraOptions(paced=False, passes=3)) as camera:
        watched = watch(camera.url)
        assert camera.sent.passes == 3

    assert len(watched.packets) == 75
    shown = [pts for pts in watched.packet_pts if pts is not None]
    assert {later - earlier for earlier, later in pairwise(shown)} == {3_600}


def test_several_cameras_share_a_server(clips: dict[Codec, Clip]) -> None:
    with FakeCamera({"gate": clips[Codec.H264], "yard": clips[Codec.H265]}, options=ONCE) as camera:
        codecs = [watch(camera.url_of(name)).codec for name in ("gate", "yard")]
        counts = [camera.mounts[name].sent.images for name in ("gate", "yard")]

    assert codecs == ["h264", "hevc"]
    assert counts == [25, 25]


def test_several_clients_watch_at_once(clips: dict[Codec, Clip]) -> None:
    seen: list[Watched] = []
    with FakeCamera(clips[Codec.H264].at_fps(100), options=CameraOptions(passes=1)) as camera:
        clients = [threading.Thread(target=lambda: seen.append(watch(camera.url))) for _ in range(3)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert camera.sent.sessions == 3

    assert [len(watched.packets) for watched in seen] == [25, 25, 25]
    assert len({tuple(pixels(watched)) for watched in seen}) == 1


def test_live_clients_join_in_the_middle(clips: dict[Codec, Clip]) -> None:
    clip = clips[Codec.H264]
    with FakeCamera(clip, options=CameraOptions(live=True)) as camera:
        first = watch(camera.url, packets=3)
        watch(camera.url, packets=5)
        second = watch(camera.url, packets=3)

    numbers = [
        next(n for n, units in enumerate(units_of(clip)) if units == list(nal_units(watched.packets[1])))
        for watched in (first, second)
    ]
    assert numbers[0] != numbers[1]


@pytest.mark.parametrize("authentication", ["digest", "basic"])
def test_credentials_open_the_camera(clips: dict[Codec, Clip], authentication: str) -> None:
    options = CameraOptions(paced=False, passes=1, authentication="basic" if authentication == "basic" else "digest")
    with FakeCamera(clips[Codec.H264], credentials="admin:s3 cret", options=options) as camera:
        right = watch(camera.url.replace("//", "//admin:s3%20cret@"))
        wrong = watch(camera.url.replace("//", "//admin:secret@"))
        none = watch(camera.url)

    assert len(right.packets) == 25
    assert isinstance(wrong.error, av.error.HTTPUnauthorizedError)
    assert isinstance(none.error, av.error.HTTPUnauthorizedError)


def test_rtsps_is_rtsp_through_tls(clips: dict[Codec, Clip], tmp_path: Path) -> None:
    certificate = self_signed_certificate(tmp_path)
    with FakeCamera(clips[Codec.H264], certificate=certificate, options=ONCE) as camera:
        watched = watch(camera.url)
        assert camera.url.startswith("rtsps://")

    assert len(watched.packets) == 25


def test_an_unknown_camera_and_an_unknown_transport_are_refused(clips: dict[Codec, Clip]) -> None:
    with FakeCamera(clips[Codec.H264], options=CameraOptions(transports=("tcp",))) as camera:
        assert isinstance(watch(camera.url + "s").error, av.error.HTTPNotFoundError)
        assert watch(camera.url, transport="udp").error is not None
