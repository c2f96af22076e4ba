"""Records of frames and objects, as sinks write them.

The format is that of the COCO API (cocodataset/cocoapi, `common/maskApi.c`): counts of pixels outside and inside by
turns, column by column; from the fourth on as the difference to the count before the last; each number in groups of
five bits, lowest first, with a sixth bit for "more follows", as characters from "0" on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects
from sightline.media.events import Scalar
from sightline.media.shapes import Mask
from sightline.media.time import format_time

Values = list[Any]

BOX_STEPS = 100.0
"""Boxes and points are written to a hundredth of a pixel."""
CONFIDENCE_STEPS = 1000.0
"""Confidences are written to a thousandth."""
EMBEDDING_STEPS = 1e6
"""Embeddings are written to a millionth."""
TENSOR_STEPS = 1000.0
"""Tensors are written to a thousandth."""


def rounded(values: npt.NDArray[np.floating[Any]], *, steps: float) -> Values:
    """Round values to a whole number of steps (100: two decimals); returns nested lists of the same shape."""
    scaled = np.multiply(values, steps, dtype=np.float64)
    np.rint(scaled, out=scaled)
    scaled /= steps
    scaled += 0.0  # no negative zero
    return scaled.tolist()  # type: ignore[no-any-return]


_Counts = npt.NDArray[np.int64]

_FIRST = 48
_GROUP_BITS = 5
_MORE = 1 << _GROUP_BITS
_SIGN = 1 << (_GROUP_BITS - 1)
_MOST_GROUPS = 8
_MOST_PIXELS = 1 << 31


def encode_mask(mask: Mask, *, size_wh: tuple[int, int]) -> str:
    """The compressed run lengths of a mask in an image of that size, to which it is cut."""
    return _text_from_counts(_counts(mask, size_wh))


def decode_mask(text: str, *, size_wh: tuple[int, int]) -> Mask:
    """Read a mask that `encode_mask` wrote, cut to the pixels it covers.

    Raises ValueError for invalid text, or when its runs do not add up to the image.
    """
    width, height = size_wh
    if width < 1 or height < 1 or width * height > _MOST_PIXELS:
        raise ValueError(f"a mask's size is {height} x {width}: it must be that of an image, [height, width]")
    counts = _counts_from_text(text)
    if (counts < 0).any() or counts.sum() != width * height:
        raise ValueError(f"the runs of a mask do not add up to its image of {width} x {height} pixels")
    ends = np.cumsum(counts)[: len(counts) // 2 * 2].reshape(-1, 2)
    filled = ends[ends[:, 1] > ends[:, 0]]
    if not len(filled):
        return Mask(0, 0, np.zeros((0, 0), np.bool_))
    left, right = int(filled[0, 0] // height), int((filled[-1, 1] - 1) // height) + 1
    changes = np.zeros((right - left) * height + 1, np.int8)
    changes[filled[:, 0] - left * height] += 1
    changes[filled[:, 1] - left * height] -= 1
    columns = np.cumsum(changes[:-1], dtype=np.int8).astype(np.bool_).reshape(-1, height)
    rows = np.flatnonzero(columns.any(axis=0))
    top, bottom = int(rows[0]), int(rows[-1]) + 1
    return Mask(left, top, np.ascontiguousarray(columns[:, top:bottom].T))


def _counts(mask: Mask, size_wh: tuple[int, int]) -> _Counts:
    width, height = size_wh
    left, top = max(mask.left, 0), max(mask.top, 0)
    inside = mask.bits[top - mask.top : height - mask.top, left - mask.left : width - mask.left]
    if mask.top >= height or mask.left >= width or not inside.size:
        return np.array([width * height], np.int64)
    framed = np.zeros((inside.shape[1], inside.shape[0] + 2), np.int8)
    framed[:, 1:-1] = inside.T
    column, row = np.nonzero(np.diff(framed, axis=1))
    edges = (column + left) * height + row + top
    return _runs(edges, pixels=width * height)


def _runs(edges: npt.NDArray[np.intp], *, pixels: int) -> _Counts:
    """Run lengths from the indices where runs begin and end in turn; runs that touch become one."""
    touching = np.flatnonzero(edges[1:-1:2] == edges[2::2])
    edges = np.delete(edges, np.concatenate([2 * touching + 1, 2 * touching + 2]))
    counts = np.diff(edges, prepend=0, append=pixels).astype(np.int64)
    return counts[:-1] if len(counts) > 1 and counts[-1] == 0 else counts


def _text_from_counts(counts: _Counts) -> str:
    numbers = counts.copy()
    numbers[3:] -= counts[1:-2]
    shifts = _GROUP_BITS * np.arange(_MOST_GROUPS)
    rest = numbers[:, None] >> shifts
    more = np.where(rest & _SIGN, rest >> _GROUP_BITS != -1, rest >> _GROUP_BITS != 0)
    groups = (rest & (_MORE - 1)) + np.where(more, _MORE, 0) + _FIRST
    last = np.argmin(more, axis=1)
    written: npt.NDArray[np.uint8] = groups[np.arange(_MOST_GROUPS) <= last[:, None]].astype(np.uint8)
    return written.tobytes().decode("ascii")


def _counts_from_text(text: str) -> _Counts:
    try:
        groups = np.frombuffer(text.encode("ascii"), np.uint8).astype(np.int64) - _FIRST
    except UnicodeEncodeError as error:
        raise ValueError("the counts of a mask are no compressed run lengths") from error
    if not len(groups) or groups.min() < 0 or groups.max() >= 2 * _MORE or groups[-1] & _MORE:
        raise ValueError("the counts of a mask are no compressed run lengths")
    first = np.flatnonzero(np.concatenate([[True], (groups[:-1] & _MORE) == 0]))
    lengths = np.diff(first, append=len(groups))
    if lengths.max() > _MOST_GROUPS:
        raise ValueError("the counts of a mask hold a number that is too large")
    place = np.arange(len(groups)) - np.repeat(first, lengths)
    numbers = np.add.reduceat((groups & (_MORE - 1)) << (_GROUP_BITS * place), first)
    negative = (groups[first + lengths - 1] & _SIGN) != 0
    numbers -= np.where(negative, np.int64(1) << (_GROUP_BITS * lengths), 0)
    counts = numbers.astype(np.int64)  # from the fourth on, differences to the count before the last
    counts[1::2] = np.cumsum(counts[1::2])
    if len(counts) > 2:
        counts[2::2] = np.cumsum(counts[2::2])
    return counts


Point: TypeAlias = list[float]
MaskRecord: TypeAlias = dict[str, Any]


def left_top_size(objects: Objects) -> npt.NDArray[np.float64]:
    """The boxes (N, 4) as left, top, width, height."""
    ltwh = objects.xyxy.astype(np.float64)
    ltwh[:, 2:] -= ltwh[:, :2]
    return ltwh


def parents(batch: Batch, bounds: Sequence[int]) -> list[int]:
    """For each object, the index of its parent among the objects of its frame; -1 for none."""
    objects = batch.objects
    first = np.asarray(bounds)[objects.frame]
    return np.where(objects.parent >= 0, objects.parent - first, -1).tolist()  # type: ignore[no-any-return]


def keypoints(objects: Objects) -> list[list[Point] | None]:
    """For each object, its keypoints as x, y, confidence, in the order of its skeleton; None without any.

    A point that was not found is NaN. Rows that only fill the column up (people and hands: 17 and 21) are cut off.
    """
    column = objects.extra["keypoints"]
    there = ~np.isnan(column[..., 0])
    lengths = np.where(there.any(axis=1), column.shape[1] - np.argmax(there[:, ::-1], axis=1), 0).tolist()
    skeletons = objects.extra.get("skeleton", np.full(len(objects), None)).tolist()
    places = rounded(column[..., :2], steps=BOX_STEPS)
    sure = rounded(column[..., 2:], steps=CONFIDENCE_STEPS)
    return [
        [[*xy, *c] for xy, c in zip(own[:count], own_sure[:count], strict=True)] if length else None
        for own, own_sure, length, skeleton in zip(places, sure, lengths, skeletons, strict=True)
        for count in (length if skeleton is None else max(length, len(skeleton.points)),)
    ]


def corners(objects: Objects) -> list[list[Point] | None]:
    """For each object, the four corners of its oriented box; None without one."""
    return _rounded_rows(objects.extra["corners"], steps=BOX_STEPS)


def masks(batch: Batch) -> list[MaskRecord | None]:
    """For each object, its mask as COCO's compressed run lengths of the whole image; None without one."""
    objects = batch.objects
    sizes = [batch.frames[row].size_wh for row in objects.frame.tolist()]
    return [
        None if mask is None else {"size": [size_wh[1], size_wh[0]], "counts": encode_mask(mask, size_wh=size_wh)}
        for mask, size_wh in zip(objects.extra["mask"].tolist(), sizes, strict=True)
    ]


