"""Settings of encoders and containers, and the contract of an encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from sightline.media import ColorMatrix, ColorRange, Surface

if TYPE_CHECKING:
    from av.packet import Packet
    from av.video.stream import VideoStream


@dataclass(frozen=True, slots=True)
class Container:
    """A muxer of FFmpeg and the options that keep its files readable at every moment."""

    muxer: str
    options: Mapping[str, str]


CONTAINERS: Mapping[str, Container] = MappingProxyType(
    {
        ".mp4": Container(
            "mp4",
            {
                "movflags": "hybrid_fragmented+frag_keyframe+delay_moov",
                "frag_duration": "1000000",
                "flush_packets": "1",
            },
        ),
        ".mkv": Container("matroska", {"cluster_time_limit": "1000", "flush_packets": "1"}),
    }
)
"""A piece of a file (fragment, cluster) ends before a key frame, and after a second: in us and in ms."""

PIPES: Mapping[str, Container] = MappingProxyType(
    {
        "mpegts": Container("mpegts", {"flush_packets": "1"}),
        "matroska": Container("matroska", {"live": "1", "cluster_time_limit": "1000", "flush_packets": "1"}),
    }
)
"""Containers that need no way back."""

SENDERS: Mapping[str, Container] = MappingProxyType(
    {
        "rtsp": Container("rtsp", {"protocol_whitelist": "tcp", "rtsp_transport": "tcp"}),
        "rtsps": Container("rtsp", {"protocol_whitelist": "tls,tcp", "rtsp_transport": "tcp"}),
        "rtmp": Container("flv", {"protocol_whitelist": "rtmp,tcp", "flvflags": "no_duration_filesize"}),
        "rtmps": Container("flv", {"protocol_whitelist": "rtmps,rtmp,tls,tcp", "flvflags": "no_duration_filesize"}),
    }
)
"""What may be connected to is named for each, as for sources: a server leads nowhere else."""


TICKS_PER_SECOND = 90_000
TIME_BASE = Fraction(1, TICKS_PER_SECOND)
_NS_PER_SECOND = 1_000_000_000
LONGEST_GAP_NS = 6 * 3600 * _NS_PER_SECOND
"""The longest time between two frames of one file. MP4 holds less than 2^31 ticks, which are 6.6 hours."""


@dataclass(frozen=True, slots=True)
class EncoderSettings:
    """How images are encoded: `quality` is the constant rate factor, `bitrate` bits a second and goes before it."""

    codec: str
    preset: str
    quality: int
    bitrate: int | None
    gop_ns: int


@dataclass(frozen=True, slots=True)
class Layout:
    """What cannot change within one file."""

    size_wh: tuple[int, int]
    matrix: ColorMatrix
    range: ColorRange

    @classmethod
    def of(cls, surface: Surface) -> Layout:
        """The layout of a surface."""
        return cls(surface.size_wh, surface.matrix, surface.range)


def ticks_from_ns(pts_ns: int) -> int:
    """Nanoseconds in units of 1/90000 s, rounded to the nearest."""
    return (pts_ns * TICKS_PER_SECOND + _NS_PER_SECOND // 2) // _NS_PER_SECOND


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
        errors, and CudaError.
        """
        ...

    def finish(self) -> Sequence[Packet[VideoStream]]:
        """What is left. Raises as `encode` does; after CudaError, a second call gives what is left without the image
        that was lost.
        """
        ...

    def close(self) -> None:
        """Let go of everything; harmless when called again."""
        ...
