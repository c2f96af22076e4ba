"""Streams whose SPS crops left and top, which PyNvVideoCodec ignores: the same frames as on the CPU."""

from __future__ import annotations

from pathlib import Path

import av
import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from sightline.graph import Message, MessageKind
from sightline_plugins.codecs.bitstream import in_band_configuration
from sightline_plugins.codecs.sps import Crop
from sightline_plugins.decode import nvdec_session
from tests.fakes import fake_nvdec
from tests.integration.sources.cropped import Coding, write_changing_crop, write_cropped
from tests.reading import EVERYTHING, all_same, frames_of, media

CODECS = ["libx264", "libx265"]
CROPS = [Crop(2), Crop(0, 2), Crop(6, 4, 2, 8), Crop(64, 32)]


@pytest.mark.parametrize("suffix", ["mp4", "ts"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("crop", CROPS, ids=str)
def test_frames_are_cropped_as_on_the_cpu(gpu: CudaDevice, tmp_path: Path, codec: str, crop: Crop, suffix: str) -> None:
    fake_nvdec(gpu, caps=EVERYTHING)
    path = write_cropped(tmp_path / f"clip.{suffix}", crop, coding=Coding(codec, b_frames=2))

    ours, reader = frames_of(path, gpu)

    assert reader.decoder == "nvdec"
    assert all_same(ours, frames_of(path)[0])


@pytest.mark.parametrize("rotate", [0, 90, 180])
@pytest.mark.parametrize(
    ("coding", "crop"),
    [
        (Coding("libx264", pixel_format="yuv444p"), Crop(3, 5, 2, 4)),
        (Coding("libx265", pixel_format="yuv444p"), Crop(3, 5)),
        (Coding("libx265", pixel_format="yuv420p10le"), Crop(6, 4, 2, 8)),
        (Coding("libx265", pixel_format="gray"), Crop(3, 5, 2, 4)),
        (Coding("libx264"), Crop(6, 4, 2, 8)),
    ],
    ids=str,
)
def test_of_every_format_and_turn(gpu: CudaDevice, tmp_path: Path, coding: Coding, crop: Crop, rotate: int) -> None:
    fake_nvdec(gpu, caps=EVERYTHING)
    path = write_cropped(tmp_path / "clip.mkv", crop, coding=coding, count=4)

    ours, reader = frames_of(media(path, rotate=rotate), gpu)

    assert reader.decoder == "nvdec"
    assert all_same(ours, frames_of(media(path, rotate=rotate))[0])


@pytest.mark.parametrize("codec", CODECS)
def test_a_crop_that_changes_is_followed_and_no_frame_is_lost(gpu: CudaDevice, tmp_path: Path, codec: str) -> None:
    library = fake_nvdec(gpu, caps=EVERYTHING)
    crops = [Crop(8), Crop(0, 0, 8), Crop(2, 6, 6, 2), Crop(2, 6, 6, 2), Crop()]
    path = write_changing_crop(tmp_path / "clip.ts", *crops, coding=Coding(codec))

    ours, reader = frames_of(path, gpu)

    assert reader.decoder == "nvdec"
    assert len(ours) == 20 * len(crops)
    assert all_same(ours, frames_of(path)[0])
    assert len(library.made) == len(set(crops))


def test_parameter_sets_in_the_container_alone_are_followed(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu)
    path = write_cropped(tmp_path / "clip.avi", Crop(6, 4, 2, 8))

    ours, reader = frames_of(path, gpu)

    assert reader.decoder == "nvdec"
    assert all_same(ours, frames_of(path)[0])


def test_the_crop_that_is_applied_is_told_once_and_stands_in_the_report(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu)
    told: list[Message] = []
    crops = [Crop(), Crop(6, 4), Crop(6, 4)]
    path = write_changing_crop(tmp_path / "clip.ts", *crops)
    pipeline = Pipeline(sources={"gate": path}, steps=[], gpu=gpu)
    pipeline.on_message(told.append)

    report = pipeline.run().to_json()

    correction = (
        "its SPS crops 6 columns at the left and 4 rows at the top; PyNvVideoCodec ignores that, and Sightline applies "
        "it"
    )
    assert [one.text for one in told if one.kind is MessageKind.WARNING] == [f"it is decoded by NVDEC: {correction}"]
    assert report["streams"]["gate"]["decoder"] == f"nvdec ({correction})"


def test_a_crop_at_right_and_bottom_is_nothing_to_tell(gpu: CudaDevice, tmp_path: Path) -> None:
    fake_nvdec(gpu)

    ours, reader = frames_of(write_cropped(tmp_path / "clip.mp4", Crop(0, 0, 6, 2)), gpu)

    assert (len(ours), reader.decoder, reader.decoder_reason) == (20, "nvdec", None)


def byte_stream(path: Path) -> bytes:
    """The packets of a transport stream."""
    with av.open(path) as container:
        return b"".join(bytes(packet) for packet in container.demux(video=0))


def test_sps_that_crop_differently_are_left_to_the_cpu(gpu: CudaDevice, tmp_path: Path) -> None:
    library = fake_nvdec(gpu)
    first, second = (
        byte_stream(write_cropped(tmp_path / f"{number}.ts", crop)) for number, crop in enumerate((Crop(6, 4), Crop(2)))
    )
    path = tmp_path / "clip.h264"
    path.write_bytes(in_band_configuration("h264", second) + first)

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder_reason == "it brings several SPSs that crop differently at left or top"
    assert library.made == []


def test_where_the_sps_could_not_be_rewritten_the_cpu_decodes(
    gpu: CudaDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_nvdec(gpu)
    monkeypatch.setattr(nvdec_session, "with_origin_uncropped", lambda codec, data: data)
    path = write_cropped(tmp_path / "clip.mp4", Crop(6, 4, 2, 8))

    ours, reader = frames_of(path, gpu)

    assert all_same(ours, frames_of(path)[0])
    assert reader.decoder_reason == "NVDEC failed: it gives images as NV12 of 152x84, not as NV12 of 158x88"