def _rounded_rows(column: npt.NDArray[np.floating[Any]], *, steps: float) -> list[Values | None]:
    """The rounded values of each object; None where one is NaN."""
    lacking = np.logical_or.reduce(np.isnan(column.reshape(len(column), -1)), axis=1)
    return [None if lacks else own for own, lacks in zip(rounded(column, steps=steps), lacking, strict=True)]


def details(batch: Batch, bounds: Sequence[int], *, with_embeddings: bool) -> dict[str, list[Any]]:
    """The optional values of the objects of a batch, by key; empty for plain boxes."""
    objects = batch.objects
    found: dict[str, list[Any]] = {}
    if objects.parent.max(initial=-1) >= 0:
        found["parent"] = parents(batch, bounds)
    if "keypoints" in objects.extra:
        found["keypoints"] = keypoints(objects)
    if "corners" in objects.extra:
        found["corners"] = corners(objects)
    if "mask" in objects.extra:
        found["mask"] = masks(batch)
    if with_embeddings and "embedding" in objects.extra:
        found["embedding"] = _rounded_rows(objects.extra["embedding"], steps=EMBEDDING_STEPS)
    if any(frame.views is not None for frame in batch.frames):
        found.update(_in_views(batch, bounds))
    return found


def _in_views(batch: Batch, bounds: Sequence[int]) -> dict[str, list[Any]]:
    """For each object, the name of the view that shows it, and where it is in the camera's image; None where that is
    not known, or not wanted.
    """
    count = len(batch.objects)
    found: dict[str, list[Any]] = {key: [None] * count for key in ("view", "source_box", "source_polygon")}
    for row, frame in enumerate(batch.frames):
        first, last = bounds[row : row + 2]
        if frame.views is None or first == last:
            continue
        xyxy = batch.objects.xyxy[first:last]
        names = (*frame.views.names, None)
        found["view"][first:last] = [names[number] for number in frame.views.of(xyxy).tolist()]
        if frame.views.written == "box":
            found["source_box"][first:last] = _rounded_rows(frame.views.source_boxes(xyxy), steps=BOX_STEPS)
        elif frame.views.written == "polygon":
            found["source_polygon"][first:last] = _rounded_rows(frame.views.source_polygons(xyxy), steps=BOX_STEPS)
    return {key: values for key, values in found.items() if values.count(None) < count}


