"""What recorded objects have beyond a box, as columns of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media.shapes import usual_skeleton
from sightline_plugins.infer.recorded.item import RecordedObject
from sightline_plugins.sinks.records import Attribute

Column = npt.NDArray[Any]


def parent_rows(found: Sequence[RecordedObject]) -> npt.NDArray[np.int32]:
    """The row of each object's parent, -1 where it has none or the parent is not among them."""
    rows = {id(item): row for row, item in enumerate(found)}
    return np.array([rows.get(id(item.parent), -1) for item in found], np.int32)


def extra_columns(found: Sequence[RecordedObject]) -> dict[str, Column]:
    """The columns of all attributes and structures that any of the objects has."""
    names = dict.fromkeys(name for item in found for name in item.attributes or ())
    columns = {name: _attribute_column([(item.attributes or {}).get(name) for item in found]) for name in names}
    points = [item.keypoints for item in found]
    if any(own is not None for own in points):
        columns["keypoints"] = _stacked(points)
        columns["skeleton"] = _objects([None if own is None else usual_skeleton(len(own)) for own in points])
    for name in ("corners", "embedding"):
        values = [getattr(item, name) for item in found]
        if any(own is not None for own in values):
            columns[name] = _stacked(values)
    if any(item.mask is not None for item in found):
        columns["mask"] = _objects([item.mask for item in found])
    return columns


def _stacked(values: Sequence[npt.NDArray[np.float32] | None]) -> Column:
    """Arrays as rows of one as wide as the widest, with NaN where there is nothing."""
    widest = max((own.shape for own in values if own is not None), default=(0,))
    column = np.full((len(values), *widest), np.nan, np.float32)
    for row, own in zip(column, values, strict=True):
        if own is not None:
            row[: len(own)] = own
    return column


def _objects(values: Sequence[object]) -> Column:
    column = np.empty(len(values), np.object_)
    column[:] = values
    return column


def _attribute_column(values: Sequence[Attribute | None]) -> Column:
    """Values of one attribute; those lacking are NaN among numbers, empty among texts and None among lists."""
    known = [value for value in values if value is not None]
    if any(isinstance(value, tuple) for value in known):
        return _objects(values)
    if all(isinstance(value, bool) for value in known) and len(known) == len(values):
        return np.array(values, np.bool_)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in known) and len(known) == len(values):
        return np.array(values, np.int64)
    if any(isinstance(value, str) for value in known):
        return np.array(["" if value is None else str(value) for value in values], np.str_)
    return np.array([np.nan if value is None else float(value) for value in values], np.float64)  # type: ignore[arg-type]
