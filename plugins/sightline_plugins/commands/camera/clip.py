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
from sightline_plugins.codecs.bitstream import is_h264_parameter_set, is_h265_parameter_set, nal_units
from sightline_plugins.rtsp.payloads import MAX_PAYLOAD, Codec
from sightline_plugins.rtsp.payloads import payloads as payloads_of_units

_PERCENT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*%\s*")
_SECOND_NS = 1_000_000_000


def parse_fraction(value: object) -> object:
    """`5%` and `0.05` are the same; the limits are the field's."""
    match = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else float(match[1]) / 100


def parse_seconds(value: object) -> object:
    """`-1h`, `500ms` or a number of seconds."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    return sign * parse_duration_ns(text) / _SECOND_NS


Fraction = Annotated[float, BeforeValidator(parse_fraction), Field(ge=0, le=1)]
"""Of all packets: 0 to 1, or text such as `5%`."""
SignedSeconds = Annotated[float, BeforeValidator(parse_seconds), Field(allow_inf_nan=False)]
"""Seconds, or text such as `500ms` and `-1h`."""
Seconds = Annotated[SignedSeconds, Field(ge=0)]


class Faults(BaseModel):
    """The state of what is wrong with one camera. Set an attribute at any moment, from any thread; the next packet or
    request meets it. Values are checked when they are set.
    """

    model_config = ConfigDict(validate_assignment=True, extra="forbid")

    loss: Fraction = 0.0
    """RTP packets that are numbered but not sent (seeded, so that two runs lose the same)."""
    corruption: Fraction = 0.0
    """RTP packets in which random bytes, of the header or of the payload, are overwritten."""
    stall: bool = False
    """Connections stay open, nothing is sent and nothing answered; afterwards the image goes on where it stood."""
    trickle: Annotated[float, Field(gt=0)] | None = None
    """Bytes a second, sent one at a time over TCP, one packet after another over UDP."""
    garbage: bool = False
    """Requests are answered with random bytes."""
    refuse: Annotated[int, Field(ge=400, le=599)] | None = None
    """Requests but OPTIONS are answered with this status: 401 wrong credentials, 404 no such camera, 503 too busy."""
    timestamps: Literal["true", "zero", "doubled"] = "true"
    """RTP timestamps: all zero, or each used for two images."""
    jump: SignedSeconds = 0.0
    """RTP timestamps are ahead by so many seconds from now on, and reports say so; 0 puts them right."""
    wrap: Seconds | None = None
    """Sessions that begin from now on pass timestamp 2^32 after so many seconds."""
    reports: Literal["true", "none", "1970", "future"] = "true"
    """RTCP sender reports: the time of day, none, a clock that began in 1970, or one ten years ahead."""
    late_key: Seconds = 0.0
    """In the first so many seconds of a session no key frame is sent."""


@dataclass(slots=True)
class Sent:
    """What one camera has sent so far, all clients together; written by the camera's thread, to be read by any.

    `packets` and `octets` went out, `corrupted_packets` of them damaged; `lost_packets` did not. `hurt_images` are
    those of which a packet was lost or damaged, `withheld_images` key frames that `late_key` kept back.
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
    """One encoded image: `data` is Annex B, or a whole JPEG. `pts_ns` is when it is shown, `dts_ns` when decoded."""

    data: bytes
    pts_ns: int
    dts_ns: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Clip:
    """Images of one video, in decoding order; made by `Clip.of`.

    Times are such that they suit a camera: `dts_ns` is when an image is sent, from 0; `pts_ns` is when it was taken,
    never later than it is sent. `duration_ns` is the time after which the clip can begin again. `parameter_sets` are
    NAL units without start codes; they go into the session description and before every key frame that lacks them.
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
        """A clip of packets in decoding order with any origin of time.

        Parameter sets that are not given are taken from the first key frame. Raises ValueError when there is no
        packet, the first is no key frame, or decoding times do not rise.
        """
        if not packets or not packets[0].is_key:
            raise ValueError("a clip has at least one image, and begins with a key frame")
        times = [packet.dts_ns for packet in packets]
        if any(later <= earlier for earlier, later in itertools.pairwise(times)):
            raise ValueError("decoding times rise from packet to packet")
        sets = tuple(parameter_sets) or _parameter_sets(packets[0].data, codec)
        if codec is not Codec.MJPEG and not sets:
            raise ValueError("the first key frame brings no parameter sets, and none are given")
        last_interval_ns = times[-1] - times[-2] if len(times) > 1 else _DEFAULT_INTERVAL_NS
        duration_ns = times[-1] - times[0] + last_interval_ns
        return cls(codec, size_wh, _from_zero(packets), sets, duration_ns)

    def first(self, count: int) -> Clip:
        """The clip cut after so many images."""
        return replace(self, packets=self.packets[:count], duration_ns=self._time_of(count))

    def at_fps(self, fps: float) -> Clip:
        """The same images, evenly at another rate."""
        interval_ns = _SECOND_NS / fps
        shown = {pts_ns: rank for rank, pts_ns in enumerate(sorted(packet.pts_ns for packet in self.packets))}
        packets = [
            replace(packet, dts_ns=round(number * interval_ns), pts_ns=round(shown[packet.pts_ns] * interval_ns))
            for number, packet in enumerate(self.packets)
        ]
        return replace(self, packets=_from_zero(packets), duration_ns=round(len(packets) * interval_ns))

    @property
    def fps(self) -> float:
        """Images a second, on average."""
        return len(self.packets) * _SECOND_NS / self.duration_ns

    def _time_of(self, number: int) -> int:
        return self.packets[number].dts_ns if number < len(self.packets) else self.duration_ns


def _from_zero(packets: Sequence[ClipPacket]) -> tuple[ClipPacket, ...]:
    begin_ns = packets[0].dts_ns
    delay_ns = max(packet.pts_ns - packet.dts_ns for packet in packets)
    return tuple(
        replace(packet, dts_ns=packet.dts_ns - begin_ns, pts_ns=packet.pts_ns - begin_ns - delay_ns)
        for packet in packets
    )


def _parameter_sets(data: bytes, codec: Codec) -> tuple[bytes, ...]:
    if codec is Codec.MJPEG:
        return ()
    wanted = is_h264_parameter_set if codec is Codec.H264 else is_h265_parameter_set
    return tuple(unit for unit in nal_units(data) if wanted(unit))


def payloads(packet: ClipPacket, *, clip: Clip, max_payload: int = MAX_PAYLOAD) -> tuple[bytes, ...]:
    """The RTP payloads of one image of a clip; a key frame brings the parameter sets."""
    if clip.codec is Codec.MJPEG:
        return payloads_of_units([packet.data], codec=clip.codec, max_payload=max_payload)
    units = list(nal_units(packet.data))
    is_set = is_h264_parameter_set if clip.codec is Codec.H264 else is_h265_parameter_set
    if packet.is_key and not any(map(is_set, units)):
        units = [*clip.parameter_sets, *units]
    return payloads_of_units(units, codec=clip.codec, max_payload=max_payload)


class Reel:
    """A clip in the camera, since `begun_ns` (monotonic); images are cut into payloads once, when first wanted."""

    def __init__(self, clip: Clip) -> None:
        self.clip = clip
        self.begun_ns = time.monotonic_ns()
        self._payloads: dict[int, tuple[bytes, ...]] = {}
        self.payloads(0)

    def payloads(self, number: int) -> tuple[bytes, ...]:
        """The RTP payloads of that image. Raises ValueError when RTP cannot carry it."""
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
        """What it shows."""
        return self.reel.clip

    def swap(self, clip: Clip) -> None:
        """Show another clip from the next image on, from its beginning. Sessions go on with new parameter sets in
        band; when the codec is another one they are ended, as cameras do. Raises ValueError when RTP cannot carry it.
        """
        self.reel = Reel(clip)
