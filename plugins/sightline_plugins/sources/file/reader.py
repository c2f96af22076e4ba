"""Read files and URLs: passes, a start and an end in stream time, and a limit of frames per second."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sightline.graph import Site, SourceReader
from sightline.media import Altered, Frame, Stream
from sightline_plugins.decode.decoder import DecoderChoice, DecodeSettings, Image
from sightline_plugins.decode.failures import unreadable
from sightline_plugins.decode.open_media import OpenOptions
from sightline_plugins.decode.packet_tap import tap_for
from sightline_plugins.decode.timestamps import RateLimit, nanoseconds
from sightline_plugins.decode.video import VideoDecoder, VideoFacts
from sightline_plugins.sources.options import passes_of

if TYPE_CHECKING:
    from sightline_plugins.sources.file.element import Media

_SECOND_NS = 1_000_000_000
_MARGINS_NS = (0, _SECOND_NS, 4 * _SECOND_NS, 16 * _SECOND_NS, 64 * _SECOND_NS)


class MediaReader(SourceReader):
    """One attempt at reading a file or URL."""

    def __init__(self, element: Media, *, stream: Stream, site: Site) -> None:
        self._element = element
        self._stream = stream
        self._site = site
        self._decoding = DecodeSettings(element.threads, element.orientation, site.gpu, element.verify_nvdec)
        self._tap = tap_for(stream, site=site)
        self._warned: set[str] = set()
        self._decoder: VideoDecoder | None = None
        self._index = 0
        self._end_ns = 0
        self._limit = RateLimit(element.max_fps) if element.max_fps else None

    def frames(self) -> Iterator[Frame]:
        """Yield the frames of all passes; timestamps and indices continue from one pass to the next."""
        passes = passes_of(self._element.loop)
        for _ in itertools.count() if passes is None else range(passes):
            before = self._handed_out
            yield from self._pass(self._open())
            self.close()
            if self.is_stopping:
                return
            if self._handed_out == before:
                cause = f"it ends before start ({self._element.start / _SECOND_NS:g} s)"
                raise unreadable(cause, stream=self._stream.name, uri=self._element.uri)

    def close(self) -> None:
        """Close the input."""
        if self._decoder is not None:
            self._decoder.close()
            self._decoder = None

    @property
    def _handed_out(self) -> int:
        return self._index + self.skipped_frames

    def _open(self) -> VideoDecoder:
        element = self._element
        self._decoder = VideoDecoder(
            element.uri,
            stream=self._stream.name,
            options=OpenOptions(max_pixels=element.max_pixels, networks=element.allowed_networks),
            number=element.stream_index,
            decoding=self._decoding,
            warn=self._warn_once,
            on_damage=self._count_damage,
            on_choice=self._note_choice,
            tap=self._tap,
        )
        self.frame_count = _expected_frames(element, self._decoder.facts)
        self.audio = self._decoder.audio_codec
        return self._decoder

    def _pass(self, decoder: VideoDecoder) -> Iterator[Frame]:
        """The frames of one pass, moved to where the pass before ended."""
        interval_ns = decoder.facts.interval_ns
        first_ns = last_ns = self._end_ns
        shift_ns: int | None = None if self._handed_out else 0
        number = 0
        for number, (image, file_ns) in enumerate(self._timed_images(decoder)):
            if shift_ns is None:
                shift_ns = self._end_ns - file_ns
            last_ns = file_ns + shift_ns
            if number == 0:
                first_ns = last_ns
            if self._limit is not None and not self._limit.takes(last_ns):
                self.skipped_frames += 1
                continue
            yield Frame(
                self._stream,
                self._index,
                last_ns,
                image.surface(),
                damaged=image.is_corrupt,
                packet=image.packet,
                altered=Altered.CHANGED if image.is_turned else Altered.NO,
            )
            self._index += 1
            if self.is_stopping:
                return
        self._end_ns = last_ns + ((last_ns - first_ns) // number if number else interval_ns)

    def _timed_images(self, decoder: VideoDecoder) -> Iterator[tuple[Image, int]]:
        """The images between start and end, each with its time in the file."""
        element, begin_ns = self._element, decoder.facts.start_ns + self._element.start
        start_ns = begin_ns if element.start else None
        end_ns = None if element.duration is None else begin_ns + element.duration
        timestamps, repaired_before = decoder.timestamps(), self.repaired_timestamps
        images = decoder.images() if start_ns is None else self._images_before(start_ns, decoder)
        pts_ns = decoder.facts.start_ns
        for image in images:
            pts_ns = timestamps.next_ns(image.pts, image.dts)
            self.repaired_timestamps = repaired_before + timestamps.repairs
            if start_ns is not None and pts_ns < start_ns:
                continue
            if end_ns is not None and pts_ns >= end_ns:
                return
            yield image, pts_ns
        if self._decoder is not None:
            self._decoder.check_end(last_ns=pts_ns if start_ns is None else None)

    def _images_before(self, start_ns: int, decoder: VideoDecoder) -> Iterator[Image]:
        """The images from a key frame that is not after `start_ns`, or from the beginning when none is found."""
        facts = decoder.facts
        for margin_ns in _MARGINS_NS:
            time_ns = start_ns - margin_ns
            if time_ns <= facts.start_ns or not decoder.seek(time_ns):
                break
            images = decoder.images()
            first = next(images, None)
            if first is not None and first.pts is not None and nanoseconds(first.pts, facts.time_base) <= start_ns:
                return itertools.chain((first,), images)
        self.close()
        return self._open().images()

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            self._site.warn(f"{self._element.uri}: {text}", stream=self._stream.name)

    def _count_damage(self) -> None:
        self.damaged_packets += 1

    def _note_choice(self, choice: DecoderChoice) -> None:
        self.decoder, self.decoder_reason = choice.name, choice.reason


def _expected_frames(element: Media, facts: VideoFacts) -> int | None:
    count, passes, interval_ns = facts.expected_frames, passes_of(element.loop), facts.interval_ns
    if count is None or passes is None:
        return None
    if element.start or element.duration is not None:
        left_ns = max(count * interval_ns - element.start, 0)
        count = round(min(left_ns, element.duration or left_ns) / interval_ns)
    if element.max_fps:
        count = min(count, round(count * interval_ns * element.max_fps / _SECOND_NS))
    return count * passes
