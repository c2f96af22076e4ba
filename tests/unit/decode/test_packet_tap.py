"""Images know the packets that they were decoded from, whatever else is read in the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.graph import PacketRing, Packets
from sightline.media import Stream
from sightline_plugins.decode.decoder import DecodeSettings
from sightline_plugins.decode.open_media import OpenOptions
from sightline_plugins.decode.packet_tap import PacketTap
from sightline_plugins.decode.video import VideoDecoder
from tests.integration.camera.clips import write_noise

_COUNT, _THREADS = 8, 4
"""With so many threads, images come out three packets later."""


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_noise(tmp_path_factory.mktemp("video") / "video.mp4", count=_COUNT)


def opened(video: Path) -> tuple[VideoDecoder, PacketRing]:
    """A decoder of a run of its own, which keeps the packets."""
    packets = Packets()
    packets.want(None, duration_ns=10**10, limit_bytes=10**6)
    ring = packets.of(Stream("cam"))
    decoder = VideoDecoder(
        str(video),
        stream="cam",
        options=OpenOptions(),
        decoding=DecodeSettings(threads=_THREADS),
        warn=lambda text: None,
        on_damage=lambda: None,
        tap=PacketTap(ring, clock=None),
    )
    return decoder, ring


def test_images_keep_their_numbers_when_those_of_another_run_are_freed(video: Path) -> None:
    (first, first_ring), (second, ring) = opened(video), opened(video)
    of_first = list(first.images())
    packets = second.packets()
    images = [image for _, packet in zip(range(3), packets, strict=False) for image in second.decode(packet)]

    first.close()
    of_first.clear()

    images += [image for packet in packets for image in second.decode(packet)]
    second.close()
    assert [image.packet for image in images] == [packet.number for packet in ring.after(0)]
    assert [packet.number for packet in first_ring.after(0)] == list(range(1, _COUNT + 1))
