"""Read a stream of a recording: its packets through the decoder again, its kept pixels, and the frames they were."""

from __future__ import annotations

import zlib
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.video.stream import VideoStream

from sightline.errors import ConfigurationError
from sightline.graph import Site, SourceReader
from sightline.media import Altered, Frame, PixelFormat, Stream, Surface
from sightline.media.color import ColorMatrix, ColorRange
from sightline.media.frame import TimeSource
from sightline.runtime.recording.file import FrameRow, InputRecord, PacketRecord, PixelsRecord, Recording, StreamRecord
from sightline_plugins.codecs.packet import packet_of
from sightline_plugins.decode.decoder import DecodeSettings, Image, ImageDecoder
from sightline_plugins.decode.failures import unreadable
from sightline_plugins.decode.matroska_head import open_head
from sightline_plugins.decode.orientation import Orientation, orientation_from_degrees
from sightline_plugins.decode.packet_tap import mark
from sightline_plugins.decode.video import decoder_of

if TYPE_CHECKING:
    from sightline_plugins.sources.recorded.element import Recorded

_MOST_AHEAD = 32
"""How many frames may be there before one that should come first; then that one is given up."""


class RecordedReader(SourceReader):
    """One attempt at reading a stream of a recording."""

    def __init__(self, element: Recorded, *, stream: Stream, site: Site) -> None:
        self._element = element
        self._stream = stream
        self._site = site
        self._container: InputContainer | None = None
        self._video: VideoStream | None = None
        self._decoder: ImageDecoder | None = None

    def frames(self) -> Iterator[Frame]:
        """Yield the frames that entered the first step, in their order."""
        try:
            recording = Recording.read(self._element.uri)
            number = recording.number_of(self._element.stream or self._stream.name)
        except ConfigurationError as error:
            raise unreadable(str(error), stream=self._stream.name, uri=self._element.uri) from error
        rows = recording.frames_of(number)
        self.frame_count = len(rows)
        waiting: dict[int, Frame] = {}
        order = deque(row.index for row in rows)
        for frame in self._frames(recording, number, rows):
            waiting[frame.index] = frame
            while order and (order[0] in waiting or len(waiting) > _MOST_AHEAD):
                found = waiting.pop(order.popleft(), None)
                if found is not None:
                    yield found
                if self.is_stopping:
                    return
        yield from (waiting[index] for index in order if index in waiting)
        self._warn_of_missing(rows)

    def close(self) -> None:
        """Close the decoder."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None
        if self._container is not None:
            self._container.close()
            self._container = None

    def _frames(self, recording: Recording, number: int, rows: list[FrameRow]) -> Iterator[Frame]:
        """Yield the frames as they come out of the decoder, or of the file."""
        by_packet: dict[int, deque[FrameRow]] = defaultdict(deque)
        by_index = {}
        for row in rows:
            if row.packet is None:
                by_index[row.index] = row
            else:
                by_packet[row.packet].append(row)
        self._missing = len(rows)
        stream = recording.streams[number]
        for body in recording.bodies(number):
            if isinstance(body, PixelsRecord):
                if body.index in by_index:
                    yield self._frame(by_index[body.index], _surface(body))
                continue
            images = self._decode(body) if isinstance(body, PacketRecord) else self._open(body, stream)
            yield from self._wanted(images, by_packet)
        yield from self._wanted(self._rest(), by_packet)

    def _wanted(self, images: Sequence[Image], rows: dict[int, deque[FrameRow]]) -> Iterator[Frame]:
        for image in images:
            row = None if image.packet is None or not rows[image.packet] else rows[image.packet].popleft()
            if row is not None:
                yield self._frame(row, image.surface())

    def _frame(self, row: FrameRow, surface: Surface) -> Frame:
        self._missing -= 1
        return Frame(
            self._stream,
            row.index,
            row.pts_ns,
            surface,
            capture_ns=row.capture_ns,
            damaged=row.damaged,
            time_source=None if row.time_source is None else TimeSource(row.time_source),
            altered=Altered(row.altered),
        )

    def _open(self, record: InputRecord, stream: StreamRecord) -> Sequence[Image]:
        """Open the next input; return the images that are left of the one before."""
        left = self._rest()
        self.close()
        element = self._element
        gpu = self._site.gpu if element.decoder == "auto" else None
        settings = DecodeSettings(element.threads, _orientation(stream), gpu)
        self._container, self._video = open_head(record.head, tag=record.tag)
        self._video.codec_context.copy_opaque = True
        self._decoder = decoder_of(self._video, decoding=settings, live=stream.is_live)
        self.codec = self._video.codec_context.name
        return left

    def _decode(self, record: PacketRecord) -> Sequence[Image]:
        if self._decoder is None or self._video is None:
            return []
        packet: Packet[VideoStream] = packet_of(record.data)
        packet.stream = self._video
        packet.pts, packet.dts, packet.is_keyframe = record.pts, record.dts, record.is_key
        mark(packet, record.number)
        return self._images_of(packet)

    def _rest(self) -> Sequence[Image]:
        """Return the images that the decoder still holds."""
        if self._decoder is None or self._video is None:
            return []
        packet: Packet[VideoStream] = packet_of(b"")
        packet.stream = self._video
        return self._images_of(packet)

    def _images_of(self, packet: Packet[VideoStream]) -> Sequence[Image]:
        assert self._decoder is not None
        decoded = self._decoder.decode(packet)
        self.damaged_packets += decoded.damaged_packets
        choice = self._decoder.choice
        if choice is not None:
            self.decoder, self.decoder_reason = choice.name, choice.reason
        return decoded.images

    def _warn_of_missing(self, rows: list[FrameRow]) -> None:
        if self._missing and not self.is_stopping:
            text = f"{self._missing} of the {len(rows)} frames that were recorded cannot be decoded from what was kept"
            self._site.warn(text, stream=self._stream.name)


def _orientation(stream: StreamRecord) -> Orientation | None:
    """Return the orientation that the source was to turn its images to; None follows their metadata."""
    rotate = stream.options.get("rotate", "auto")
    return orientation_from_degrees(rotate) if isinstance(rotate, int) else None


def _surface(record: PixelsRecord) -> Surface:
    pixel_format, size_wh = PixelFormat(record.format), record.size_wh
    shapes = pixel_format.plane_shapes(size_wh)
    planes = tuple(
        np.frombuffer(zlib.decompress(data), np.uint8).reshape(shape)
        for data, shape in zip(record.planes, shapes, strict=True)
    )
    return Surface(pixel_format, size_wh, planes, ColorMatrix(record.matrix), ColorRange(record.range))
