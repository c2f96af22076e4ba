"""Lenses: in which pixel of the image a camera shows what lies in a direction.

Directions are rays (N, 3) in the axes of the camera: x to the right of the image, y down, z along the optical axis.
Pixels are (x, y) with the image's left top corner at (0, 0), as in boxes: the centre of the first pixel is (0.5, 0.5).

The models, with the angle theta between a ray and the optical axis and the radius r in the image:

    equidistant     r = f theta: most fisheye cameras
    equisolid       r = 2 f sin(theta / 2)
    kannala_brandt  r = f (theta + k1 theta^3 + k2 theta^5 + k3 theta^7 + k4 theta^9): Kannala and Brandt, "A Generic
                    Camera Model and Calibration Method", PAMI 2006; OpenCV's `cv2.fisheye`
    brown_conrady   the radial and tangential distortion of ordinary lenses, with 4, 5 or 8 coefficients: Brown,
                    "Decentering Distortion of Lenses", 1966; OpenCV's `cv2.calibrateCamera`
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sightline.graph.described import Described

Floats = npt.NDArray[np.float64]
Number = Annotated[float, Field(allow_inf_nan=False)]
Row = tuple[Number, Number, Number]
Side = Annotated[int, Field(gt=0, le=65536)]
_CALIBRATED = ("kannala_brandt", "brown_conrady")
_ROUND = ("equidistant", "equisolid")
_COEFFICIENTS = {"kannala_brandt": (4,), "brown_conrady": (4, 5, 8)}
_WIDEST_SLOPE = math.tan(math.radians(88))
_SAMPLES = 4096


class Lens(Described):
    """The lens of a camera. A fisheye lens is known by its angle of view and the circle of its image; a calibrated one
    by what OpenCV's calibration returns.
    """

    model: Literal["equidistant", "equisolid", "kannala_brandt", "brown_conrady"] = "equidistant"
    """How directions become pixels: `equidistant` (most fisheye lenses), `equisolid`, `kannala_brandt` (a calibrated
    fisheye lens) or `brown_conrady` (a calibrated ordinary lens)."""
    fov: Annotated[float, Field(gt=0, le=360)] | None = None
    """Angle in degrees that the image circle spans, 180 when not given; of a calibrated lens, as far as it is used."""
    center: tuple[Number, Number] | None = None
    """The centre of the image circle, in fractions of the image (or in pixels, with `size`); the middle when not
    given."""
    radius: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The radius of the image circle in fractions of the image's height (or in pixels, with `size`); half of the
    shorter side when not given."""
    camera_matrix: tuple[Row, Row, Row] | None = None
    """Of a calibrated lens: [[fx, 0, cx], [0, fy, cy], [0, 0, 1]], as OpenCV returns it."""
    distortion: tuple[Number, ...] | None = None
    """Of a calibrated lens, its coefficients as OpenCV returns them: [k1, k2, k3, k4] of `kannala_brandt`,
    [k1, k2, p1, p2], also with k3, or with k3 to k6, of `brown_conrady`."""
    size: tuple[Side, Side] | None = None
    """Width and height in pixels of the image that `center`, `radius` or `camera_matrix` are given for. The stream may
    have another resolution."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model in _CALIBRATED:
            self._check_calibration()
        else:
            self._check_circle()
        return self

    def _check_calibration(self) -> None:
        lacking = [name for name in ("camera_matrix", "distortion", "size") if getattr(self, name) is None]
        if lacking:
            raise ValueError(f"{self.model} needs {', '.join(lacking)}, as a calibration with OpenCV returns them")
        if self.center is not None or self.radius is not None:
            raise ValueError(f"{self.model} has no center and no radius: they are in camera_matrix")
        assert self.camera_matrix is not None
        assert self.distortion is not None
        assert self.size is not None
        (fx, skew, cx), (zero, fy, cy), last = self.camera_matrix
        if any((skew, zero, *last[:2], last[2] - 1)) or fx <= 0 or fy <= 0:
            raise ValueError("camera_matrix must be [[fx, 0, cx], [0, fy, cy], [0, 0, 1]] with fx and fy above 0")
        width, height = self.size
        if not (0 <= cx <= width and 0 <= cy <= height):
            raise ValueError(
                f"the centre [{cx:g}, {cy:g}] of camera_matrix lies outside the image of "
                f"{width}x{height} pixels: give the size that the camera was calibrated at"
            )
        counts = _COEFFICIENTS[self.model]
        if len(self.distortion) not in counts:
            allowed = " or ".join(map(str, counts))
            raise ValueError(f"distortion of {self.model} has {allowed} coefficients, not {len(self.distortion)}")

    def _check_circle(self) -> None:
        if self.camera_matrix is not None or self.distortion is not None:
            raise ValueError(f"{self.model} has no camera_matrix and no distortion: use {' or '.join(_CALIBRATED)}")
        if self.center is not None:
            width, height = self.size or (1, 1)
            if not (0 <= self.center[0] <= width and 0 <= self.center[1] <= height):
                fractions = "give fractions from 0 to 1, or pixels and the size of the image that they are meant for"
                raise ValueError(
                    f"center [{self.center[0]:g}, {self.center[1]:g}] lies outside the image"
                    + (f" of {width}x{height} pixels" if self.size else f": {fractions}")
                )
        if self.size is None and self.radius is not None and self.radius > 4:
            raise ValueError(
                f"radius {self.radius:g} is no fraction of the image's height: give 0.5 for a circle as high as the "
                "image, or pixels and the size of the image that they are meant for"
            )

    @property
    def widest(self) -> float:
        """The largest angle from the optical axis, in radians, at which the lens shows anything."""
        asked = math.pi if self.fov is None else math.radians(self.fov) / 2
        if self.model in _ROUND:
            return math.pi / 2 if self.fov is None else asked
        theta = np.linspace(0, math.pi if self.model == "kannala_brandt" else math.atan(_WIDEST_SLOPE), _SAMPLES)
        radius = _fisheye_radius(theta, self._k) if self.model == "kannala_brandt" else self._radial(np.tan(theta))
        falling = np.flatnonzero(np.diff(radius) <= 0)  # from there on, an image would be shown twice
        return min(asked, float(theta[falling[0]] if len(falling) else theta[-1]))

    def pixels(self, rays: Floats, *, size_wh: tuple[int, int]) -> Floats:
        """Return the pixels (N, 2) that show these rays (N, 3) in an image of that size.

        NaN for rays that the lens does not show, also where it would show them twice. Pixels may lie outside the image.
        """
        own_wh = self.size or size_wh
        x, y, z = np.moveaxis(rays, -1, 0)
        across = np.hypot(x, y)
        theta = np.arctan2(across, z)
        if self.model == "brown_conrady":
            points = self._ordinary(x, y, z, theta)
        else:
            radius = self._radius(theta, own_wh)
            scale = np.divide(radius, across, out=np.zeros_like(radius), where=across > 0)
            points = np.stack([scale * x, scale * y], axis=-1)
        points = points * self._focal + self._center(own_wh)
        points[theta > self.widest * (1 + 1e-9)] = np.nan
        scaled: Floats = points * (np.array(size_wh, np.float64) / own_wh)
        return scaled

    @property
    def _k(self) -> tuple[float, ...]:
        return self.distortion or ()

    @property
    def _focal(self) -> Floats:
        """Pixels for one unit of the image plane; round lenses compute in pixels."""
        rows = self.camera_matrix
        return np.ones(2) if rows is None else np.array([rows[0][0], rows[1][1]])

    def _center(self, own_wh: tuple[int, int]) -> Floats:
        if self.camera_matrix is not None:  # OpenCV's (0, 0) is the centre of the first pixel
            return np.array([self.camera_matrix[0][2] + 0.5, self.camera_matrix[1][2] + 0.5])
        if self.center is None:
            return np.array(own_wh) / 2
        return np.array(self.center, np.float64) * (1 if self.size else np.array(own_wh))

    def _radius(self, theta: Floats, own_wh: tuple[int, int]) -> Floats:
        if self.model == "kannala_brandt":
            return _fisheye_radius(theta, self._k)
        rim = min(own_wh) / 2 if self.radius is None else self.radius * (1 if self.size else own_wh[1])
        if self.model == "equisolid":
            return rim * np.sin(theta / 2) / math.sin(self.widest / 2)
        return rim * theta / self.widest

    def _radial(self, slope: Floats) -> Floats:
        """The radius of a ray with that slope after the radial distortion of an ordinary lens."""
        k1, k2, _, _, k3, k4, k5, k6 = (*self._k, *(0.0,) * (8 - len(self._k)))
        square = slope * slope
        above = 1 + square * (k1 + square * (k2 + square * k3))
        below = 1 + square * (k4 + square * (k5 + square * k6))
        bent: Floats = slope * above / below
        return bent

    def _ordinary(self, x: Floats, y: Floats, z: Floats, theta: Floats) -> Floats:
        """The points of an ordinary lens, for one unit of focal length."""
        there = np.where(z > 0, z, 1.0)
        a, b = x / there, y / there
        slope = np.where(theta < math.pi / 2, np.hypot(a, b), 0.0)
        factor = np.divide(self._radial(slope), slope, out=np.ones_like(slope), where=slope > 0)
        p1, p2 = self._k[2:4]
        square = slope * slope
        return np.stack(
            [
                a * factor + 2 * p1 * a * b + p2 * (square + 2 * a * a),
                b * factor + p1 * (square + 2 * b * b) + 2 * p2 * a * b,
            ],
            axis=-1,
        )


def _fisheye_radius(theta: npt.NDArray[Any], k: tuple[float, ...]) -> Floats:
    square = theta * theta
    bent: Floats = theta * (1 + square * (k[0] + square * (k[1] + square * (k[2] + square * k[3]))))
    return bent
