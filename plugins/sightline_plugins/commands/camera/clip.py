"""The clips that a fake camera plays, and the faults that it injects."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from sightline.media.time import parse_duration_ns
from sightline_plugins.codecs.bitstream import is_parameter_set, nal_units
from sightline_plugins.rtsp.payloads import MAX_PAYLOAD, Codec
from sightline_plugins.rtsp.payloads import payloads as payloads_of_units

_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_SECOND_NS = 1_000_000_000


def parse_fraction(value: object) -> object:
    """Convert text such as `5%`; the field checks the limits."""
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else float(match[1]) / 100


def parse_seconds(value: object) -> object:
    """Convert text such as `-1h` and `500ms` to seconds."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    return sign * parse_duration_ns(text) / _SECOND_NS


Fraction = Annotated[float, BeforeValidator(parse_fraction), Field(ge=0, le=1)]
"""A share of all packets: 0 to 1, or text such as `5%`."""
SignedSeconds = Annotated[float, BeforeValidator(parse_seconds), Field(allow_inf_nan=False)]
"""Seconds, or text such as `500ms` and `-1h`."""
Seconds = Annotated[SignedSeconds, Field(ge=0)]


class Faults(BaseModel):
    """The faults of one camera. Set an attribute at any time, from any thread; it applies from the next packet or
    request on. Values are checked when they are set.
    """

    model_config = ConfigDict(validate_assignment=True, extra="forbid")

    loss: Fraction = 0.0
    """RTP packets that are numbered but not sent (seeded, so that two runs lose the same)."""
    corruption: Fraction = 0.0
    """RTP packets in which random bytes, of the header or of the payload, are overwritten."""
    stall: bool = False
    """Connections stay open, nothing is sent or answered; afterwards the clip continues where it stopped."""
    trickle: Annotated[float, Field(gt=0)] | None = None
    """Bytes per second, sent one at a time over TCP, one packet after another over UDP."""
    garbage: bool = False
    """Requests are answered with random bytes."""
    refuse: Annotated[int, Field(ge=400, le=599)] | None = None
    """All requests but OPTIONS get this status: 401 wrong credentials, 404 no such camera, 503 too busy."""
    timestamps: Literal["true", "zero", "doubled"] = "true"
    """RTP timestamps: all zero, or each used for two images."""
    jump: SignedSeconds = 0.0
    """RTP timestamps are ahead by this many seconds from now on, in reports too; 0 resets them."""
    wrap: Seconds | None = None
    """Sessions that begin from now on pass timestamp 2^32 after this many seconds."""
    reports: Literal["true", "none", "1970", "future"] = "true"
    """RTCP sender reports: the time of day, none, a clock that began in 1970, or one ten years ahead."""
    late_key: Seconds = 0.0
    """No key frame is sent in the first seconds of a session."""


@dataclass(slots=True)
class Sent:
    """Counters of one camera over all clients; written by the camera's thread, read by any.

    `packets` and `octets` were sent, including `corrupted_packets`; `lost_packets` were not. `hurt_images` lack a
    packet or have a corrupted one; `withheld_images` are key frames that `late_key` held back.
    """

    sessions: int = 0
    refused: int = 0
    images: int = 0
    key_frames: int = 0
    hurt_images: int = 0
    withheld_images: int = 0
    packets: int = 0
    octets: int = 0
    lost_packets: int = 0
    corrupted_packets: int = 0
    reports: int = 0
    passes: int = 0


_DEFAULT_INTERVAL_NS = 40_000_000


