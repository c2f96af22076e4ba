"""What can be wrong with a fake camera, and what it has sent."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from sightline.media.time import parse_duration_ns

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
