"""Packets of bytes that FFmpeg may decode."""

from __future__ import annotations

from typing import Any

from av.packet import Packet


def packet_of(data: bytes) -> Packet[Any]:
    """Return a packet with a copy of the bytes, and behind them the zeroes that FFmpeg's decoders rely on.

    `Packet(data)` refers to the bytes as they are: decoders read up to 64 bytes past their end, and what is there
    decides over the last blocks of an image of MPEG-4.
    """
    packet: Packet[Any] = Packet(len(data))
    if data:
        packet.update(data)
    return packet
