"""Constant-velocity Kalman filter for boxes, in closed form; `kalman.c` computes.

The state of a filter is its box (centre, width and height) and the velocity of each of the four. They do not influence
each other; the two of the centre share their noise, and so do width and height. So two 2 x 2 covariances (position,
velocity) stand for all: six numbers a filter.

Noise is that of a continuous model (position diffuses, velocity diffuses; Bar-Shalom et al., "Estimation with
Applications to Tracking and Navigation", 6.2), so that one step of 100 ms is exactly three of 33.3 ms, and the filter
behaves the same at any frame rate. All noise is in units of a box's size, the square root of its area.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline_plugins.native import DOUBLE, POINTER, SIZE, function, pointer

Floats = npt.NDArray[np.float32]
FILTER = np.dtype([("mean", np.float32, (2, 4)), ("covariance", np.float32, (3, 2))])
"""`mean`: centre, width and height in pixels, and their velocity per second. `covariance`: variance of position,
covariance of position and velocity, variance of velocity; of the centre, and of width and height."""
Filters: TypeAlias = npt.NDArray[np.void]
"""(N,) of `FILTER`."""
MODEL_VALUES = 9
Pair = tuple[float, float]
"""A value for the centre, and one for width and height."""


@dataclass(frozen=True, slots=True)
class MotionModel:
    """Noise of the filter; lengths in box sizes (square root of the area), times in seconds."""

    measurement: Pair = (0.07, 0.025)
    """Standard deviation of a detection of confidence 1."""
    doubt: float = 5.0
    """A detection of confidence c has its variance multiplied by 1 + doubt * (1 - c): low-confidence boxes are often
    cut by what hides the object (the idea of StrongSORT's NSA Kalman filter, Du et al. 2022)."""
    position_diffusion: Pair = (0.002, 0.005)
    """Variance that position gains per second without any motion."""
    velocity_diffusion: Pair = (0.12, 0.005)
    """Variance that velocity gains per second."""
    initial_velocity: Pair = (1.75, 0.3)
    """Standard deviation of the unknown velocity of a new track, box sizes per second."""

    def __post_init__(self) -> None:
        values = (self.doubt, *self.position_diffusion, *self.velocity_diffusion, *self.initial_velocity)
        if min(self.measurement) <= 0 or min(values) < 0:
            raise ValueError(f"motion model: measurement must be above 0 and nothing below 0, got {self}")

    def values(self) -> ctypes.Array[ctypes.c_double]:
        """Return the values as `MotionModel` of `track.h` has them."""
        pairs = (self.measurement, self.position_diffusion, self.velocity_diffusion, self.initial_velocity)
        return (DOUBLE * MODEL_VALUES)(*(value for pair in pairs for value in pair), self.doubt)


_initiate_filters = function("initiate_filters", POINTER, SIZE, POINTER, POINTER, POINTER)
_predict_filters = function("predict_filters", POINTER, SIZE, POINTER, DOUBLE, POINTER)
_correct_filters = function("correct_filters", POINTER, SIZE, POINTER, POINTER, POINTER, POINTER)
_expect_boxes = function("expect_boxes", POINTER, SIZE, POINTER, POINTER)


def initiate(box: Floats, *, area: Floats, model: MotionModel) -> Filters:
    """Return filters (N,) that begin at these boxes (N, 4: centre, width, height) of these areas (N,), with velocity
    unknown.
    """
    filters = np.empty(len(box), FILTER)
    _initiate_filters(pointer(filters), len(box), _floats(box, len(box), 4), _floats(area, len(box)), model.values())
    return filters


def predict(filters: Filters, *, area: Floats, dt_seconds: float, model: MotionModel) -> None:
    """Move filters (N,) of boxes of these areas (N,) ahead in time, in place."""
    count = len(filters)
    _predict_filters(_contiguous(filters), count, _floats(area, count), dt_seconds, model.values())


def correct(filters: Filters, *, box: Floats, confidence: Floats, area: Floats, model: MotionModel) -> None:
    """Correct filters (N,), in place, by boxes (N, 4) that were seen with these confidences (N,) and have these areas
    (N,).
    """
    count = len(filters)
    seen, doubt, size = _floats(box, count, 4), _floats(confidence, count), _floats(area, count)
    _correct_filters(_contiguous(filters), count, seen, doubt, size, model.values())


def expected_boxes(filters: Filters) -> tuple[Floats, Floats]:
    """Return the corners (N, 4) of the boxes of filters (N,), and how sure they are: the intersection over union (N,)
    of each with itself, moved by one standard deviation of its centre.
    """
    xyxy, overlap = np.empty((len(filters), 4), np.float32), np.empty(len(filters), np.float32)
    _expect_boxes(_contiguous(filters), len(filters), pointer(xyxy), pointer(overlap))
    return xyxy, overlap


def _contiguous(filters: Filters) -> Any:
    if filters.dtype != FILTER or not filters.flags.c_contiguous:
        raise ValueError(f"filters must be a contiguous array of FILTER, not a view or {filters.dtype}")
    return pointer(filters)


def _floats(values: Floats, *shape: int) -> Any:
    """Return the pointer to float32 values of this shape."""
    if values.shape != shape:
        raise ValueError(f"filters: expected values of shape {shape}, not {values.shape}")
    return pointer(np.ascontiguousarray(values, np.float32))
