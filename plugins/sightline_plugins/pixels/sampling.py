"""Sampling a plane where a region lies to a fraction of a pixel, beyond the image's edge, or turned."""

from __future__ import annotations

import cv2
import numpy as np
import numpy.typing as npt

from sightline.media.surface import Plane
from sightline_plugins.pixels.placement import Placement


def sample_plane(plane: Plane, placement: Placement, *, shift: tuple[int, int], nearest: bool = False) -> Plane:
    """The part of a plane that `placement` names, at the size of its inner rectangle (height, width).

    `shift` says by how many bits the plane is narrower and lower than the image (chroma); samples stand at the middle
    of what they cover. Bilinear with half-pixel centres, as a resize of the same region would do; outside the image
    its edge is repeated. Lets go of the GIL.
    """
    width, height = placement.inner_xywh[2:]
    how = (cv2.INTER_NEAREST if nearest else cv2.INTER_LINEAR) | cv2.WARP_INVERSE_MAP
    matrix = warp_matrix(placement, shift=shift)
    sampled: Plane = cv2.warpAffine(plane, matrix, (width, height), flags=how, borderMode=cv2.BORDER_REPLICATE)
    return sampled


def warp_matrix(placement: Placement, *, shift: tuple[int, int]) -> npt.NDArray[np.float64]:
    """Positions in a plane (2, 3) from columns and rows of the inner rectangle, whole numbers being middles of both."""
    (a, b, x), (c, d, y) = placement.image_from_network
    across, down = 1 << shift[0], 1 << shift[1]
    middle_x, middle_y = placement.inner_xywh[0] + 0.5, placement.inner_xywh[1] + 0.5
    return np.array(
        [
            [a / across, b / across, (a * middle_x + b * middle_y + x) / across - 0.5],
            [c / down, d / down, (c * middle_x + d * middle_y + y) / down - 0.5],
        ]
    )
