"""Where published video comes from: an encoder, or the camera's own packets passed through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sightline.graph import EncodedFormat, EncodedPacket, PacketRing
from sightline.media import Altered, Frame
from sightline_plugins.codecs.bitstream import container_parts, is_parameter_set, nal_units, packet_units
from sightline_plugins.encode.live import LiveEncoder, LivePacket, LiveSettings
from sightline_plugins.encode.settings import Layout
from sightline_plugins.publish.broadcast import Format, Image
from sightline_plugins.rtsp.payloads import Codec

_TICK_NS = 11_112


class Encoding:
    """One stream's encoder; a new one where size or colours change. Used by one thread at a time."""

    def __init__(self, settings: LiveSettings) -> None:
        self._settings = settings
        self._encoder: LiveEncoder | None = None
        self._format: Format | None = None

    def images(self, frame: Frame, *, key: bool) -> Iterator[Image]:
        """Encode a frame; `key` asks for a key frame. Raises OutputError."""
        if self._encoder is None or self._encoder.layout != Layout.of(frame.surface):
            self._encoder = LiveEncoder(frame.surface, settings=self._settings)
        for packet in self._encoder.encode(frame, key=key):
            yield self._image(packet, frame, size_wh=self._encoder.size_wh)

    def pause(self) -> None:
        """Release the encoder while there are no viewers."""
        self._encoder = None

    def _image(self, packet: LivePacket, frame: Frame, *, size_wh: tuple[int, int]) -> Image:
        units = tuple(nal_units(packet.data))
        if packet.is_key:
            sets, units = _split(units, Codec.H264)
            made = Format(Codec.H264, size_wh, sets)
            self._format = made if made != self._format else self._format
        assert self._format is not None  # the first image of an encoder is a key frame
        return Image(
            self._format, units, packet.pts_ns, packet.pts_ns, is_key=packet.is_key, capture_ns=frame.capture_ns
        )


@dataclass(frozen=True, slots=True)
class _PacketLayout:
    """How the packets of one encoded format are read; `length_size` 0 means byte streams."""

    source: EncodedFormat
    codec: Codec
    length_size: int
    sets: tuple[bytes, ...]

    @classmethod
    def of(cls, source: EncodedFormat) -> _PacketLayout:
        codec = Codec.from_ffmpeg(source.codec)
        assert codec is not None  # `packet_of` passes on no other codecs
        return cls(source, codec, *container_parts(source.codec, source.configuration))

    def units(self, data: bytes) -> tuple[bytes, ...]:
        return (data,) if self.codec is Codec.MJPEG else tuple(packet_units(data, length_size=self.length_size))


