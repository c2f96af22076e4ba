"""Streams that begin where they were cut: within a GOP, at an open one, and without any key frame."""

from __future__ import annotations

from pathlib import Path

import av
import pytest
from av.packet import Packet

from sightline.devices.cuda.device import CudaDevice
from sightline_plugins.codecs.bitstream import in_band_configuration
from sightline_plugins.codecs.sps import Crop
from sightline_plugins.commands.camera.packets import load_clip
from sightline_plugins.commands.camera.server import FakeCamera
from sightline_plugins.commands.camera.session import CameraOptions
from sightline_plugins.sources.live.rtsp import Rtsp
from tests.fakes import fake_nvdec
from tests.fakes.nvdec import NvdecFaults
from tests.integration.sources.cropped import Coding, write_cropped
from tests.reading import EVERYTHING, all_same, frames_of

NAMES = {"libx264": "h264", "libx265": "hevc"}
OPEN = [Coding(codec, parameters="open-gop=1", b_frames=3) for codec in NAMES]
CLOSED = [Coding(codec, b_frames=b_frames) for codec in NAMES for b_frames in (0, 2)]
REFRESHED = Coding("libx264", parameters="intra-refresh=1")
CROP = Crop(6, 4, 2, 8)
FAULTS = {"nvdec": NvdecFaults(), "cpu": NvdecFaults(shifted=range(10_000))}
"""Who decodes, and the faults that make it so."""


def write_cut(folder: Path, coding: Coding, *, first: int, crop: Crop = CROP) -> Path:
    """Write a transport stream that lacks the packets before `first`, but for their parameter sets."""
    path = folder / "cut.ts"
    whole = write_cropped(folder / "clip.ts", crop, coding=coding, count=40)
    with av.open(whole) as source, av.open(path, "w") as target:
        video = source.streams.video[0]
        stream = target.add_stream_from_template(video)
        packets = [packet for packet in source.demux(video) if packet.size]
        sets = in_band_configuration(NAMES[coding.codec], bytes(packets[0]))
        for packet in packets[first:]:
            copy = Packet(sets + bytes(packet))
            copy.pts, copy.dts, copy.time_base = packet.pts, packet.dts, packet.time_base
            copy.is_keyframe, copy.stream = packet.is_keyframe, stream
            target.mux(copy)
            sets = b""
    return path


@pytest.mark.parametrize("decoder", FAULTS)
@pytest.mark.parametrize("first", [1, 3, 9, 10])
@pytest.mark.parametrize("coding", [*OPEN, *CLOSED], ids=str)
def test_frames_and_counts_are_those_of_the_cpu(
    gpu: CudaDevice, tmp_path: Path, coding: Coding, first: int, decoder: str
) -> None:
    fake_nvdec(gpu, caps=EVERYTHING, faults=FAULTS[decoder])
    path = write_cut(tmp_path, coding, first=first)

    ours, reader = frames_of(path, gpu)

    theirs, on_cpu = frames_of(path)
    assert len(theirs) >= 20
    assert all_same(ours, theirs)
    assert (reader.decoder, reader.damaged_packets) == (decoder, on_cpu.damaged_packets)


@pytest.mark.parametrize("first", [1, 12])
def test_a_stream_that_is_refreshed_without_key_frames_is_decoded_by_the_cpu(
    gpu: CudaDevice, tmp_path: Path, first: int
) -> None:
    library = fake_nvdec(gpu)
    path = write_cut(tmp_path, REFRESHED, first=first)

    ours, reader = frames_of(path, gpu)

    theirs, _ = frames_of(path)
    assert len(theirs) > 10
    assert all_same(ours, theirs)
    assert reader.decoder_reason == "it has no key frames that are whole images (intra refresh)"
    assert library.made == []


def test_a_stream_that_is_refreshed_after_a_key_frame_is_decoded_by_nvdec(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu)
    path = write_cut(tmp_path, REFRESHED, first=0)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder == "nvdec"


@pytest.mark.parametrize("coding", [Coding("libx264"), Coding("libx264", b_frames=2), Coding("libx265")], ids=str)
@pytest.mark.parametrize("decoder", FAULTS)
def test_a_camera_that_crops_left_and_top_gives_the_cpus_frames(
    gpu: CudaDevice, tmp_path: Path, coding: Coding, decoder: str
) -> None:
    fake_nvdec(gpu, caps=EVERYTHING, faults=FAULTS[decoder])
    clip = load_clip(str(write_cropped(tmp_path / "clip.mp4", CROP, coding=coding, count=40)))
    with FakeCamera(clip, options=CameraOptions(paced=False, passes=1)) as camera:
        ours, reader = frames_of(Rtsp(uri=camera.url), gpu)
        theirs, _ = frames_of(Rtsp(uri=camera.url))

    assert len(ours) == len(theirs) == 40
    for one, other in zip(ours, theirs, strict=True):
        assert (one.size_wh, one.damaged) == (other.size_wh, False) == ((152, 84), False)
        assert [plane.tobytes() for plane in one.planes] == [plane.tobytes() for plane in other.planes]
    assert reader.decoder == decoder
