"""Packets whose end FFmpeg may read past."""

from __future__ import annotations

import ctypes

import pytest

from sightline_plugins.codecs.packet import packet_of

PADDING = 64


@pytest.mark.parametrize("size", [0, 1, 33, 4096])
def test_zeroes_follow_the_bytes(size: int) -> None:
    data = bytes(range(1, 256)) * 17
    packet = packet_of(data[:size])

    assert bytes(packet) == data[:size]
    if size:
        assert ctypes.string_at(packet.buffer_ptr + size, PADDING) == bytes(PADDING)