class PassthroughSource:
    """Passes one stream's packets from its ring on; used by one thread.

    It begins with the key frame that the first frame needs; behind frames that were stopped, with the next frame that
    is a key frame itself. From then on it passes every image up to the present frame, including those whose frames were
    dropped. Times are moved as those of the frames were. `ignored` is what makes no difference to those who watch.
    """

    def __init__(self, ring: PacketRing, *, codecs: frozenset[Codec], ignored: Altered = Altered.NO) -> None:
        self._ring = ring
        self._codecs = codecs
        self._excluded = ~ignored
        self._last: int | None = None
        self._not_before = -1
        self._layout: _PacketLayout | None = None
        self._format: Format | None = None
        self._last_dts_ns: int | None = None

    def packet_of(self, frame: Frame) -> EncodedPacket | None:
        """Return the encoded image of a frame if it may be passed on: unaltered, complete and of the right codec."""
        if self.is_altered(frame) or frame.packet is None:
            return None
        packet = self._ring.packet(frame.packet)
        if packet is None or packet.format.size_wh != frame.size_wh:
            return None  # evicted, or not the image that was encoded
        return packet if Codec.from_ffmpeg(packet.format.codec) in self._codecs else None

    def is_altered(self, frame: Frame) -> bool:
        """Return whether a frame differs from its encoded image for those who watch."""
        return bool(frame.altered & self._excluded)

    def may_begin(self, packet: EncodedPacket) -> bool:
        """Return whether images can be passed on from this one."""
        return self._last is not None or self._key_for(packet) is not None

    def images(self, frame: Frame, packet: EncodedPacket) -> Iterator[Image]:
        """Yield all images since the last call, up to this frame and its packet. Raises ValueError for damaged ones."""
        if self._last is None:
            key = self._key_for(packet)
            assert key is not None  # `may_begin` was asked
            self._last = key.number - 1
        shift_ns = frame.pts_ns - packet.pts_ns
        capture_shift_ns = None if frame.capture_ns is None else frame.capture_ns - packet.pts_ns
        for one in self._ring.after(self._last, most=packet.number - self._last):
            if one.number > packet.number:
                break
            if one.number != self._last + 1 and not one.is_key:
                continue  # some were overwritten before they were taken: go on with the next key frame
            self._last = one.number
            capture_ns = None if capture_shift_ns is None else one.pts_ns + capture_shift_ns
            yield self._image(one, shift_ns=shift_ns, capture_ns=capture_ns)

    def stop(self, frame: Frame) -> None:
        """Stop passing on; images up to that frame must not be shown later."""
        self._last = None
        if frame.packet is not None:
            self._not_before = max(self._not_before, frame.packet + 1)

    def pause(self) -> None:
        """Pause while there are no viewers."""
        self._last = None

    def _key_for(self, packet: EncodedPacket) -> EncodedPacket | None:
        """Return where to begin for a packet: after images that must not be shown, only with itself."""
        if self._not_before >= 0:
            return packet if packet.is_key and packet.number >= self._not_before else None
        keys = reversed(self._ring.key_frames())
        return next((key for key in keys if key.number <= packet.number and key.format is packet.format), None)

    def _image(self, packet: EncodedPacket, *, shift_ns: int, capture_ns: int | None) -> Image:
        if self._layout is None or self._layout.source is not packet.format:
            self._layout = _PacketLayout.of(packet.format)
        layout = self._layout
        sets, units = _split(layout.units(packet.data), layout.codec)
        if packet.is_key or self._format is None:
            made = Format(layout.codec, layout.source.size_wh, sets or layout.sets)
            self._format = self._format if made == self._format and self._format is not None else made
        dts_ns = packet.dts_ns + shift_ns
        if self._last_dts_ns is not None:
            dts_ns = max(dts_ns, self._last_dts_ns + _TICK_NS)
        self._last_dts_ns = dts_ns
        pts_ns = max(packet.pts_ns + shift_ns, dts_ns)
        return Image(self._format, units, pts_ns, dts_ns, is_key=packet.is_key, capture_ns=capture_ns)


def _split(units: tuple[bytes, ...], codec: Codec) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The parameter sets among NAL units, and the other units."""
    name = codec.ffmpeg_name
    sets = tuple(unit for unit in units if is_parameter_set(unit, codec=name))
    return sets, tuple(unit for unit in units if unit not in sets) if sets else units


class EncodedSource:
    """Passes packets on or encodes, decided frame by frame; switches at key frames only. Used by one thread.

    Once a step has altered a frame, only the altered frame is published, and nothing encoded before it.
    """

    def __init__(self, *, passing: PassthroughSource, encoding: Encoding) -> None:
        self._passing = passing
        self._encoding = encoding
        self.encodes = False

    def images(self, frame: Frame, *, key: bool) -> Iterator[Image]:
        """Yield the images to publish for a frame; `key` asks for a key frame. Raises OutputError."""
        packet = self._passing.packet_of(frame)
        if packet is not None and self._passing.may_begin(packet):
            if self.encodes:
                self._encoding.pause()
            self.encodes = False
            yield from self._passing.images(frame, packet)
            return
        if self._passing.is_altered(frame) or not self.encodes:
            self._passing.stop(frame)
        yield from self._encoding.images(frame, key=key or not self.encodes)
        self.encodes = True

    def pause(self) -> None:
        """Pause while there are no viewers."""
        self._passing.pause()
        self._encoding.pause()
