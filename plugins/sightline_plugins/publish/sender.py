"""The program that pushes one stream to a server: `python -m sightline_plugins.publish.sender`.

FFmpeg holds Python's lock while it connects, and has no time limit for sending, so a server that does not answer would
stall the whole pipeline. This process may be killed at any moment, and exits when the pipeline is gone, or when the
server takes nothing for too long.

Standard input is a line of JSON (`Sending.encoded`), then images. An error is one line on standard error.
"""

from __future__ import annotations

import json
import signal
import struct
import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import BinaryIO, Self

import av
from av.packet import Packet

from sightline.redaction import redact
from sightline_plugins.encode.muxer import open_sender
from sightline_plugins.encode.settings import TICKS_PER_SECOND

SILENCE_SECONDS = 10.0
"""A signal (SIGALRM) ends the process when the server takes nothing for this long."""

_HEAD = struct.Struct(">qq?I")


@dataclass(frozen=True, slots=True)
class Sending:
    """Where images go, and their format; `codec` is FFmpeg's name."""

    url: str
    codec: str
    size_wh: tuple[int, int]

    def encoded(self) -> bytes:
        """The first line for the process."""
        return json.dumps({"url": self.url, "codec": self.codec, "size": self.size_wh}).encode() + b"\n"

    @classmethod
    def read(cls, file: BinaryIO) -> Self:
        """Read the line that `encoded` wrote."""
        values = json.loads(file.readline())
        return cls(values["url"], values["codec"], tuple(values["size"]))


def image_bytes(data: bytes, *, pts_ticks: int, dts_ticks: int, is_key: bool) -> bytes:
    """One image for the process: Annex B, and its times in units of 1/90000 s."""
    return _HEAD.pack(pts_ticks, dts_ticks, is_key, len(data)) + data


def send(file: BinaryIO) -> None:
    """Send all images from a file. Raises what FFmpeg raises."""
    sending = Sending.read(file)
    container, stream = open_sender(sending.url, codec=sending.codec, size_wh=sending.size_wh)
    first: int | None = None
    while head := file.read(_HEAD.size):
        pts, dts, is_key, size = _HEAD.unpack(head)
        first = dts if first is None else first
        packet = Packet(file.read(size))
        packet.stream, packet.time_base = stream, Fraction(1, TICKS_PER_SECOND)
        packet.pts, packet.dts, packet.is_keyframe = pts - first, dts - first, is_key
        _limit(SILENCE_SECONDS)
        container.mux(packet)
        _limit(0)
    _limit(SILENCE_SECONDS)
    container.close()


def main() -> None:
    """Run the program."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the pipeline, which then ends this process
    try:
        send(sys.stdin.buffer)
    except (av.FFmpegError, OSError, ValueError, struct.error) as error:
        sys.exit(redact(error))


def _limit(seconds: float) -> None:
    """End the process after that time; 0 cancels."""
    signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    main()
