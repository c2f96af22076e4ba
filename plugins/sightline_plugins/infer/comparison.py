"""Compare what two models make of the same frames: the objects that they find, and what they say of known objects."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects
from sightline.media.boxes import iou_matrix
from sightline_plugins.infer.structures import LEAST, Similarities, agree, similarities

_OVERLAP = 0.5
_NEWEST_FRAMES = 50
_Sums: TypeAlias = Mapping[str, tuple[int, float]]
"""Numbers of values and their sums, by measure."""
_FEWEST_FRAMES = 5
"""Fewer frames with objects are not judged."""


@dataclass(frozen=True, slots=True)
class FrameComparison:
    """How far two models agree on a frame: `agreeing` of `total` results, both counted on both sides (the F1 score).

    `matched` boxes lie on one another, `iou` is the sum of their overlaps, and `same_label` of them have the same
    label. `found` are the numbers of objects that the first and the second model have found. `similar` are the number
    and the sum of the similarities of masks, keypoints and vectors, by measure (`structures.py`).
    """

    agreeing: float
    total: int
    matched: int
    same_label: int
    iou: float
    found: tuple[int, int]
    similar: _Sums = field(default_factory=dict)


class Comparisons:
    """Adds up comparisons with another model, which is the first one. For one thread at a time."""

    def __init__(self) -> None:
        self.frames = 0
        self._newest: deque[tuple[float, int]] = deque(maxlen=_NEWEST_FRAMES)
        self._agreeing = self._iou = 0.0
        self._total = self._matched = self._same_label = 0
        self._found = (0, 0)
        self._similar: dict[str, tuple[int, float]] = {}

    def add(self, one: FrameComparison) -> None:
        """Add that of a frame."""
        self.frames += 1
        self._agreeing += one.agreeing
        self._total += one.total
        self._matched += one.matched
        self._same_label += one.same_label
        self._iou += one.iou
        self._found = (self._found[0] + one.found[0], self._found[1] + one.found[1])
        self._similar = _added(self._similar, one.similar)
        if one.total:
            self._newest.append((one.agreeing, one.total))

    @property
    def disagreement(self) -> float | None:
        """The share of the newest results that differ; None where too few frames hold any."""
        if len(self._newest) < _FEWEST_FRAMES:
            return None
        return 1 - sum(agreeing for agreeing, _ in self._newest) / sum(total for _, total in self._newest)

    def report(self) -> Mapping[str, Any]:
        """Return its part of the run report."""
        first, second = self._found
        found: dict[str, Any] = {"compared_frames": self.frames, "objects": second, "objects_beside": first}
        if self._total:
            found["disagreement"] = round(1 - self._agreeing / self._total, 4)
        if self._matched:
            found["mean_iou"] = round(self._iou / self._matched, 4)
            found["other_labels"] = self._matched - self._same_label
        return found | {f"mean_{name}": round(total / count, 4) for name, (count, total) in self._similar.items()}


def compare(first: Batch, second: Batch, *, element: str, searches: bool) -> list[FrameComparison]:
    """Compare what two models made of the same frames, frame by frame, by the objects of the step `element`.

    Boxes agree one to one when they overlap by at least a half, have the same label, and masks, keypoints and vectors
    that agree. Objects of other steps agree in each text, mask, vector and set of keypoints that either model has given
    them. With `searches` the step looks for objects in frames; one that either model has not searched is no evidence.
    """
    both = first, second = _without_shared(first, second), _without_shared(second, first)
    rows = [row for row in range(len(first)) if not searches or all(_is_searched(one, row, element) for one in both)]
    return [_of_frame(first.objects.of_frame(row), second.objects.of_frame(row), element) for row in rows]


def compare_objects(one: Objects, other: Objects) -> FrameComparison:
    """Compare the objects that two models found on a frame."""
    overlap = iou_matrix(one.xyxy, other.xyxy)
    same = np.equal.outer(np.array(one.labels(), np.str_), np.array(other.labels(), np.str_))
    pairs, alike = pairs_of(overlap), pairs_of(overlap * same)
    values = _similarities(one, other, alike)
    return FrameComparison(
        2.0 * int(agree(values, count=len(alike)).sum()),
        len(one) + len(other),
        len(pairs),
        sum(bool(same[pair]) for pair in pairs),
        float(sum(overlap[pair] for pair in pairs)),
        (len(one), len(other)),
        _summed(values),
    )


def _is_searched(batch: Batch, row: int, element: str) -> bool:
    searched = batch.columns.searched_by
    return bool(searched) and element in searched[row]


def _of_frame(first: Objects, second: Objects, element: str) -> FrameComparison:
    (one, known), (other, also_known) = (_parted(objects, element) for objects in (first, second))
    found = compare_objects(one, other)
    texts = _texts(known, also_known)
    values = similarities(known, also_known) if len(known) == len(also_known) else {}
    agreeing = sum(mine == others for mine, others in texts)
    agreeing += sum(int((own >= LEAST[name]).sum()) for name, own in values.items())
    similar = _summed(values)
    return replace(
        found,
        agreeing=found.agreeing + 2.0 * agreeing,
        total=found.total + 2 * (len(texts) + sum(count for count, _ in similar.values())),
        similar=_added(found.similar, similar),
    )


def _similarities(one: Objects, other: Objects, pairs: Sequence[tuple[int, int]]) -> dict[str, Similarities]:
    """Return how far masks, keypoints and vectors of pairs of objects agree, by measure."""
    if not pairs or not (one.extra or other.extra):
        return {}
    rows, columns = np.array(pairs, np.intp).T
    return similarities(one.select(rows), other.select(columns))


def _summed(values: Mapping[str, Similarities]) -> dict[str, tuple[int, float]]:
    """Return how many values there are of each measure, and their sum."""
    known = {name: own[~np.isnan(own)] for name, own in values.items()}
    return {name: (len(own), float(own.sum())) for name, own in known.items() if len(own)}


def _added(one: _Sums, other: _Sums) -> dict[str, tuple[int, float]]:
    pairs = {name: (one.get(name, (0, 0.0)), other.get(name, (0, 0.0))) for name in {**one, **other}}
    return {name: (mine[0] + others[0], mine[1] + others[1]) for name, (mine, others) in pairs.items()}


def _without_shared(batch: Batch, other: Batch) -> Batch:
    """Return a batch without those columns of its objects that both have from steps before."""
    own, others = batch.objects.extra, other.objects.extra
    made = {name: column for name, column in own.items() if others.get(name) is not column}
    return batch if len(made) == len(own) else batch.with_objects(replace(batch.objects, extra=made))


def _parted(objects: Objects, element: str) -> tuple[Objects, Objects]:
    """Return the objects of a step, and those of others."""
    origins = [number for number, origin in enumerate(objects.origins) if origin.element == element]
    own = np.isin(objects.origin, origins)
    return objects.select(own), objects.select(~own)


def pairs_of(overlap: npt.NDArray[np.floating[Any]]) -> list[tuple[int, int]]:
    """Return the rows of boxes that have a counterpart, the largest overlaps first."""
    left, pairs = overlap.copy(), list[tuple[int, int]]()
    while left.size and left.max() >= _OVERLAP:
        row, column = (int(at) for at in np.unravel_index(int(left.argmax()), left.shape))
        left[row], left[:, column] = 0, 0
        pairs.append((row, column))
    return pairs


def _texts(first: Objects, second: Objects) -> list[tuple[object, object]]:
    """Return the texts of the same objects in the same attributes, where either has one."""
    if len(first) != len(second):
        return []
    names = sorted(first.attributes.keys() | second.attributes.keys())
    columns = [[table.attributes.get(name, (None,) * len(table)) for table in (first, second)] for name in names]
    pairs = [(mine, others) for one, other in columns for mine, others in zip(one, other, strict=True)]
    return [pair for pair in pairs if any(isinstance(value, str | tuple) and value for value in pair)]
