"""What a key frame brings along."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline_plugins.codecs.bitstream import container_parts
from sightline_plugins.codecs.byte_stream import configuration_of, configuration_outside
from sightline_plugins.decode.open_media import OpenOptions, open_media, video_stream
from tests.integration.sources.clips import write_clip

SIZES = [(160, 96), (192, 96)]


def first_packet(path: Path) -> tuple[bytes, bytes]:
    """The first packet and the extradata."""
    options = OpenOptions()
    container = open_media(str(path), stream="cam", options=options)
    video = video_stream(container, number=0, stream="cam", uri=str(path), options=options)
    packet = bytes(next(container.demux(video)))
    extradata = bytes(video.codec_context.extradata or b"")
    container.close()
    return packet, extradata


@pytest.mark.parametrize(
    ("codec", "encoder", "suffix"),
    [("h264", "libx264", "ts"), ("hevc", "libx265", "ts"), ("vp8", "libvpx", "webm"), ("vp9", "libvpx-vp9", "webm")],
)
def test_another_size_is_another_configuration(tmp_path: Path, codec: str, encoder: str, suffix: str) -> None:
    found = []
    for number, size_wh in enumerate([*SIZES, SIZES[0]]):
        path = write_clip(tmp_path / f"{number}.{suffix}", count=1, codec=encoder, size_wh=size_wh, b_frames=0)
        found.append(configuration_of(codec, first_packet(path)[0]))

    assert found[0]
    assert found[0] == found[2] != found[1]


def test_the_sequence_header_of_av1_is_found_behind_the_temporal_delimiter() -> None:
    header = bytes([0x0A, 3, 1, 2, 3])

    assert configuration_of("av1", bytes([0x12, 0]) + header + bytes([0x32, 2, 9, 9])) == header
    assert configuration_of("av1", bytes([0x12, 0, 0x32, 2, 9, 9])) == b""


def test_the_sequence_header_of_av1_in_a_container_is_that_of_the_stream(shared_data: Path) -> None:
    packet, extradata = first_packet(shared_data / "videos/codec/av1_video.mkv")

    assert configuration_outside("av1", extradata) == configuration_of("av1", packet)


@pytest.mark.parametrize(("codec", "encoder"), [("h264", "libx264"), ("hevc", "libx265")])
def test_boxes_of_mp4_become_parameter_sets_with_start_codes(tmp_path: Path, codec: str, encoder: str) -> None:
    _, extradata = first_packet(write_clip(tmp_path / "clip.mp4", count=5, codec=encoder, b_frames=0))

    found = configuration_outside(codec, extradata)

    assert found.startswith(b"\x00\x00\x00\x01")
    assert container_parts(codec, extradata)[0] == 4
    assert configuration_of(codec, found) == found


def test_byte_streams_are_taken_as_they_are(tmp_path: Path) -> None:
    _, extradata = first_packet(write_clip(tmp_path / "clip.ts", count=1))

    assert configuration_outside("h264", extradata) == extradata
    assert container_parts("h264", extradata)[0] == 0


def test_a_box_that_is_cut_off_is_an_error() -> None:
    with pytest.raises(ValueError, match="cut off"):
        configuration_outside("h264", bytes([1, 100, 0]))
