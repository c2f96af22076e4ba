"""Read images one after the other as the frames of a stream."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.errors import StreamUnreadable
from sightline.graph import SourceReader
from sightline.media import Frame, Stream, Surface
from sightline_plugins.decode.failures import unreadable
from sightline_plugins.decode.images import image_surface, largest_file
from sightline_plugins.decode.kinds import IMAGE_SUFFIXES, files_of
from sightline_plugins.decode.timestamps import RateLimit
from sightline_plugins.sources.options import passes_of

if TYPE_CHECKING:
    from sightline_plugins.sources.images.element import Images

_SECOND_NS = 1_000_000_000


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
            raise self._unreadable(
                "it holds no images and no videos (folders in it are read with a glob such as folder/**/*.mp4); "
                "name a folder, a glob (frames/*.jpg) or an image"
            )
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
    found = files_of(uri)
    return [path for path in found if path.suffix.lower() in IMAGE_SUFFIXES] if Path(uri).is_dir() else found


def _read(path: Path, *, limit: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"the file has more than {limit} bytes")
    return data
