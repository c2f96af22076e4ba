"""Where published video comes from: an encoder, or the camera's own packets passed through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sightline.graph import EncodedFormat, EncodedPacket, PacketRing
from sightline.media import Frame
from sightline_plugins.codecs.bitstream import (
    avcc_parts,
    hvcc_parts,
    is_annex_b,
    is_h264_parameter_set,
    is_h265_parameter_set,
    length_prefixed_units,
    nal_units,
)
from sightline_plugins.encode.live import LiveEncoder, LivePacket, LiveSettings
from sightline_plugins.encode.settings import Layout
from sightline_plugins.publish.broadcast import Format, Image
from sightline_plugins.rtsp.payloads import Codec


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


_CODECS = {"h264": Codec.H264, "hevc": Codec.H265, "mjpeg": Codec.MJPEG}
_PARTS = {Codec.H264: avcc_parts, Codec.H265: hvcc_parts}
_TICK_NS = 11_112


@dataclass(frozen=True, slots=True)
class _Reading:
    """How the packets of one encoded format are read; `length_size` 0: they are byte streams."""

    source: EncodedFormat
    codec: Codec
    length_size: int
    sets: tuple[bytes, ...]

    @classmethod
    def of(cls, source: EncodedFormat) -> _Reading:
        codec, configuration = _CODECS[source.codec], source.configuration
        if codec is Codec.MJPEG or not configuration:
            return cls(source, codec, 0, ())
        if is_annex_b(configuration):
            sets = tuple(unit for unit in nal_units(configuration) if _is_set(unit, codec))
            return cls(source, codec, 0, sets)
        return cls(source, codec, *_PARTS[codec](configuration))

    def units(self, data: bytes) -> tuple[bytes, ...]:
        if self.codec is Codec.MJPEG:
            return (data,)
        if self.length_size:
            return tuple(length_prefixed_units(data, length_size=self.length_size))
        return tuple(nal_units(data))


class PassthroughSource:
    """Takes what belongs to one stream's frames out of its ring; used by one thread.

    It begins with the group of images that a frame belongs to; behind frames that were stopped, with the next frame
    that is a key frame itself. From then on every image up to the present frame comes, those too of frames that
    were dropped on the way.
    Times are moved as those of the frames were.
    """

    def __init__(self, ring: PacketRing, *, codecs: frozenset[Codec]) -> None:
        self._ring = ring
        self._codecs = codecs
        self._last: int | None = None
        self._not_before = -1
        self._reading: _Reading | None = None
        self._format: Format | None = None
        self._last_dts_ns: int | None = None

    def packet_of(self, frame: Frame) -> EncodedPacket | None:
        """The encoded image of a frame, where it may be passed on: untouched, whole and of the right codec."""
        if frame.altered or frame.packet is None:
            return None
        packet = self._ring.packet(frame.packet)
        if packet is None or packet.format.size_wh != frame.size_wh:
            return None  # no longer there, or not the image that was encoded
        return packet if _CODECS.get(packet.format.codec) in self._codecs else None

    def may_begin(self, packet: EncodedPacket) -> bool:
        """Whether images can be passed on from this one."""
        return self._last is not None or self._key_for(packet) is not None

    def images(self, frame: Frame, packet: EncodedPacket) -> Iterator[Image]:
        """Everything since the last call, up to this frame and its packet. Raises ValueError for damaged packets."""
        if self._last is None:
            key = self._key_for(packet)
            assert key is not None  # `may_begin` was asked
            self._last = key.number - 1
        shift_ns = frame.pts_ns - packet.pts_ns
        for one in self._ring.after(self._last, most=packet.number - self._last):
            if one.number > packet.number:
                break
            if one.number != self._last + 1 and not one.is_key:
                continue  # some were overwritten before they were taken: go on with the next key frame
            self._last = one.number
            yield self._image(one, shift_ns=shift_ns, capture_ns=self._capture_ns(frame, packet, one))

    def stop(self, frame: Frame) -> None:
        """Pass nothing on for now; images up to that frame are not to be shown later."""
        self._last = None
        if frame.packet is not None:
            self._not_before = max(self._not_before, frame.packet + 1)

    def pause(self) -> None:
        """Nobody watches for now."""
        self._last = None

    def _key_for(self, packet: EncodedPacket) -> EncodedPacket | None:
        """Where to begin for a packet: after images that are not to be shown, only with itself."""
        if self._not_before >= 0:
            return packet if packet.is_key and packet.number >= self._not_before else None
        keys = reversed(self._ring.key_frames())
        return next((key for key in keys if key.number <= packet.number and key.format is packet.format), None)

    @staticmethod
    def _capture_ns(frame: Frame, packet: EncodedPacket, one: EncodedPacket) -> int | None:
        return None if frame.capture_ns is None else frame.capture_ns + one.pts_ns - packet.pts_ns

    def _image(self, packet: EncodedPacket, *, shift_ns: int, capture_ns: int | None) -> Image:
        if self._reading is None or self._reading.source is not packet.format:
            self._reading = _Reading.of(packet.format)
        units = self._reading.units(packet.data)
        if packet.is_key or self._format is None:
            self._format = self._format_of(self._reading, units)
        codec = self._reading.codec
        dts_ns = packet.dts_ns + shift_ns
        if self._last_dts_ns is not None:
            dts_ns = max(dts_ns, self._last_dts_ns + _TICK_NS)
        self._last_dts_ns = dts_ns
        return Image(
            self._format,
            tuple(unit for unit in units if not _is_set(unit, codec)),
            max(packet.pts_ns + shift_ns, dts_ns),
            dts_ns,
            is_key=packet.is_key,
            capture_ns=capture_ns,
        )

    def _format_of(self, reading: _Reading, units: tuple[bytes, ...]) -> Format:
        in_band = tuple(unit for unit in units if _is_set(unit, reading.codec))
        made = Format(reading.codec, reading.source.size_wh, in_band or reading.sets)
        return self._format if made == self._format and self._format is not None else made


def _is_set(unit: bytes, codec: Codec) -> bool:
    if codec is Codec.H264:
        return is_h264_parameter_set(unit)
    return codec is Codec.H265 and is_h265_parameter_set(unit)


class EncodedSource:
    """Decides frame by frame, and changes over at key frames only. Used by one thread.

    Of a frame that a step has had which changes images, only what that step left is published, and nothing encoded
    before it either.
    """

    def __init__(self, *, passing: PassthroughSource, encoding: Encoding) -> None:
        self._passing = passing
        self._encoding = encoding
        self.encodes = False

    def images(self, frame: Frame, *, key: bool) -> Iterator[Image]:
        """What is published of a frame; `key` asks for a key frame. Raises OutputError."""
        packet = self._passing.packet_of(frame)
        if packet is not None and self._passing.may_begin(packet):
            if self.encodes:
                self._encoding.pause()
            self.encodes = False
            yield from self._passing.images(frame, packet)
            return
        if frame.altered or not self.encodes:
            self._passing.stop(frame)
        yield from self._encoding.images(frame, key=key or not self.encodes)
        self.encodes = True

    def pause(self) -> None:
        """Nobody watches for now."""
        self._passing.pause()
        self._encoding.pause()
