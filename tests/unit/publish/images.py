"""Images that tests publish: plain ones with made-up bytes, and real ones from an encoder."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.media import Frame, Stream
from sightline.testing import make_frames
from sightline_plugins.encode.live import LiveSettings
from sightline_plugins.publish.broadcast import Format, Image
from sightline_plugins.publish.video_source import Encoding
from sightline_plugins.rtsp.payloads import Codec

INTERVAL_NS = 40_000_000
SETTINGS = LiveSettings(preset="ultrafast", quality=26, bitrate=None, key_ns=1_000_000_000)
PLAIN = Format(Codec.H264, (64, 48), (b"\x67\x42\xc0\x1e\xd9", b"\x68\xce\x0f\xc8"))


class Encoder(Encoding):
    """Encodes whatever is published."""

    encodes = True


def plain(number: int, *, is_key: bool = False, size: int = 8, image_format: Format = PLAIN) -> Image:
    """An image at `number` times 40 ms, with bytes that mean nothing."""
    at_ns = number * INTERVAL_NS
    return Image(image_format, (b"\x65" * size,), at_ns, at_ns, is_key=is_key)


def group(first: int, *, count: int, image_format: Format = PLAIN) -> list[Image]:
    """A key frame and those that follow it."""
    return [plain(first + place, is_key=place == 0, image_format=image_format) for place in range(count)]


def frames(count: int, *, size_wh: tuple[int, int] = (64, 48), stream: str = "cam") -> list[Frame]:
    """Frames of a stream, 40 ms apart."""
    surface = make_frames(1, size_wh=size_wh, stream=stream)[0].surface
    return [Frame(Stream(stream), number, number * INTERVAL_NS, surface) for number in range(count)]


def encoded(given: Sequence[Frame]) -> list[Image]:
    """What an encoder makes of frames."""
    encoding = Encoding(SETTINGS)
    return [image for frame in given for image in encoding.images(frame, key=False)]
