"""What objects can have beyond a box: the pixels they cover, and the meaning of their keypoints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media.arrays import read_only


@dataclass(frozen=True, slots=True, eq=False)
class Mask:
    """The pixels that an object covers.

    `bits` bool (h, w) says it for the part of the source image whose first pixel is (`left`, `top`); everything
    outside is not covered. Immutable: nobody writes to `bits`.
    """

    left: int
    top: int
    bits: npt.NDArray[np.bool_]

    def __post_init__(self) -> None:
        object.__setattr__(self, "bits", read_only(self.bits))

    @property
    def area(self) -> int:
        """How many pixels it covers."""
        return int(np.count_nonzero(self.bits))

    def in_image(self, size_wh: tuple[int, int]) -> npt.NDArray[np.bool_]:
        """The mask of the whole image, bool (height, width), a new array."""
        width, height = size_wh
        image = np.zeros((height, width), np.bool_)
        rows, columns = self.bits.shape
        top, left = max(self.top, 0), max(self.left, 0)
        bottom, right = min(self.top + rows, height), min(self.left + columns, width)
        if bottom > top and right > left:
            image[top:bottom, left:right] = self.bits[
                top - self.top : bottom - self.top, left - self.left : right - self.left
            ]
        return image


@dataclass(frozen=True, slots=True)
class Skeleton:
    """What keypoints are called, in order, and which pairs of them a line joins (indices)."""

    points: tuple[str, ...]
    edges: tuple[tuple[int, int], ...] = ()


PERSON_17 = Skeleton(
    points=(
        "nose",
        "left_eye",
        "right_eye",
        "left_ear",
        "right_ear",
        "left_shoulder",
        "right_shoulder",
        "left_elbow",
        "right_elbow",
        "left_wrist",
        "right_wrist",
        "left_hip",
        "right_hip",
        "left_knee",
        "right_knee",
        "left_ankle",
        "right_ankle",
    ),
    edges=(
        (15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8), (7, 9), (8, 10),
        (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6),
    ),
)  # fmt: skip
"""The 17 keypoints of a person as COCO has them."""

FACE_5 = Skeleton(points=("right_eye", "left_eye", "nose", "right_mouth", "left_mouth"))
"""Five landmarks of a face, each side as the person has it: the right eye stands at the left in the image."""

_BY_COUNT = {len(skeleton.points): skeleton for skeleton in (PERSON_17, FACE_5)}


def usual_skeleton(count: int) -> Skeleton:
    """What so many keypoints usually are; numbered ones without lines where there is no usual meaning."""
    return _BY_COUNT.get(count) or Skeleton(tuple(str(number) for number in range(count)))
