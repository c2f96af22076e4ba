"""`Detections` and `KeyPoints` of supervision (https://supervision.roboflow.com) from frames, and objects from them.

Its annotators, zones, metrics and datasets take what `to_supervision` gives; what its trackers and slicers return, or
any model that has a connector there, becomes objects with `from_supervision`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError, MissingExtra
from sightline.media import FrameView, Mask, Objects, Origin
from sightline.media.objects import STRUCTURES
from sightline_plugins.interop.classes import common_classes

if TYPE_CHECKING:
    import supervision as sv

_CLASS_NAME = "class_name"
_CORNERS = "xyxyxyxy"
_MOST_NUMBERS = 10_000
"""Class numbers up to here are kept; names of larger ones are numbered anew."""


def _package(purpose: str) -> Any:
    try:
        import supervision
    except ImportError as error:
        raise MissingExtra("supervision", extra="supervision", purpose=purpose) from error
    return supervision


def to_supervision(frame: FrameView, *, objects: Objects | None = None) -> sv.Detections:
    """Return the objects of a frame, or a selection of them, as `supervision.Detections`.

    `xyxy` float32 (N, 4) in pixels, `confidence`, `class_id`, `tracker_id` (None when no object has a track, -1 for
    those without one), `mask` bool (N, height, width) where a step made masks. `data` has `class_name`, the corners of
    oriented boxes as `xyxyxyxy` (N, 4, 2), every attribute by its name, and `embedding`. `metadata` has `stream`,
    `frame` and `pts_ns`. Arrays are shared with the frame: copy before you write to them.

    Raises MissingExtra without the package.

    >>> from sightline import Pipeline
    >>> from sightline_plugins.interop import to_supervision
    >>> steps = [{"replay": {"path": "sample_videos/gate.mot.txt", "label": "car"}}]
    >>> for frame in Pipeline(sources={"gate": "sample_videos/gate.mp4"}, steps=steps):
    ...     print(to_supervision(frame).data["class_name"])
    ...     break
    """
    package = _package("`to_supervision`")
    table = frame.objects if objects is None else objects
    numbers, names = common_classes(table)
    data: dict[str, Any] = {_CLASS_NAME: np.array([names[number] for number in numbers.tolist()], np.str_)}
    if "corners" in table.extra:
        data[_CORNERS] = _boxes_where_missing(table)
    data |= table.attributes
    if "embedding" in table.extra:
        data["embedding"] = table.extra["embedding"]
    return package.Detections(
        xyxy=table.xyxy,
        mask=_whole_masks(table, size_wh=frame.size_wh),
        confidence=table.confidence,
        class_id=numbers,
        tracker_id=table.track_id if (table.track_id >= 0).any() else None,
        data=data,
        metadata={"stream": frame.stream.name, "frame": frame.index, "pts_ns": frame.pts_ns},
    )


def to_supervision_keypoints(frame: FrameView, *, objects: Objects | None = None) -> sv.KeyPoints:
    """Return the keypoints of the objects of a frame that have any, as `supervision.KeyPoints`.

    `xy` float32 (N, K, 2) in pixels, 0 where a point was not found, as that package has it; `visible` tells these
    apart. `data` has `class_name`. Raises MissingExtra without the package.
    """
    package = _package("`to_supervision_keypoints`")
    table = frame.objects if objects is None else objects
    points = table.extra.get("keypoints", np.empty((len(table), 0, 3), np.float32))
    there = ~np.isnan(points[..., 0])
    rows = np.flatnonzero(there.any(axis=1))
    numbers, names = common_classes(table)
    filled = np.nan_to_num(points[rows], nan=0.0)
    return package.KeyPoints(
        xy=filled[..., :2],
        class_id=numbers[rows],
        keypoint_confidence=filled[..., 2],
        detection_confidence=table.confidence[rows],
        visible=there[rows],
        data={_CLASS_NAME: np.array([names[number] for number in numbers[rows].tolist()], np.str_)},
    )


def from_supervision(
    detections: sv.Detections, *, frame: int = 0, labels: Sequence[str] = (), element: str = "supervision"
) -> Objects:
    """Return `supervision.Detections` as objects of the frame in row `frame` of a batch.

    Labels are those in `data["class_name"]`, else `labels` by class number, else the numbers. Names whose numbers are
    missing, ambiguous or above 10,000 are numbered in the order of their first appearance. Other values of `data` with
    a row for each object come as they are: one-dimensional ones are attributes. `element` names where they come from.

    Arrays whose type fits are shared. Raises ConfigurationError for boxes that are not finite or have negative sizes,
    and for names of other columns of objects.
    """
    xyxy = np.asarray(detections.xyxy, np.float32).reshape(-1, 4)
    count = len(xyxy)
    if not np.isfinite(xyxy).all() or (xyxy[:, 2:] < xyxy[:, :2]).any():
        raise ConfigurationError("the boxes of the detections must be finite and x1 <= x2, y1 <= y2, in pixels")
    numbers, known = _labelled(detections, labels=labels, count=count)
    return Objects.from_columns(
        frame=np.full(count, frame, np.int32),
        xyxy=xyxy,
        confidence=np.ones(count) if detections.confidence is None else detections.confidence,
        class_id=numbers,
        track_id=detections.tracker_id,
        source=Origin(element, known),
        extra=_extra(detections, count=count),
    )


def _boxes_where_missing(table: Objects) -> npt.NDArray[np.float32]:
    """The corners (N, 4, 2) of oriented boxes; those of the box where an object has none."""
    upright = table.xyxy[:, [0, 1, 2, 1, 2, 3, 0, 3]].reshape(-1, 4, 2)
    corners: npt.NDArray[np.float32] = np.where(np.isnan(table.extra["corners"]), upright, table.extra["corners"])
    return corners


def _whole_masks(table: Objects, *, size_wh: tuple[int, int]) -> npt.NDArray[np.bool_] | None:
    masks = table.extra.get("mask")
    if masks is None:
        return None
    width, height = size_wh
    whole = np.zeros((len(table), height, width), np.bool_)
    for row, mask in enumerate(masks.tolist()):
        if mask is not None:
            whole[row] = mask.in_image(size_wh)
    return whole


def _labelled(detections: sv.Detections, *, labels: Sequence[str], count: int) -> tuple[Any, tuple[str, ...]]:
    """The class numbers (N,) and the names of all numbers up to the largest one."""
    given = detections.data.get(_CLASS_NAME)
    class_id = None if detections.class_id is None else np.asarray(detections.class_id, np.int64)
    if given is None:
        return (np.zeros(count, np.int32) if class_id is None else class_id), tuple(labels)
    names = [str(name) for name in given]
    pairs = set() if class_id is None else set(zip(class_id.tolist(), names, strict=True))
    by_number = dict(pairs)
    if class_id is not None and len(by_number) == len(pairs) and all(0 <= one < _MOST_NUMBERS for one in by_number):
        last = max(by_number, default=-1)
        return class_id, tuple(by_number.get(number, str(number)) for number in range(last + 1))
    order = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([order[name] for name in names], np.int32), tuple(order)


def _extra(detections: sv.Detections, *, count: int) -> dict[str, npt.NDArray[Any]]:
    extra: dict[str, npt.NDArray[Any]] = {}
    for name, values in detections.data.items():
        if name == _CLASS_NAME:
            continue
        if name in STRUCTURES - {"embedding"}:
            raise ConfigurationError(f"data[{name!r}] of the detections: objects have a column of that name, rename it")
        if name == _CORNERS:
            extra["corners"] = np.asarray(values, np.float32).reshape(count, 4, 2)
        elif isinstance(values, np.ndarray):
            extra[name] = values
        else:
            extra[name] = np.array([*values, None], object)[:-1]
    if detections.mask is not None:
        extra["mask"] = np.array([*(_cut(np.asarray(mask, np.bool_)) for mask in detections.mask), None], object)[:-1]
    return extra


def _cut(whole: npt.NDArray[np.bool_]) -> Mask:
    """The mask of an image (height, width), cut to the pixels that it covers."""
    rows, columns = np.flatnonzero(whole.any(axis=1)), np.flatnonzero(whole.any(axis=0))
    if not len(rows):
        return Mask(0, 0, np.zeros((0, 0), np.bool_))
    top, left = int(rows[0]), int(columns[0])
    return Mask(left, top, whole[top : int(rows[-1]) + 1, left : int(columns[-1]) + 1].copy())
