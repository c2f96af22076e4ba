"""How the images of one stream are made for viewers whose browsers play the same codecs."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sightline.graph import Packets
from sightline.media import Altered, Frame, Overlay, Stream
from sightline_plugins.encode.images import encode_jpeg, jpeg_size
from sightline_plugins.encode.live import LiveSettings
from sightline_plugins.encode.settings import ticks_from_ns
from sightline_plugins.live.messages import LiveFormat, LiveMessage
from sightline_plugins.live.metadata import SeenFrame, shapes_json
from sightline_plugins.publish.broadcast import Format, Image
from sightline_plugins.publish.video_source import EncodedSource, Encoding, PassthroughSource
from sightline_plugins.rtsp.payloads import Codec

_SETTINGS = LiveSettings(preset="ultrafast", quality=26, bitrate=None, key_ns=2_000_000_000)
_STILL_INTERVAL_NS = 200_000_000
_LARGEST_STILL_WH = (1280, 720)
_VIDEO = frozenset({Codec.H264, Codec.H265})


class LiveMaker:
    """Makes messages of frames; a `Maker`. Used by one thread.

    The packets of the source are passed on where the browser plays them and nothing in the image was hidden or changed;
    overlays that were drawn are left out, because the browser draws them. Where there are none, and where something was
    changed, frames are encoded as H.264. A codec that the browser does not play becomes JPEG, five a second at most.
    """

    def __init__(self, packets: Packets, *, plays: Collection[Codec]) -> None:
        self._packets = packets
        self._plays = frozenset(plays) & _VIDEO
        self._stream: Stream | None = None
        self._video: EncodedSource | None = None
        self._stills = _Stills()
        self._found: SeenFrame | None = None
        self._format: LiveFormat | None = None
        self._shapes: tuple[Overlay, ...] | None = None
        self._number = 0
        self._is_still = False

    @property
    def encodes(self) -> bool:
        """Whether a key frame can be made when one is asked for."""
        return self._is_still or self._video is None or self._video.encodes

    def see(self, found: SeenFrame | None) -> None:
        """Take what was found on the next frame; None when it is done."""
        self._found = found

    def images(self, frame: Frame, *, key: bool) -> Iterator[LiveMessage]:
        """Yield the messages of a frame; `key` asks for a key frame. Raises OutputError."""
        self._is_still = self._becomes_still(frame)
        source = self._stills if self._is_still else self._source(frame.stream)
        made = list(source.images(frame, key=key))
        if self.encodes and not made:
            return
        pts_ns = made[-1].pts_ns if self.encodes else frame.pts_ns
        ticks, is_told = ticks_from_ns(pts_ns), False
        for image in made:
            is_own = ticks_from_ns(image.pts_ns) == ticks
            is_told |= is_own
            yield self._message(image, frame, is_own=is_own)
        if not is_told and self._format is not None:
            about = self._about()
            dts_ns = made[-1].dts_ns if made else pts_ns
            yield LiveMessage.afterwards(about, pts_ns=pts_ns, live_format=self._format, dts_ns=dts_ns)

    def pause(self) -> None:
        """Release encoders while there are no viewers."""
        if self._video is not None:
            self._video.pause()
        self._stills.pause()
        self._format = self._shapes = None

    def _source(self, stream: Stream) -> EncodedSource:
        if self._video is None or self._stream != stream:
            self._stream = stream
            passing = PassthroughSource(self._packets.of(stream), codecs=self._plays, ignored=Altered.DRAWN)
            self._video = EncodedSource(passing=passing, encoding=Encoding(_SETTINGS))
        return self._video

    def _becomes_still(self, frame: Frame) -> bool:
        """Whether the browser plays neither the packet of the frame, nor what would be encoded."""
        if Codec.H264 not in self._plays:
            return True
        if frame.altered & Altered.CHANGED or frame.packet is None:
            return self._is_still and not frame.altered & Altered.CHANGED
        packet = self._packets.of(frame.stream).packet(frame.packet)
        return self._is_still if packet is None else Codec.from_ffmpeg(packet.format.codec) not in self._plays

    def _message(self, image: Image, frame: Frame, *, is_own: bool) -> LiveMessage:
        is_drawn = self.encodes and bool(frame.altered & Altered.DRAWN)
        known = self._format
        if known is None or known.image is not image.format or known.is_drawn != is_drawn:
            known = self._format = LiveFormat(image.format, is_drawn)
        self._number += 1
        if image.is_key:
            self._shapes = None
        about = self._about() if is_own else b""
        return LiveMessage.of(image, live_format=known, number=self._number, about=about)

    def _about(self) -> bytes:
        """What is known of the frame, with the shapes if they have changed."""
        assert self._found is not None  # `see` comes before `images`
        if self._found.shapes is self._shapes:
            return b'{"found":%b}' % self._found.json
        self._shapes = self._found.shapes
        return b'{"found":%b,"shapes":%b}' % (self._found.json, shapes_json(self._shapes))


class _Stills:
    """JPEG images of a stream, a few a second."""

    def __init__(self) -> None:
        self._format: Format | None = None
        self._last_ns: int | None = None

    def images(self, frame: Frame, *, key: bool) -> Iterator[Image]:
        """Yield the image of a frame, unless the last one was a moment ago."""
        if not key and self._last_ns is not None and 0 <= frame.pts_ns - self._last_ns < _STILL_INTERVAL_NS:
            return
        self._last_ns = frame.pts_ns
        size_wh = jpeg_size(frame.size_wh, largest_wh=_LARGEST_STILL_WH)
        if self._format is None or self._format.size_wh != size_wh:
            self._format = Format(Codec.MJPEG, size_wh)
        jpeg = encode_jpeg(frame.surface, largest_wh=_LARGEST_STILL_WH)
        yield Image(self._format, (jpeg,), frame.pts_ns, frame.pts_ns, is_key=True, capture_ns=frame.capture_ns)

    def pause(self) -> None:
        """Begin anew when somebody looks again."""
        self._last_ns = None