def polygon_areas(column: npt.NDArray[np.floating[Any]]) -> npt.NDArray[np.float64]:
    """The areas (N,) of polygons (N, K, 2) by the shoelace formula."""
    x, y = np.moveaxis(column.astype(np.float64), -1, 0)
    crossed = x * np.roll(y, -1, axis=1) - np.roll(x, -1, axis=1) * y
    return np.abs(crossed.sum(axis=1)) / 2  # type: ignore[no-any-return]


Attribute = Scalar | tuple[str, ...]
Numbers = list[float | None]
"""Numbers as they are read, null for NaN."""

_EMPTY = ("", None, ())


class ObjectRecord(msgspec.Struct, omit_defaults=True, gc=False):
    """One object, in the order of its keys; default values are not written."""

    label: str
    class_id: int
    confidence: float | None
    box: Numbers
    track_id: int = -1
    attributes: dict[str, Attribute] | None = None
    parent: int = -1
    keypoints: list[Numbers] | None = None
    corners: list[Numbers] | None = None
    mask: MaskRecord | None = None
    embedding: list[float] | None = None
    view: str | None = None
    source_box: Numbers | None = None
    source_polygon: list[Numbers] | None = None


class FrameRecord(msgspec.Struct, omit_defaults=True):
    """One frame, in the order of its keys; default values are not written."""

    stream: str
    frame: int
    pts_ns: int = -1
    time: str | None = None
    time_source: str | None = None
    size: tuple[int, int] = (0, 0)
    objects: list[ObjectRecord] = []
    events: list[dict[str, Scalar]] = []


