"""Read images one after the other as the frames of a stream."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.errors import StreamUnreadable
from sightline.graph import SourceReader
from sightline.media import Frame, Stream, Surface
from sightline_plugins.decode.failures import unreadable
from sightline_plugins.decode.images import image_surface, largest_file
from sightline_plugins.decode.kinds import IMAGE_SUFFIXES, glob_of, is_glob
from sightline_plugins.decode.timestamps import RateLimit
from sightline_plugins.sources.options import passes_of

if TYPE_CHECKING:
    from sightline_plugins.sources.images.element import Images

_SECOND_NS = 1_000_000_000
_DIGITS = re.compile(r"(\d+)")


class ImagesReader(SourceReader):
    """One pass or more over images in natural order."""

    def __init__(self, element: Images, *, stream: Stream, warn: Callable[[str], None]) -> None:
        self._element = element
        self._stream = stream
        self._warn = warn
        self._trouble = ""
        self._limit = RateLimit(element.max_fps) if element.max_fps else None

    def frames(self) -> Iterator[Frame]:
        """Yield one frame for each image that can be read. An unreadable image leaves a gap in time."""
        paths = find_images(self._element.uri)
        if not paths:
            raise self._unreadable("there are no images; name a folder, a glob (frames/*.jpg) or an image")
        count = passes_of(self._element.loop)
        self.frame_count = None if count is None else len(paths) * count
        passes = itertools.count() if count is None else range(count)
        index = 0
        for place, path in enumerate(itertools.chain.from_iterable(paths for _ in passes)):
            if self.is_stopping:
                return
            pts_ns = round(place * _SECOND_NS / self._element.fps)
            if self._limit is not None and not self._limit.takes(pts_ns):
                self.skipped_frames += 1
                continue
            surface = self._surface(path)
            if surface is not None:
                yield Frame(self._stream, index, pts_ns, surface)
                index += 1
            elif index == 0 and place == len(paths) - 1:
                raise self._unreadable(f"none of its images can be read: {self._trouble}")
            elif self.damaged_packets == 1:
                self._warn(f"{path} cannot be read: {self._trouble}; it is left out")

    def _surface(self, path: Path) -> Surface | None:
        most = self._element.max_pixels
        try:
            data = _read(path, limit=largest_file(most))
            return image_surface(data, max_pixels=most, orientation=self._element.orientation)
        except (OSError, ValueError) as error:
            self.damaged_packets += 1
            self._trouble = getattr(error, "strerror", None) or str(error)
            return None

    def _unreadable(self, cause: str) -> StreamUnreadable:
        return unreadable(cause, stream=self._stream.name, uri=self._element.uri)


def find_images(uri: str) -> list[Path]:
    """Find the images of a folder, a glob or a single file, in natural order: `frame9` before `frame10`."""
    path = Path(uri)
    if path.is_dir():
        found = [entry for entry in path.iterdir() if entry.suffix.lower() in IMAGE_SUFFIXES]
    elif path.is_file() or not is_glob(uri):
        return [path] if path.is_file() else []
    else:
        found = list(Path(path.anchor).glob(glob_of(str(path.relative_to(path.anchor)))))
    return sorted((entry for entry in found if entry.is_file()), key=_natural)


def _natural(path: Path) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(str(path).lower()) if part
    ] + [(-1, str(path))]


def _read(path: Path, *, limit: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"the file has more than {limit} bytes")
    return data