@dataclass(frozen=True, slots=True)
class ClipPacket:
    """One encoded image: `data` is Annex B, or a whole JPEG."""

    data: bytes
    pts_ns: int
    dts_ns: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Clip:
    """Images of one video, in decoding order; made by `Clip.of`.

    Times are those of a camera: `dts_ns` is when an image is sent, from 0; `pts_ns` is when it was taken, never later.
    After `duration_ns` the clip can begin again. `parameter_sets` are NAL units without start codes; they go into the
    session description and before every key frame that lacks them.
    """

    codec: Codec
    size_wh: tuple[int, int]
    packets: tuple[ClipPacket, ...]
    parameter_sets: tuple[bytes, ...]
    duration_ns: int

    @classmethod
    def of(
        cls,
        packets: Sequence[ClipPacket],
        *,
        codec: Codec,
        size_wh: tuple[int, int],
        parameter_sets: Sequence[bytes] = (),
    ) -> Clip:
        """Make a clip of packets in decoding order; times may begin anywhere.

        Parameter sets are taken from the first key frame if not given. Raises ValueError without packets, when the
        first is not a key frame, or when decoding times do not rise.
        """
        if not packets or not packets[0].is_key:
            raise ValueError("a clip has at least one image, and begins with a key frame")
        times = [packet.dts_ns for packet in packets]
        if any(later <= earlier for earlier, later in itertools.pairwise(times)):
            raise ValueError("decoding times rise from packet to packet")
        sets = tuple(parameter_sets)
        if codec is not Codec.MJPEG and not sets:
            name = codec.ffmpeg_name
            sets = tuple(unit for unit in nal_units(packets[0].data) if is_parameter_set(unit, codec=name))
        if codec is not Codec.MJPEG and not sets:
            raise ValueError("the first key frame brings no parameter sets, and none are given")
        last_interval_ns = times[-1] - times[-2] if len(times) > 1 else _DEFAULT_INTERVAL_NS
        duration_ns = times[-1] - times[0] + last_interval_ns
        return cls(codec, size_wh, _from_zero(packets), sets, duration_ns)

    def first(self, count: int) -> Clip:
        """Cut the clip after that many images."""
        duration_ns = self.packets[count].dts_ns if count < len(self.packets) else self.duration_ns
        return replace(self, packets=self.packets[:count], duration_ns=duration_ns)

    def at_fps(self, fps: float) -> Clip:
        """Play the same images evenly at another rate."""
        interval_ns = _SECOND_NS / fps
        shown = {pts_ns: rank for rank, pts_ns in enumerate(sorted(packet.pts_ns for packet in self.packets))}
        packets = [
            replace(packet, dts_ns=round(number * interval_ns), pts_ns=round(shown[packet.pts_ns] * interval_ns))
            for number, packet in enumerate(self.packets)
        ]
        return replace(self, packets=_from_zero(packets), duration_ns=round(len(packets) * interval_ns))

    @property
    def fps(self) -> float:
        """Images per second, on average."""
        return len(self.packets) * _SECOND_NS / self.duration_ns


def _from_zero(packets: Sequence[ClipPacket]) -> tuple[ClipPacket, ...]:
    begin_ns = packets[0].dts_ns
    delay_ns = max(packet.pts_ns - packet.dts_ns for packet in packets)
    return tuple(
        replace(packet, dts_ns=packet.dts_ns - begin_ns, pts_ns=packet.pts_ns - begin_ns - delay_ns)
        for packet in packets
    )


def payloads(packet: ClipPacket, *, clip: Clip, max_payload: int = MAX_PAYLOAD) -> tuple[bytes, ...]:
    """The RTP payloads of one image of a clip; a key frame brings the parameter sets."""
    if clip.codec is Codec.MJPEG:
        return payloads_of_units([packet.data], codec=clip.codec, max_payload=max_payload)
    units = list(nal_units(packet.data))
    name = clip.codec.ffmpeg_name
    if packet.is_key and not any(is_parameter_set(unit, codec=name) for unit in units):
        units = [*clip.parameter_sets, *units]
    return payloads_of_units(units, codec=clip.codec, max_payload=max_payload)


class Reel:
    """A clip in the camera since `begun_ns` (monotonic); payloads of an image are made once, on first use."""

    def __init__(self, clip: Clip) -> None:
        self.clip = clip
        self.begun_ns = time.monotonic_ns()
        self._payloads: dict[int, tuple[bytes, ...]] = {}
        self.payloads(0)

    def payloads(self, number: int) -> tuple[bytes, ...]:
        """Return the RTP payloads of an image. Raises ValueError when RTP cannot carry it."""
        if number not in self._payloads:
            self._payloads[number] = payloads(self.clip.packets[number], clip=self.clip)
        return self._payloads[number]


class Mount:
    """A camera at `/name`. `faults` may be set and `sent` be read from any thread."""

    def __init__(self, name: str, clip: Clip, *, seed: int) -> None:
        self.name = name
        self.reel = Reel(clip)
        self.faults = Faults()
        self.sent = Sent()
        self.random = random.Random(f"{seed} {name}")

    @property
    def clip(self) -> Clip:
        """The clip that it shows."""
        return self.reel.clip

    def swap(self, clip: Clip) -> None:
        """Show another clip from the next image on, from its beginning. Sessions continue with new parameter sets in
        band; another codec ends them, as cameras do. Raises ValueError when RTP cannot carry it.
        """
        self.reel = Reel(clip)
