"""Images that travel with events and tracks: cut out, made smaller, encoded; in the record, or as a file it names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from sightline.errors import OutputError
from sightline.graph import Site
from sightline.graph.transport import Record
from sightline.media import Frame, Surface
from sightline_plugins.sinks.files import Degradation
from sightline_plugins.sinks.retention import FileNames, Retention

if TYPE_CHECKING:
    from sightline_plugins.delivery.element import Delivery
    from sightline_plugins.delivery.image_store import ImageStore

FRAME, TRACK, KIND = "{frame}", "{track}", "{kind}"
PLACEHOLDERS = ("{stream}", FRAME, TRACK, KIND)
IMAGES = "images"
"""What is added to the id of a step to name the destination of its images."""
_NO_TRACK = "none"
_MARGIN = 0.1
"""How much around an object is in its crop, as a share of its width and height."""
_SMALLER = 0.7
_LEAST_SIDE = 16
_MEDIA_TYPE = "image/jpeg"

Box = Sequence[float]


class ImageBody(msgspec.Struct, omit_defaults=True):
    """An image in a record: the JPEG itself (`data`, base64 in JSON), or the file (`path`, below the output folder) or
    the address (`url`) that holds it. `frame` is the frame that it shows, `size` its width and height.
    """

    media_type: str
    frame: int
    size: tuple[int, int]
    data: bytes | None = None
    path: str | None = None
    url: str | None = None


@dataclass(frozen=True, slots=True)
class Image:
    """An encoded image of a frame."""

    jpeg: bytes
    frame: int
    size_wh: tuple[int, int]


class ImageMaker:
    """Takes images of frames or of objects on them, and puts them into records. One thread uses it.

    What is larger than `inline_below` goes to the object store, or becomes a file; without either, it is made smaller
    until it fits. A file that cannot be written is reported, and the record goes without an image.
    """

    def __init__(self, element: Delivery, site: Site) -> None:
        assert element.image is not None
        self.is_crop = element.image == "crop"
        """Whether images show objects, and not whole frames."""
        self._largest_side = element.image_size
        self._quality = element.image_quality
        self._inline_below = element.inline_below
        self._store: _Files | _Bucket | None = None
        if element.image_store is not None:
            self._store = _Bucket(element.image_store, site, url=element.image_url)
        elif element.image_path is not None:
            self._store = _Files(element, site)

    def take(self, frame: Frame, xyxy: Box | None) -> Image | None:
        """Take an image of a frame, or of the object in that box; None where there is nothing to see."""
        surface: Surface | None = frame.surface
        if self.is_crop:
            surface = None if xyxy is None else cut(frame.surface, around(xyxy))
        if surface is None:
            return None
        side = self._largest_side
        image = self._encoded(surface, frame.index, side)
        while self._store is None and len(image.jpeg) >= self._inline_below and side > _LEAST_SIDE:
            side = int(min(side, max(surface.size_wh)) * _SMALLER)
            image = self._encoded(surface, frame.index, side)
        return image

    def place(self, image: Image, *, stream: str, kind: str, track: int | None) -> ImageBody | None:
        """Put an image into a record, or where it is kept if it is large; None where that cannot be written."""
        body = ImageBody(_MEDIA_TYPE, image.frame, image.size_wh)
        if self._store is None or len(image.jpeg) < self._inline_below:
            body.data = image.jpeg
            return body
        return body if self._store.write(image, body, stream=stream, kind=kind, track=track) else None

    def close(self) -> None:
        """Take no more images."""
        if self._store is not None:
            self._store.close()

    def _encoded(self, surface: Surface, frame: int, side: int) -> Image:
        from sightline_plugins.encode.images import encode_jpeg, jpeg_size

        jpeg = encode_jpeg(surface, largest_wh=(side, side), quality=self._quality)
        return Image(jpeg, frame, jpeg_size(surface.size_wh, largest_wh=(side, side)))


class _Bucket:
    """Images in an object store: they are records of a destination of its own, so that outages lose none."""

    def __init__(self, store: ImageStore, site: Site, *, url: str | None) -> None:
        assert site.outbox is not None
        self._store = store
        self._url = url
        self._clock = site.clock
        destination = f"{site.element_id}/{IMAGES}"
        transport = store.transport(site)
        self._mailbox = site.outbox.mailbox(destination, address=store.destination(), transport=transport)

    def write(self, image: Image, body: ImageBody, *, stream: str, kind: str, track: int | None) -> bool:
        """Put an image, and say in its body where it will be."""
        epoch, seq = self._mailbox.stamp(stream)
        key = self._store.key_of(stream, kind, epoch=epoch, frame=image.frame, track=track)
        made_ns = self._clock.epoch_ns()
        self._mailbox.put([Record(stream, epoch, seq, kind, key, image.jpeg, made_ns, _MEDIA_TYPE)])
        body.url = self._store.url_of(key) if self._url is None else f"{self._url.rstrip('/')}/{quote(key)}"
        return True

    def close(self) -> None:
        """Close the mailbox; what is in it is still delivered."""
        self._mailbox.close()


class _Files:
    """Images in files."""

    def __init__(self, element: Delivery, site: Site) -> None:
        assert element.image_path is not None
        self._template = element.image_path
        self._url = element.image_url
        self._outputs = site.outputs
        self._degradation = Degradation(site)
        expressions = {FRAME: r"\d{6,}", TRACK: rf"(?:\d+|{_NO_TRACK})", KIND: "(?:events|tracks)"}
        names = FileNames(element.image_path, expressions)
        keep = element.image_keep
        self._retention = Retention(keep, names=names, outputs=site.outputs, clock=site.clock, warn=site.warn)

    def write(self, image: Image, body: ImageBody, *, stream: str, kind: str, track: int | None) -> bool:
        """Write an image, and say in its body where it is; False where that failed."""
        if self._degradation.is_waiting:
            return False
        template = self._template.replace(FRAME, f"{image.frame:06d}").replace(KIND, kind)
        template = template.replace(TRACK, _NO_TRACK if track is None else str(track))
        path = _free(self._outputs.path(template, stream=stream))
        try:
            file = self._outputs.open_lines(path)
            file.write(image.jpeg)
            file.close()
        except OutputError as error:
            self._degradation.failed(error, stream=stream, at_once=self._retention.make_room())
            return False
        self._degradation.succeeded(stream=stream)
        self._retention.add(path, size_bytes=len(image.jpeg))
        self._retention.tidy()
        self._name(path, body)
        return True

    def close(self) -> None:
        """Nothing is open."""

    def _name(self, path: Path, body: ImageBody) -> None:
        inside = path.is_relative_to(self._outputs.root)
        name = path.relative_to(self._outputs.root).as_posix() if inside else path.as_posix()
        if self._url is None:
            body.path = name
        else:
            body.url = f"{self._url.rstrip('/')}/{quote(name.lstrip('/'))}"


def _free(path: Path) -> Path:
    """The path, or `name-2` and so on where there is a file: records of earlier runs may still name that."""
    free, number = path, 1
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


def cut(surface: Surface, xyxy: Box) -> Surface | None:
    """The part of an image in host memory that holds a box; None where they do not overlap.

    It is a view of the same pixels. Its edges lie on whole chroma samples, so that it is up to a pixel larger.
    """
    surface = surface.to_host()
    width, height = surface.size_wh
    if not all(map(math.isfinite, xyxy)):
        return None
    right_shift, down_shift = surface.format.chroma_shift
    left, right = _edges(xyxy[0], xyxy[2], limit=width, step=1 << right_shift)
    top, bottom = _edges(xyxy[1], xyxy[3], limit=height, step=1 << down_shift)
    if left >= right or top >= bottom:
        return None
    planes = []
    for index, plane in enumerate(surface.planes):
        over, down = (right_shift, down_shift) if index else (0, 0)
        planes.append(plane[top >> down : -(-bottom >> down), left >> over : -(-right >> over)])
    size_wh = (right - left, bottom - top)
    return Surface(surface.format, size_wh, tuple(planes), surface.matrix, surface.range, owner=surface)


def _edges(low: float, high: float, *, limit: int, step: int) -> tuple[int, int]:
    first = max(math.floor(low), 0) // step * step
    last = min(-(-math.ceil(high) // step) * step, limit)
    return first, last


def around(xyxy: Box) -> Box:
    """Return a box with the margin around it that a crop has."""
    left, top, right, bottom = xyxy
    across, along = (right - left) * _MARGIN, (bottom - top) * _MARGIN
    return left - across, top - along, right + across, bottom + along
