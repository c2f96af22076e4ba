"""Recorded detections as columns, found by number of frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import Objects, Origin
from sightline.media.events import Scalar

LARGEST_CLASS = 65_535


@dataclass(slots=True)
class RecordedObject:
    """One line of a recording, `frame` counted from 0 and `xyxy` in pixels; checked when it is made.

    Raises ValueError that says what is wrong and what is allowed.
    """

    frame: int
    xyxy: tuple[float, float, float, float]
    label: str
    confidence: float = 1.0
    class_id: int | None = None
    track_id: int = -1
    attributes: dict[str, Scalar] | None = None

    def __post_init__(self) -> None:
        left, top, right, bottom = self.xyxy
        if self.frame < 0:
            raise ValueError(f"there is no frame {self.frame}: the first is 0 (1 in MOT text)")
        if not np.isfinite((*self.xyxy, self.confidence)).all():
            raise ValueError("a number is infinite or not a number")
        if right < left or bottom < top:
            raise ValueError(f"the box [{left:g}, {top:g}, {right:g}, {bottom:g}] has a negative width or height")
        if self.class_id is not None and not 0 <= self.class_id <= LARGEST_CLASS:
            raise ValueError(f"class_id is {self.class_id}: it must be from 0 to {LARGEST_CLASS}")


@dataclass(slots=True)
class _Vocabularies:
    """Labels by class number; where two labels claim a number, one of them goes to another list."""

    lists: list[dict[int, str]] = field(default_factory=lambda: [{}])

    def place(self, label: str, class_id: int | None) -> tuple[int, int]:
        """The list and the number of a label in it; without a number given, the next one is taken."""
        if class_id is None:
            known = self.lists[0]
            class_id = next((number for number, other in known.items() if other == label), len(known))
        for index, known in enumerate(self.lists):
            if known.setdefault(class_id, label) == label:
                return index, class_id
        self.lists.append({class_id: label})
        return len(self.lists) - 1, class_id

    def labels(self) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(known.get(number, str(number)) for number in range(max(known, default=-1) + 1))
            for known in self.lists
        )


class Recording:
    """The detections of one stream, in the order of their frames."""

    def __init__(self, found: Sequence[RecordedObject], *, element: str) -> None:
        ordered = sorted(found, key=lambda item: item.frame)
        vocabularies = _Vocabularies()
        places = [vocabularies.place(item.label, item.class_id) for item in ordered]
        count = len(ordered)
        self._table = Objects(
            frame=np.array([item.frame for item in ordered], np.int32),
            xyxy=np.array([item.xyxy for item in ordered], np.float32).reshape(count, 4),
            confidence=np.array([item.confidence for item in ordered], np.float32),
            class_id=np.array([class_id for _, class_id in places], np.int32),
            track_id=np.array([item.track_id for item in ordered], np.int64),
            parent=np.full(count, -1, np.int32),
            origin=np.array([origin for origin, _ in places], np.int16),
            origins=tuple(Origin(element, labels) for labels in vocabularies.labels()),
            extra=_attribute_columns(ordered),
        )

    def __len__(self) -> int:
        return len(self._table)

    def of_frames(self, rows: Sequence[int], indices: Sequence[int]) -> Objects:
        """The objects of the frames with these indices, as those of the `rows` of a batch."""
        bounds = np.searchsorted(self._table.frame, [[index, index + 1] for index in indices])
        counts = bounds[:, 1] - bounds[:, 0]
        if not counts.any():
            return Objects.empty()
        found = np.concatenate([np.arange(first, last) for first, last in bounds.tolist()])
        frame = np.repeat(np.array(rows, np.int32), counts)
        return self._table.select(found).with_columns(frame=frame)


def _attribute_columns(found: Sequence[RecordedObject]) -> dict[str, npt.NDArray[Any]]:
    names = dict.fromkeys(name for item in found for name in item.attributes or ())
    return {name: _column([(item.attributes or {}).get(name) for item in found]) for name in names}


def _column(values: Sequence[Scalar | None]) -> npt.NDArray[Any]:
    """Values of one attribute; those lacking are NaN among numbers and empty among texts."""
    known = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in known) and len(known) == len(values):
        return np.array(values, np.bool_)
    if all(isinstance(value, int) and not isinstance(value, bool) for value in known) and len(known) == len(values):
        return np.array(values, np.int64)
    if any(isinstance(value, str) for value in known):
        return np.array(["" if value is None else str(value) for value in values], np.str_)
    return np.array([np.nan if value is None else float(value) for value in values], np.float64)
