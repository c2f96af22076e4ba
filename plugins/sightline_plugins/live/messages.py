"""What is sent to viewers: a text before the first image of a format, then a binary message for each image.

A binary message is a head, JSON, and an image; all numbers are big-endian:

    uint32   length of the JSON; 0 when nothing is known of the image
    uint32   1 for a key frame, else 0
    float64  when the image is shown, in 1/90000 s
    uint32   length of the image's data at the end of the message; 0 when it has been sent before, and the JSON is
             about the image of that time
    JSON     `found` (see `FrameFound`), and `shapes` when these have changed, and once after a key frame
    image    a fragment of MP4 that ends with the image's data, or a JPEG
"""

from __future__ import annotations

import base64
import json
import struct
from dataclasses import dataclass
from functools import cached_property

from sightline_plugins.encode.settings import ticks_from_ns
from sightline_plugins.publish.broadcast import Format, Image
from sightline_plugins.publish.fragments import codec_string, configuration, fragment, start_of_file
from sightline_plugins.rtsp.payloads import Codec

DECLARED_NS = 500_000_000
"""Declared duration of every image, because the next one's time is not known yet. Players that see a gap of twice as
much wait for a key frame."""
_HEAD = struct.Struct(">IIdI")


@dataclass(frozen=True, eq=False)
class LiveFormat:
    """What holds from a key frame on: the format of the images, and whether overlays are drawn into them."""

    image: Format
    is_drawn: bool

    @cached_property
    def announcement(self) -> str:
        """The text that a player needs before the first image."""
        width, height = self.image.size_wh
        plain = {"width": width, "height": height, "drawn": self.is_drawn}
        if self.image.codec is Codec.MJPEG:
            return json.dumps({"way": "jpeg", **plain})
        return json.dumps(
            {
                "way": "mp4",
                "codec": codec_string(self.image),
                **plain,
                "declared_seconds": DECLARED_NS / 1e9,
                "start": base64.b64encode(start_of_file(self.image)).decode(),
                "configuration": base64.b64encode(configuration(self.image)).decode(),
            }
        )


@dataclass(frozen=True, slots=True, eq=False)
class LiveMessage:
    """One binary message, the same for all viewers."""

    format: LiveFormat
    data: bytes
    dts_ns: int
    is_key: bool

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.data)

    @classmethod
    def of(cls, image: Image, *, live_format: LiveFormat, number: int, about: bytes = b"") -> LiveMessage:
        """The message of an image, and what is known of it as JSON."""
        payload = _payload(image, number=number)
        head = _HEAD.pack(len(about), image.is_key, ticks_from_ns(image.pts_ns), _data_size(image))
        return cls(live_format, b"".join((head, about, payload)), image.dts_ns, image.is_key)

    @classmethod
    def afterwards(cls, about: bytes, *, pts_ns: int, live_format: LiveFormat, dts_ns: int) -> LiveMessage:
        """The message about an image that has been sent before: one that is decoded before it is shown."""
        return cls(live_format, _HEAD.pack(len(about), 0, ticks_from_ns(pts_ns), 0) + about, dts_ns, is_key=False)


def _payload(image: Image, *, number: int) -> bytes:
    if image.format.codec is Codec.MJPEG:
        return image.units[0]
    return fragment([image], number=number, durations_ns=[DECLARED_NS])


def _data_size(image: Image) -> int:
    return image.size if image.format.codec is Codec.MJPEG else image.size + 4 * len(image.units)
