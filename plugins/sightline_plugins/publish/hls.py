"""HLS (RFC 8216): the last seconds of a stream as files for any web server."""

from __future__ import annotations

import math
from collections import deque
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from sightline.graph import Outputs
from sightline_plugins.publish.broadcast import Format, Image
from sightline_plugins.publish.fragments import fragment, start_of_file

_SECOND_NS = 1_000_000_000
_SEGMENT_NS = 2 * _SECOND_NS
_LISTED = 6
_KEPT_UNLISTED = 3
"""Segments that are no longer listed, but kept for players that are about to request them."""
_LONGEST_GAP_NS = 3 * _SECOND_NS
_LAST_DURATION_NS = 40_000_000
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class _Segment:
    """A complete segment as the playlist lists it; `start` is its initialisation file."""

    path: Path
    start: Path
    duration_ns: int
    begins_anew: bool
    capture_ns: int | None


class HlsWriter:
    """Writes one stream as segments of fragmented MP4 of about two seconds, and the playlist of the last six.

    A segment begins with a key frame and is listed when it is complete. Older files are removed; those in the last
    playlist stay. A change of size or codec, or a jump in time, is a discontinuity. Used by one thread.
    """

    def __init__(self, playlist: Path, *, outputs: Outputs) -> None:
        self._playlist = playlist
        self._outputs = outputs
        self._segments: deque[_Segment] = deque()
        self._images: list[Image] = []
        self._format: Format | None = None
        self._start: Path | None = None
        self._written = self._starts = self._unlisted_breaks = self._bytes = 0
        self._target_seconds = math.ceil(_SEGMENT_NS / _SECOND_NS)
        self._begins_anew = False

    def write(self, image: Image) -> None:
        """Add an image. Raises OutputError."""
        images = self._images
        if images and self._breaks_off(image):
            self._complete(end_ns=None)
            self._begins_anew = True
        elif image.is_key and images and image.dts_ns - images[0].dts_ns >= _SEGMENT_NS:
            self._complete(end_ns=image.dts_ns)
        if images or image.is_key:
            images.append(image)
            self._bytes += image.size

    def finish(self) -> None:
        """Write the last segment, and mark the end in the playlist. Raises OutputError."""
        if self._images:
            self._complete(end_ns=None)
        if self._segments:
            self._write_playlist(is_over=True)

    def _breaks_off(self, image: Image) -> bool:
        last = self._images[-1]
        gap_ns = image.dts_ns - last.dts_ns
        is_other = image.format is not last.format
        return is_other or not 0 <= gap_ns <= _LONGEST_GAP_NS or self._bytes > _MOST_BYTES

    def _complete(self, *, end_ns: int | None) -> None:
        """Write the collected images as a segment that ends at that time, or soon after its last image."""
        images = self._images
        if end_ns is None:
            end_ns = images[-1].dts_ns + _LAST_DURATION_NS
        times = [*(image.dts_ns for image in images), end_ns]
        durations = [max(later - earlier, 0) for earlier, later in pairwise(times)]
        start = self._start_file(images[0].format)
        self._written += 1
        path = self._playlist.with_name(f"{self._playlist.stem}-{self._written:06d}.m4s")
        self._save(path, fragment(images, number=self._written, durations_ns=durations))
        segment = _Segment(path, start, end_ns - times[0], self._begins_anew, images[0].capture_ns)
        self._segments.append(segment)
        self._begins_anew = False
        self._target_seconds = max(self._target_seconds, math.ceil(segment.duration_ns / _SECOND_NS))
        images.clear()
        self._bytes = 0
        self._write_playlist(is_over=False)
        self._remove_old()

    def _start_file(self, image_format: Format) -> Path:
        if self._start is None or image_format != self._format:
            self._begins_anew = self._start is not None
            self._starts += 1
            self._format = image_format
            self._start = self._playlist.with_name(f"{self._playlist.stem}-start-{self._starts}.mp4")
            self._save(self._start, start_of_file(image_format))
        return self._start

    def _write_playlist(self, *, is_over: bool) -> None:
        listed = list(self._segments)[-_LISTED:]
        breaks = self._unlisted_breaks + sum(one.begins_anew for one in list(self._segments)[:-_LISTED])
        lines = ["#EXTM3U", "#EXT-X-VERSION:7", f"#EXT-X-TARGETDURATION:{self._target_seconds}"]
        lines += [f"#EXT-X-MEDIA-SEQUENCE:{self._written - len(listed) + 1}"]
        lines += [f"#EXT-X-DISCONTINUITY-SEQUENCE:{breaks}", "#EXT-X-INDEPENDENT-SEGMENTS"]
        start: Path | None = None
        for segment in listed:
            lines += ["#EXT-X-DISCONTINUITY"] if segment.begins_anew else []
            lines += [f'#EXT-X-MAP:URI="{segment.start.name}"'] if segment.start != start else []
            start = segment.start
            lines += _date(segment.capture_ns)
            lines += [f"#EXTINF:{segment.duration_ns / _SECOND_NS:.6f},", segment.path.name]
        lines += ["#EXT-X-ENDLIST"] if is_over else []
        part = self._playlist.with_name(f".{self._playlist.name}.part")
        self._save(part, ("\n".join(lines) + "\n").encode())
        self._outputs.rename(part, to=self._playlist)

    def _remove_old(self) -> None:
        while len(self._segments) > _LISTED + _KEPT_UNLISTED:
            old = self._segments.popleft()
            self._unlisted_breaks += old.begins_anew
            self._remove(old.path)
            if old.start not in {segment.start for segment in self._segments}:
                self._remove(old.start)

    def _remove(self, path: Path) -> None:
        if path.exists():
            self._outputs.remove(path)

    def _save(self, path: Path, data: bytes) -> None:
        with closing(self._outputs.open_lines(path)) as file:
            file.write(data)


def _date(capture_ns: int | None) -> list[str]:
    if capture_ns is None:
        return []
    time = datetime.fromtimestamp(capture_ns // 1_000_000 / 1000, tz=UTC)
    return [f"#EXT-X-PROGRAM-DATE-TIME:{time.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}"]
