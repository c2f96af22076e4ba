"""Map image points of one camera to the floor: a homography from pairs of points, checked in metres.

The homography is the least-squares solution of the normalised direct linear transform (R. Hartley and A. Zisserman,
"Multiple View Geometry in Computer Vision", 4.1 and 4.4.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEAST_POINTS = 4
_LEAST_WIDTH = 0.02
"""Points whose smaller extent is less than this share of the larger lie on a line."""
_LEAST_RANK = 1e-4
"""Below this ratio of singular values, several homographies fit the points."""


class FloorPlanError(ValueError):
    """The points of a camera determine no homography, or do not fit one; the message says which and how far off."""


@dataclass(frozen=True, slots=True, eq=False)
class FloorCamera:
    """The floor as one camera sees it.

    floor_from_image  (3, 3)  homography to metres, positive in front of the horizon
    error_m           root of the mean square distance of the points from where the homography puts them
    """

    floor_from_image: Floats
    error_m: float

    def to_floor(self, points: Floats) -> tuple[Floats, Floats]:
        """Return floor points (N, 2) in metres for image points (N, 2), and their derivatives (N, 2, 2).

        Both are NaN for points on or above the horizon.
        """
        h = self.floor_from_image
        projected = points @ h[:, :2].T + h[:, 2]
        depth = np.where(projected[:, 2] > 0, projected[:, 2], np.nan)[:, None]
        floor = projected[:, :2] / depth
        derivative = (h[:2, :2] - floor[:, :, None] * h[2, :2]) / depth[:, :, None]
        return floor, derivative

    def scaled(self, size_wh: tuple[int, int]) -> FloorCamera:
        """Return the same camera for points in pixels of frames of that size instead of fractions."""
        return FloorCamera(self.floor_from_image / np.array([*size_wh, 1.0]), self.error_m)


def fit_floor(pairs: Sequence[Sequence[float]], *, max_error_m: float) -> FloorCamera:
    """Return the camera for pairs [x, y, X, Y] of an image point and its floor point in metres.

    Raises FloorPlanError when the points lie on a line, contradict each other or are off by more than `max_error_m`.
    """
    table = np.asarray(pairs, np.float64)
    if len(table) < LEAST_POINTS:
        raise FloorPlanError(f"has {len(table)} points: at least {LEAST_POINTS} are needed")
    image, floor = table[:, :2], table[:, 2:]
    for points, where in ((image, "in the image"), (floor, "on the floor")):
        width = np.linalg.svd(points - points.mean(axis=0), compute_uv=False)
        if width[1] <= _LEAST_WIDTH * width[0]:
            raise FloorPlanError(f"all points lie on one line {where}: add points beside it")
    homography, is_determined = _solve(image, floor)
    if not is_determined:
        raise FloorPlanError("several mappings fit, because all but one of the points lie on one line: add points")
    depth = image @ homography[2, :2] + homography[2, 2]
    if not ((depth > 0).all() or (depth < 0).all()):
        raise FloorPlanError("the points contradict each other, as if two of them were exchanged: check their order")
    camera = FloorCamera(homography * np.sign(depth[0]), 0.0)
    off = np.linalg.norm(camera.to_floor(image)[0] - floor, axis=1)
    if off.max() > max_error_m:
        number, distance = _culprit(image, floor, off)
        x, y, floor_x, floor_y = (f"{value:g}" for value in table[number])
        raise FloorPlanError(
            f"does not fit: point {number + 1} ([{x}, {y}, {floor_x}, {floor_y}]) is {distance:.2f} m from where the "
            f"others put it; at most {max_error_m:g} m are allowed (max_error)"
        )
    return FloorCamera(camera.floor_from_image, float(np.sqrt(np.mean(off**2))))


def _solve(image: Floats, floor: Floats) -> tuple[Floats, bool]:
    """Return the homography (3, 3), and whether the points determine it."""
    from_image, from_floor = _normalization(image), _normalization(floor)
    u, v = (image @ from_image[:2, :2].T + from_image[:2, 2]).T
    x, y = (floor @ from_floor[:2, :2].T + from_floor[:2, 2]).T
    zero, one = np.zeros_like(u), np.ones_like(u)
    equations = np.concatenate(
        [
            np.stack([u, v, one, zero, zero, zero, -x * u, -x * v, -x], axis=1),
            np.stack([zero, zero, zero, u, v, one, -y * u, -y * v, -y], axis=1),
        ]
    )
    if len(equations) > len(equations.T):
        equations = np.linalg.qr(equations).R
    _, sizes, rows = np.linalg.svd(equations)
    homography = np.linalg.inv(from_floor) @ rows[-1].reshape(3, 3) @ from_image
    return homography / np.linalg.norm(homography), bool(sizes[7] > _LEAST_RANK * sizes[0])


def _normalization(points: Floats) -> Floats:
    """Return the similarity (3, 3) that moves points to a mean of 0 and a mean distance of the root of 2."""
    center = points.mean(axis=0)
    scale = np.sqrt(2) / np.linalg.norm(points - center, axis=1).mean()
    return np.array([[scale, 0, -scale * center[0]], [0, scale, -scale * center[1]], [0, 0, 1]])


def _culprit(image: Floats, floor: Floats, off: Floats) -> tuple[int, float]:
    """Return the point that fits the others least, and its distance in metres.

    That is the point without which the others fit best. With fewer than six points any four of them fit, and it is the
    one with the largest distance.
    """
    if len(image) < LEAST_POINTS + 2:
        return int(off.argmax()), float(off.max())
    rest, distance = np.full(len(image), np.inf), np.zeros(len(image))
    for number in range(len(image)):
        others = np.arange(len(image)) != number
        homography, is_determined = _solve(image[others], floor[others])
        if is_determined:
            projected = image @ homography[:, :2].T + homography[:, 2]
            own = np.linalg.norm(projected[:, :2] / projected[:, 2:] - floor, axis=1)
            rest[number], distance[number] = np.sqrt(np.mean(own[others] ** 2)), own[number]
    number = int(rest.argmin())
    return number, float(max(distance[number], off[number]))
