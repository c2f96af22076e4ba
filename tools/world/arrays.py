"""Names for the arrays of the sample world."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
"""Geometry: points, boxes, factors."""

Image = npt.NDArray[np.float32]
"""Pixels while they are worked on: RGB or one channel, 0 to 255 or 0 to 1, float32."""

RgbImage = npt.NDArray[np.uint8]
"""A finished RGB image, height x width x 3."""

Colour = tuple[float, float, float]
"""RGB, 0 to 255."""