class TensorFrameRecord(FrameRecord, omit_defaults=True):
    """One frame with its tensors by step and output."""

    tensors: dict[str, Any] = {}


def object_records(objects: Objects, *, more: Mapping[str, Values] | None = None) -> list[ObjectRecord]:
    """A record of each object; `more` holds optional values by key (see `details`)."""
    columns: tuple[Sequence[Any], ...] = (
        objects.labels(),
        objects.class_id.tolist(),
        rounded(objects.confidence, steps=CONFIDENCE_STEPS),
        rounded(objects.xyxy, steps=BOX_STEPS),
        objects.track_id.tolist(),
    )
    if objects.attributes:
        columns = (*columns, attributes_of(objects))
    records = list(map(ObjectRecord, *columns))
    for name, values in more.items() if more else ():
        for record, value in zip(records, values, strict=True):
            setattr(record, name, value)
    return records


def frame_records(batch: Batch, *, embeddings: bool = False) -> list[FrameRecord]:
    """A record of each frame of a batch, with its objects and events."""
    bounds = frame_bounds(batch)
    found: list[ObjectRecord] = []
    if len(batch.objects):
        found = object_records(batch.objects, more=details(batch, bounds, with_embeddings=embeddings))
    records = [
        FrameRecord(
            frame.stream.name,
            frame.index,
            frame.pts_ns,
            None if frame.capture_ns is None else format_time(frame.capture_ns),
            None if frame.capture_ns is None else frame.time_source,
            frame.size_wh,
            found[bounds[row] : bounds[row + 1]],
        )
        for row, frame in enumerate(batch.frames)
    ]
    for event in batch.events:
        record = records[event.frame]
        record.events = [*record.events, event.to_json()]
    return records


def tensor_records(batch: Batch, records: Sequence[FrameRecord]) -> list[TensorFrameRecord]:
    """The records of the frames of a batch with their tensors: nested lists, numbers with three decimals."""
    wide = [TensorFrameRecord(*msgspec.structs.astuple(record)) for record in records]
    for tensor in batch.tensors:
        values = np.asarray(tensor.values)
        plain = rounded(values, steps=TENSOR_STEPS) if values.dtype.kind == "f" else values.tolist()
        wide[tensor.frame].tensors[f"{tensor.element}.{tensor.name}"] = plain
    return wide


def frame_bounds(batch: Batch) -> list[int]:
    """The first object row of each frame of a batch, and at the end the number of objects."""
    if len(batch) == 1:
        return [0, len(batch.objects)]
    return np.searchsorted(batch.objects.frame, np.arange(len(batch) + 1)).tolist()  # type: ignore[no-any-return]


def attributes_of(objects: Objects) -> list[dict[str, Attribute] | None]:
    """The attributes of each object by name, without those that are empty; None without any."""
    rows: list[dict[str, Attribute]] = [{} for _ in range(len(objects))]
    for name, column in objects.attributes.items():
        for row, value in zip(rows, _values(column), strict=True):
            if value == value and value not in _EMPTY:
                row[name] = value
    return [row or None for row in rows]


def _values(column: npt.NDArray[Any]) -> Values:
    """The values of an attribute as Python objects; a 32-bit float becomes the shortest decimal number for it."""
    if column.dtype.kind == "f" and column.dtype.itemsize < np.dtype(np.float64).itemsize:
        return column.astype(np.str_).astype(np.float64).tolist()  # type: ignore[no-any-return]
    return column.tolist()  # type: ignore[no-any-return]
