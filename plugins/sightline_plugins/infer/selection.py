"""Which candidates become objects: above their limits, not suppressed, in the frame, of a wanted class."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes, clip
from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer.postprocessing import DetectionRules
from sightline_plugins.native import DOUBLE, FLOAT, POINTER, SIZE, function, pointer
from sightline_plugins.nms.cpu import suppress_by_method
from sightline_plugins.nms.options import MAX_CANDIDATES, NmsOptions
from sightline_plugins.preprocess.placement import Placement

_INT64 = ctypes.c_int64
_INT32 = ctypes.c_int32
_SCRATCH = 7
"""Numbers of 64 bits that the selection needs for each candidate."""


class _BoxRules(ctypes.Structure):
    """`BoxRules` of native.c."""

    _fields_: ClassVar = [
        ("iou", DOUBLE),
        ("most", _INT64),
        ("most_candidates", _INT64),
        ("classes", _INT64),
        ("limits", POINTER),
        ("wanted", POINTER),
        ("scale", FLOAT * 2),
        ("shift", FLOAT * 2),
        ("size", FLOAT * 2),
        ("class_agnostic", _INT32),
        ("invalid", _INT32),
    ]


_select_boxes = function(
    "select_boxes", POINTER, POINTER, POINTER, POINTER, SIZE, POINTER, POINTER, POINTER, result=SIZE
)
_place_boxes = function("place_boxes", POINTER, POINTER, POINTER, POINTER, SIZE, POINTER, POINTER, result=SIZE)


class BoxSelector:
    """Selects candidates of one target after the other, by the same rules; for one thread at a time."""

    def __init__(self, rules: DetectionRules) -> None:
        self._rules = rules
        self._limits = rules.limits if (rules.limits > np.float32(rules.confidence)).any() else None
        nms = rules.nms
        self._is_greedy = nms.method in ("hard", "none") and not rules.moves_inside
        self._wanted = None if rules.wanted is None else rules.wanted.astype(np.uint8)
        self._own = _BoxRules(
            iou=1 if nms.method == "none" else nms.iou,
            most=nms.max_detections,
            most_candidates=MAX_CANDIDATES,
            classes=len(rules.limits) - 1,
            limits=None if self._limits is None else self._limits.ctypes.data,
            wanted=None if self._wanted is None else self._wanted.ctypes.data,
            class_agnostic=nms.class_agnostic,
        )
        self._at = ctypes.addressof(self._own)
        self._placed: tuple[Placement, tuple[int, int]] | None = None

    def select(self, found: Candidates, placement: Placement, *, size_wh: tuple[int, int]) -> tuple[Candidates, int]:
        """Return the candidates that stay, in pixels of a frame of `size_wh`, and how many were not finite.

        `placement` says where the network's input lies in the frame. Boxes are clipped to the frame, or moved into it.
        """
        if self._is_greedy and found.corners is None and placement.turned is None:
            return self._select_upright(found, placement, size_wh)
        finite = found.finite()
        kept = suppressed(self._above_limits(finite), self._rules.nms, min_confidence=self._rules.confidence)
        if self._rules.nms.method == "soft":
            kept = self._above_limits(kept)
        return self.place(kept, placement, size_wh=size_wh), len(found) - len(finite)

    def place(self, kept: Candidates, placement: Placement, *, size_wh: tuple[int, int]) -> Candidates:
        """Return suppressed candidates in pixels of a frame, without unwanted classes and boxes outside of it."""
        wanted = self._rules.wanted
        if _is_plain(kept) and kept.corners is None and placement.turned is None and not self._rules.moves_inside:
            return self._place_upright(kept, placement, size_wh)
        if self._rules.moves_inside:
            found = replace(placed(kept, placement), xyxy=moved_inside(placement.boxes_in_image(kept.xyxy)))
            stays = visible(found) & (found.xyxy[:, 3] <= size_wh[1])
        else:
            found = in_frame(kept, placement, size_wh=size_wh)
            stays = visible(found)
        if wanted is not None:
            stays &= wanted[np.clip(found.class_id, -1, len(wanted) - 1)]
        return found if stays.all() else found.select(stays)

    def _select_upright(
        self, found: Candidates, placement: Placement, size_wh: tuple[int, int]
    ) -> tuple[Candidates, int]:
        own, is_plain = self._own, _is_plain(found)
        known = found if is_plain else found.finite()
        self._be_in(placement, size_wh)
        count = len(known)
        rows = np.empty(count, np.int64)
        chosen = np.empty(6 * count, np.float32)
        kept = _select_boxes(
            self._at,
            pointer(np.ascontiguousarray(known.xyxy)),
            pointer(np.ascontiguousarray(known.confidence)),
            pointer(np.ascontiguousarray(known.class_id)),
            count,
            pointer(rows),
            pointer(chosen),
            pointer(np.empty(_SCRATCH * count)),
        )
        invalid, placed = own.invalid + len(found) - count, _columns(chosen, kept)
        if is_plain:
            return placed, invalid
        chosen_rows = known.select(rows[:kept])
        points = None if chosen_rows.points is None else _points_in_frame(chosen_rows.points, placement)
        return replace(chosen_rows, xyxy=placed.xyxy, points=points), invalid

    def _place_upright(self, kept: Candidates, placement: Placement, size_wh: tuple[int, int]) -> Candidates:
        self._be_in(placement, size_wh)
        count = len(kept)
        chosen = np.empty(6 * count, np.float32)
        stays = _place_boxes(
            self._at,
            pointer(np.ascontiguousarray(kept.xyxy)),
            pointer(np.ascontiguousarray(kept.confidence)),
            pointer(np.ascontiguousarray(kept.class_id)),
            count,
            pointer(np.empty(count, np.int64)),
            pointer(chosen),
        )
        return _columns(chosen, stays)

    def _be_in(self, placement: Placement, size_wh: tuple[int, int]) -> None:
        """Let C place boxes of this input in frames of this size."""
        if self._placed is None or self._placed[0] is not placement or self._placed[1] != size_wh:
            own, self._placed = self._own, (placement, size_wh)
            (own.scale[0], _, own.shift[0]), (_, own.scale[1], own.shift[1]) = placement.image_from_network
            own.size[0], own.size[1] = size_wh

    def _above_limits(self, found: Candidates) -> Candidates:
        limits = self._limits
        if limits is None:
            return found
        return found.select(found.confidence >= limits[np.clip(found.class_id, -1, len(limits) - 1)])


def _is_plain(found: Candidates) -> bool:
    """Whether rows are a box, a confidence and a class, whatever their corners."""
    return found.points is None and found.masks is None and found.shapes is None


def _columns(chosen: npt.NDArray[np.float32], count: int) -> Candidates:
    """Return what C has written for so many candidates."""
    class_id = chosen[5 * count : 6 * count].view(np.int32)
    return Candidates(chosen[: 4 * count].reshape(-1, 4), chosen[4 * count : 5 * count], class_id)


def suppressed(found: Candidates, options: NmsOptions, *, min_confidence: float = 0.0) -> Candidates:
    """Return the candidates left by NMS by the method of `options`; a fused one is its best row, moved."""
    kept = suppress_by_method(
        found.xyxy, found.confidence, found.class_id, options=options, corners=found.corners, least=min_confidence
    )
    chosen = found.select(kept.rows)
    if kept.confidence is not None:
        return replace(chosen, confidence=kept.confidence)
    if kept.xyxy is not None:
        return replace(chosen, xyxy=kept.xyxy, corners=kept.corners)
    return chosen


def in_frame(found: Candidates, placement: Placement, *, size_wh: tuple[int, int]) -> Candidates:
    """Convert candidates from pixels of the network's input to frame pixels, with boxes clipped to the frame."""
    return replace(placed(found, placement), xyxy=clip(placement.boxes_in_image(found.xyxy), size_wh=size_wh))


def moved_inside(xyxy: Boxes) -> Boxes:
    """Return boxes (N, 4) in pixels of a frame as DeepStream has them: one that begins left of the frame or above it is
    moved to its edge, with the size that it had (`attach_metadata_detector` of `gstnvinfer_meta_utils.cpp`).
    """
    moved: Boxes = xyxy + np.tile(np.maximum(-xyxy[:, :2], np.float32(0)), (1, 2))
    return moved


def placed(found: Candidates, placement: Placement) -> Candidates:
    """Return candidates with points and corners in pixels of the frame, and boxes as they were."""
    points, corners = found.points, found.corners
    return replace(
        found,
        points=None if points is None else _points_in_frame(points, placement),
        corners=None if corners is None else placement.points_in_image(corners),
    )


def visible(found: Candidates) -> npt.NDArray[np.bool_]:
    """Return which boxes (N,) have an area."""
    left, top, right, bottom = found.xyxy.T
    has_area: npt.NDArray[np.bool_] = (right > left) & (bottom > top)
    return has_area


def _points_in_frame(points: npt.NDArray[np.float32], placement: Placement) -> npt.NDArray[np.float32]:
    return np.concatenate([placement.points_in_image(points[..., :2]), points[..., 2:]], axis=-1)
