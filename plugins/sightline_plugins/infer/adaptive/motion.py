"""Motion in the images of one stream: which cells of a coarse grid have changed since the detector ran.

A cell is the mean of the pixels of the luma plane below it, as it was decoded; the grid has 120 to 240 cells along the
longer side. A cell has changed when it differs by more than noise from what it was at the last run, after the change
that most cells share (light that fades) is taken out: differencing of frames with an adaptive threshold, as in Rosin
and Ioannidis, "Evaluation of global image thresholding for change detection" (Pattern Recognition Letters 24, 2003).

Constants are in grey levels, cells and shares of the image. They were set from what they mean, not fitted to clips.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma
from sightline.media.boxes import Boxes
from sightline_plugins.flow.luma import HalvedLuma
from sightline_plugins.infer.adaptive.camera import CameraWatch
from sightline_plugins.native import DOUBLE, POINTER, SIZE, function, pointer

Mask = npt.NDArray[np.bool_]
Weights = npt.NDArray[np.float32]

_GRID = 240
"""Cells along the longer side are fewer than these, and not fewer than half of them."""
_LEAST_CHANGE = 5
"""A change of this many grey levels is seen in an image without noise."""
_NOISE = 6
"""Changes are more than so many times the median difference of two frames, which is the noise of most cells."""
_MOST = 0.5
"""Share of the cells that have changed when the scene is another one, or light was switched on."""
_BLOCK = 8
"""Side of a block in cells."""
_BLOCK_CHANGE = 4.0
"""Changed cells in a block that are more than a flicker."""
_RECOVERY_SECONDS = 60.0

_compare = function("compare_cells", *[SIZE] * 2, *[POINTER] * 3, DOUBLE, DOUBLE, *[POINTER] * 2, result=SIZE)


class MotionGrid:
    """The cells of one stream's images, all of one size. One thread uses it.

    `look` takes each image in order; `mark` says that the detector runs on the last one.
    """

    def __init__(self, size_wh: tuple[int, int]) -> None:
        self.size_wh = size_wh
        self._step = 1
        self._now: Luma = np.zeros((0, 0), np.uint8)
        self._at_run: Luma | None = None
        self._noise = np.zeros(1, np.float64)
        self._count = 0
        self._changed: Mask = np.zeros((0, 0), np.bool_)
        self._trust: Weights = np.zeros((0, 0), np.float32)
        self._camera = CameraWatch()

    @property
    def camera_moves(self) -> bool:
        """Whether the camera moves, or most of the image has changed since the detector ran."""
        return self._camera.moves or self._count > _MOST * self._changed.size

    def look(self, image: HalvedLuma, *, seconds: float) -> None:
        """Compare the image with that of the last run; `seconds` have passed since the image before."""
        cells, self._step = image.below(_GRID)
        self._camera.look(cells, seconds=seconds)
        if self._at_run is None:
            self._now = self._at_run = cells
            self._changed, self._count = np.zeros(cells.shape, np.bool_), 0
            self._trust = np.ones(_blocks(self._changed).shape, np.float32)
            return
        self._changed, self._count = compare_cells(cells, before=self._now, at_run=self._at_run, noise=self._noise)
        self._now = cells
        self._trust += (1 - self._trust) * np.float32(min(1.0, seconds / _RECOVERY_SECONDS))

    def mark(self) -> None:
        """Compare the next images with this one."""
        self._at_run = self._now

    def moving(self, xyxy: Boxes) -> bool:
        """Return whether something has changed inside one of the boxes (N, 4), in pixels."""
        bounds = self._cells_of(xyxy)
        return any(bool(self._changed[top:bottom, left:right].any()) for left, top, right, bottom in bounds)

    def unexplained(self, xyxy: Boxes) -> Mask:
        """Return the blocks (rows, columns) in which more has changed than a flicker, and not around the boxes (N, 4).

        Around a box is half of its size more on each side: shadows and reflections move with an object.
        """
        changed = self._changed.copy()
        for left, top, right, bottom in self._cells_of(_wider(xyxy)):
            changed[top:bottom, left:right] = False
        found: Mask = _blocks(changed) * self._trust >= _BLOCK_CHANGE
        return found

    def judge(self, blocks: Mask, xyxy: Boxes) -> None:
        """Trust those of `blocks` in which the detector found new objects, with boxes (N, 4), and the others (leaves in
        the wind, shadows) less.
        """
        objects = np.zeros(self._changed.shape, np.bool_)
        for left, top, right, bottom in self._cells_of(_wider(xyxy)):
            objects[top:bottom, left:right] = True
        is_object = _blocks(objects) > 0
        self._trust[blocks & ~is_object] *= 0.5
        self._trust[blocks & is_object] = 1

    def _cells_of(self, xyxy: Boxes) -> list[list[int]]:
        """Return left, top, right, bottom of each box in cells, at least one, clipped to the grid."""
        height, width = self._changed.shape
        bounds = np.empty(xyxy.shape, np.int64)
        bounds[:, :2] = np.floor(xyxy[:, :2] / self._step)
        bounds[:, 2:] = np.ceil(xyxy[:, 2:] / self._step)
        return np.clip(bounds, 0, [width, height, width, height]).tolist()  # type: ignore[no-any-return]


def compare_cells(cells: Luma, *, before: Luma, at_run: Luma, noise: npt.NDArray[np.float64]) -> tuple[Mask, int]:
    """Return which cells (h, w) have changed since the last run, after a change that they share, and how many.

    `before` are those of the image before, `noise` (1,) the grey levels by which a cell trembles, which is corrected.
    All are C-contiguous and of one size.
    """
    changed = np.empty(cells.shape, np.bool_)
    images = [pointer(one) for one in (cells, before, at_run)]
    count = _compare(*cells.shape, *images, _LEAST_CHANGE, _NOISE, pointer(noise), pointer(changed))
    return changed, int(count)


def _wider(xyxy: Boxes) -> Boxes:
    half = (xyxy[:, 2:] - xyxy[:, :2]) / 2
    return np.concatenate([xyxy[:, :2] - half, xyxy[:, 2:] + half], axis=1)


def _blocks(changed: Mask) -> npt.NDArray[np.uint8]:
    """Return how many cells of each block are set; blocks at the far edges may be smaller."""
    height, width = changed.shape
    rows = np.add.reduceat(changed.view(np.uint8), np.arange(0, height, _BLOCK), axis=0, dtype=np.uint8)
    return np.add.reduceat(rows, np.arange(0, width, _BLOCK), axis=1, dtype=np.uint8)
