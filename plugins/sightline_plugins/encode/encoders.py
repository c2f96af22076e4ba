"""What encodes the images of one file: the face that all encoders have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from av.packet import Packet
from av.video.stream import VideoStream

from sightline.media import Surface


class EncoderError(Exception):
    """An encoder is not there, or did not do what it was asked to; the message is the reason, without the file."""


@dataclass(frozen=True, slots=True)
class EncoderChoice:
    """Which encoder a video has: `device` is `cpu` or `cuda:N`, `reason` says why it is not the other one."""

    name: str
    device: str = "cpu"
    reason: str = ""

    def __str__(self) -> str:
        place = "the CPU" if self.device == "cpu" else self.device
        return f"{self.name} on {place}" + (f" ({self.reason})" if self.reason else "")


class ImageEncoder(Protocol):
    """Encodes the images of one file, in the order in which they are shown; its stream stands in the file's container
    already. For one thread at a time. May hold images back; a surface that was given is the caller's again at once.
    """

    @property
    def choice(self) -> EncoderChoice:
        """Which encoder it is, and why."""
        ...

    def encode(self, surface: Surface, *, ticks: int, is_key: bool) -> Sequence[Packet[VideoStream]]:
        """What comes out when this image goes in, to be shown at `ticks` of 1/90000 s. Raises EncoderError, FFmpeg's
        errors, and GpuError.
        """
        ...

    def finish(self) -> Sequence[Packet[VideoStream]]:
        """What is left. Raises as `encode` does; after GpuError, a second call gives what is left without the image
        that was lost.
        """
        ...

    def close(self) -> None:
        """Let go of everything; harmless when called again."""
        ...
