"""From frames to published images, by encoding what they show."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.media import Frame
from sightline.rtsp.bitstream import is_h264_parameter_set, nal_units
from sightline.rtsp.codec import Codec
from sightline_plugins.encode.live import LiveEncoder, LivePacket, LiveSettings
from sightline_plugins.encode.settings import Layout
from sightline_plugins.publish.image import Format, Image


class Encoding:
    """One stream's encoder; a new one where size or colours change. Used by one thread at a time."""

    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings
        self._encoder: LiveEncoder | None = None
        self._format: Format | None = None

    def images(self, frame: Frame, *, key: bool) -> Iterator[Image]:
        """What is published of a frame; `key` asks for a key frame. Raises OutputError."""
        if self._encoder is None or self._encoder.layout != Layout.of(frame.surface):
            self._encoder = LiveEncoder(frame.surface, settings=self._settings)
        for packet in self._encoder.encode(frame, key=key):
            yield self._image(packet, frame, size_wh=self._encoder.size_wh)

    def pause(self) -> None:
        """Nobody watches: let the encoder go."""
        self._encoder = None

    def _image(self, packet: LivePacket, frame: Frame, *, size_wh: tuple[int, int]) -> Image:
        units = tuple(nal_units(packet.data))
        if packet.is_key:
            sets = tuple(unit for unit in units if is_h264_parameter_set(unit))
            made = Format(Codec.H264, size_wh, sets)
            self._format = made if made != self._format else self._format
            units = tuple(unit for unit in units if not is_h264_parameter_set(unit))
        assert self._format is not None  # the first image of an encoder is a key frame
        return Image(
            self._format, units, packet.pts_ns, packet.pts_ns, is_key=packet.is_key, capture_ns=frame.capture_ns
        )
