"""Optical flow of two images, and what boxes and grids have of it. Arrays in, arrays out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma
from sightline.media.boxes import Boxes
from sightline_plugins.flow.corners import CornerOptions, Points, find_corners, follow_corners
from sightline_plugins.opencv import cv2

Vectors = npt.NDArray[np.float32]
"""(..., 2): x, y in pixels of the source per second."""
_LEAST_SIDE = 16
"""What DIS needs."""
_SAMPLES = 8
"""Pixels across and along a box whose median is the object's motion."""
_LEAST_POINTS = 3
"""Points that an object's motion needs."""
_MOST_ERROR = 1.0
"""Pixels of the reduced image by which a point may miss where it came from."""
_QUALITY, _SPACING, _BLOCK = 0.01, 6, 5


@dataclass(frozen=True, slots=True)
class Scale:
    """From the reduced image to the source: pixels of it for one of the reduced image, across and along."""

    across: float
    along: float

    @property
    def xy(self) -> npt.NDArray[np.float32]:
        """Both, (2,)."""
        return np.array([self.across, self.along], np.float32)


class Motion(Protocol):
    """The flow between two frames, in the source's pixels and seconds."""

    @property
    def values(self) -> Vectors:
        """What is attached to the frame: `vectors` or `points`."""
        ...

    def of_boxes(self, xyxy: Boxes) -> Vectors:
        """Return the median velocity (N, 2) inside boxes (N, 4) in pixels of the source; NaN where nothing is known."""
        ...

    def starts(self) -> tuple[Vectors, Vectors]:
        """Return places (K, 2) in the source and the velocities (K, 2) there."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class DenseMotion:
    """A velocity for each pixel of the reduced image, `field` (h, w, 2), and the mean of each cell of a grid, `values`
    (rows, columns, 2).
    """

    field: Vectors
    values: Vectors
    scale: Scale

    def of_boxes(self, xyxy: Boxes) -> Vectors:
        """Return the medians of 64 pixels spread over each box; those outside the image do not count."""
        height, width = self.field.shape[:2]
        share = (np.arange(_SAMPLES, dtype=np.float32) + 0.5) / _SAMPLES
        x = (xyxy[:, :1] + (xyxy[:, 2:3] - xyxy[:, :1]) * share) / self.scale.across
        y = (xyxy[:, 1:2] + (xyxy[:, 3:] - xyxy[:, 1:2]) * share) / self.scale.along
        x, y = np.nan_to_num(x, nan=-1), np.nan_to_num(y, nan=-1)
        is_seen = ((y >= 0) & (y < height))[:, :, None] & ((x >= 0) & (x < width))[:, None, :]
        rows, columns = (np.clip(place, 0, side - 1).astype(np.intp) for place, side in ((y, height), (x, width)))
        found = self.field[rows[:, :, None], columns[:, None, :]]
        if is_seen.all():
            return np.asarray(np.median(found.reshape(len(xyxy), _SAMPLES**2, 2), axis=1), np.float32)
        medians = np.full((len(xyxy), 2), np.nan, np.float32)
        for number in np.flatnonzero(is_seen.any(axis=(1, 2))).tolist():
            medians[number] = np.median(found[number][is_seen[number]], axis=0)
        return medians

    def starts(self) -> tuple[Vectors, Vectors]:
        """Return the middles of the cells, and the velocities there."""
        rows, columns = self.values.shape[:2]
        height, width = self.field.shape[:2]
        x = (np.arange(columns, dtype=np.float32) + 0.5) * (width * self.scale.across / columns)
        y = (np.arange(rows, dtype=np.float32) + 0.5) * (height * self.scale.along / rows)
        return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2), self.values.reshape(-1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class SparseMotion:
    """Points that were followed: `values` (N, 4) are x, y in the source and the velocity."""

    values: Vectors

    def of_boxes(self, xyxy: Boxes) -> Vectors:
        """Return the medians of the points inside each box; NaN where there are fewer than three."""
        x, y = self.values[:, 0], self.values[:, 1]
        left, top, right, bottom = (edge[:, None] for edge in xyxy.T)
        inside = (x >= left) & (x < right) & (y >= top) & (y < bottom)
        medians = np.full((len(xyxy), 2), np.nan, np.float32)
        for number in np.flatnonzero(inside.sum(axis=1) >= _LEAST_POINTS).tolist():
            medians[number] = np.median(self.values[inside[number], 2:], axis=0)
        return medians

    def starts(self) -> tuple[Vectors, Vectors]:
        """Return where the points are, and their velocities."""
        return self.values[:, :2], self.values[:, 2:]


def reduced_size(size_wh: tuple[int, int], *, longest: int) -> tuple[int, int]:
    """Return the size at which flow is looked for: at most `longest`, and no side shorter than 16."""
    share = min(1.0, longest / max(size_wh))
    width, height = (max(_LEAST_SIDE, round(side * share)) for side in size_wh)
    return width, height


class DenseFlow:
    """Finds the flow of every pixel. It keeps buffers, but knows nothing of the images before."""

    def __init__(self, *, cell: int) -> None:
        self._cell = cell
        self._search = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)

    def find(self, before: Luma, now: Luma, *, size_wh: tuple[int, int], seconds: float) -> DenseMotion:
        """Return the flow from an image (h, w) to the one `seconds` later; `size_wh` is that of the source."""
        height, width = now.shape
        scale = Scale(size_wh[0] / width, size_wh[1] / height)
        # The search goes from the present image to the one before: the vectors then lie where things are now.
        field = np.asarray(self._search.calc(now, before, None), np.float32)
        field *= -scale.xy / np.float32(seconds)
        columns, rows = (
            min(side, max(1, round(whole / self._cell))) for side, whole in zip((width, height), size_wh, strict=True)
        )
        means = cv2.resize(field, (columns, rows), interpolation=cv2.INTER_AREA)
        return DenseMotion(field, np.asarray(means, np.float32), scale)


class SparseFlow:
    """Finds the flow of corners."""

    def __init__(self, *, most: int) -> None:
        self._options = CornerOptions(most, _QUALITY, _SPACING, _BLOCK)

    def find(self, before: Luma, now: Luma, *, size_wh: tuple[int, int], seconds: float) -> SparseMotion:
        """Return the flow from an image (h, w) to the one `seconds` later; `size_wh` is that of the source."""
        height, width = now.shape
        scale = Scale(size_wh[0] / width, size_wh[1] / height).xy
        start, there = follow_corners(before, now, find_corners(before, self._options), most_error=_MOST_ERROR)
        values: Points = np.concatenate([(there + 0.5) * scale - 0.5, (there - start) * scale / seconds], axis=1)
        return SparseMotion(values.astype(np.float32))
