"""One frame's detections, made safe and sorted into bands of confidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import area

LARGEST_COORDINATE = 1e7
SMALLEST_AREA = 1.0


# Bands of confidence, plain integers because arrays are compared with them.
IGNORED: Final = 0
LOW: Final = 1  # keeps a track alive
FAIR: Final = 2  # starts a track; for a track that is mostly seen like this, as good as a high one
HIGH: Final = 3  # matches any track


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """Columns over the detections of one frame."""

    xyxy: npt.NDArray[np.float32]
    confidence: npt.NDArray[np.float32]
    class_id: npt.NDArray[np.int64]
    area: npt.NDArray[np.float32]
    """At least one square pixel, as the filter's noise is measured by it."""
    weight: npt.NDArray[np.float32]
    """What overlap with it counts for: the confidence of a fair or high detection, 1 of a low one."""
    band: npt.NDArray[np.int64]
    """`IGNORED`, `LOW`, `FAIR` or `HIGH`."""

    def __len__(self) -> int:
        return len(self.band)


def sorted_into_bands(
    xyxy: npt.NDArray[np.float32],
    *,
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.integer],
    limits: npt.NDArray[np.float32],
) -> Detections:
    """Detections with their bands, which begin at the three `limits`.

    Those with NaN, infinity or coordinates beyond ten million pixels are ignored.

    Raises ValueError when the three columns do not have shapes (N, 4), (N,) and (N,).
    """
    count = len(xyxy)
    if xyxy.shape != (count, 4) or confidence.shape != (count,) or class_id.shape != (count,):
        raise ValueError(
            "tracker: xyxy, confidence and class_id must have shapes (N, 4), (N,) and (N,), got "
            f"{xyxy.shape}, {confidence.shape} and {class_id.shape}"
        )
    xyxy, confidence = xyxy.astype(np.float32, copy=False), confidence.astype(np.float32, copy=False)
    if count and not (np.abs(xyxy).max() <= LARGEST_COORDINATE and confidence.max() <= 1):
        xyxy, confidence = _made_safe(xyxy, confidence)
    band = limits.searchsorted(confidence, side="right")
    return Detections(
        xyxy=xyxy,
        confidence=confidence,
        class_id=class_id.astype(np.int64, copy=False),
        area=np.maximum(area(xyxy), SMALLEST_AREA),
        weight=np.where(band >= FAIR, confidence, np.float32(1)),
        band=band,
    )


def _made_safe(
    xyxy: npt.NDArray[np.float32], confidence: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    safe = (np.abs(xyxy) <= LARGEST_COORDINATE).all(axis=1) & ~np.isnan(confidence)
    return (
        np.where(safe[:, None], xyxy, 0).astype(np.float32, copy=False),
        np.where(safe, np.minimum(confidence, 1), -1).astype(np.float32, copy=False),
    )
