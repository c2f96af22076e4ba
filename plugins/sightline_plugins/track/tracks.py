"""Columns that a tracker works on: tracks of a stream, and detections of a frame in bands of confidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import NO_TRACK, Matches
from sightline.media.boxes import Boxes, area, iou_pairs

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]


class TrackState(IntEnum):
    """What is known of a track."""

    TENTATIVE = 0
    """Not yet confirmed: seen too rarely or with too little confidence; has no id yet."""
    TRACKED = 1
    """Confirmed, and detected on the last frame that a detector ran on."""
    LOST = 2
    """Confirmed, not detected on the last frame that a detector ran on, not yet given up."""


@dataclass(slots=True, eq=False)
class TrackColumns:
    """A row per track, oldest first; columns have one owner, the tracker, which changes them in place."""

    mean: Floats
    """(2, N, 4): centre, width and height, and their velocity per second."""
    covariance: Floats
    """(3, 2, N): variance of position, covariance of position and velocity, variance of velocity; of the centre, and of
    width and height."""
    area: Floats
    """Area of the box last seen."""
    confidence: Floats
    """Of the detection last seen."""
    class_id: Integers
    """Of the detection last seen."""
    track_id: Integers
    """-1 while tentative."""
    state: Integers
    """A `TrackState`."""
    evidence: Floats
    """Until it is confirmed: the sum of its detections, each 1 from `high_threshold` on, else less."""
    mean_certainty: Floats
    """Running mean of the certainty of its detections."""
    seen_ns: Integers
    """When last seen, on the tracker's clock."""
    number: Integers
    """Counts all tracks, also those that never get an id."""
    vector: Floats
    """(N, D): appearance, NaN where unknown; D is 0 where it is not used."""

    def __len__(self) -> int:
        return len(self.state)

    @property
    def xyxy(self) -> Floats:
        """(N, 4): the boxes as corners; sides that shrank below 0 are 0."""
        return corners(self.mean[0])

    def select(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> TrackColumns:
        """Return a copy with these rows only (a mask or indices)."""
        return TrackColumns(
            mean=self.mean[:, rows],
            covariance=self.covariance[:, :, rows],
            area=self.area[rows],
            confidence=self.confidence[rows],
            class_id=self.class_id[rows],
            track_id=self.track_id[rows],
            state=self.state[rows],
            evidence=self.evidence[rows],
            mean_certainty=self.mean_certainty[rows],
            seen_ns=self.seen_ns[rows],
            number=self.number[rows],
            vector=self.vector[rows],
        )

    def joined(self, younger: TrackColumns) -> TrackColumns:
        """Return a copy with the rows of `younger` after these."""
        return TrackColumns(
            mean=np.concatenate([self.mean, younger.mean], axis=1),
            covariance=np.concatenate([self.covariance, younger.covariance], axis=2),
            area=np.concatenate([self.area, younger.area]),
            confidence=np.concatenate([self.confidence, younger.confidence]),
            class_id=np.concatenate([self.class_id, younger.class_id]),
            track_id=np.concatenate([self.track_id, younger.track_id]),
            state=np.concatenate([self.state, younger.state]),
            evidence=np.concatenate([self.evidence, younger.evidence]),
            mean_certainty=np.concatenate([self.mean_certainty, younger.mean_certainty]),
            seen_ns=np.concatenate([self.seen_ns, younger.seen_ns]),
            number=np.concatenate([self.number, younger.number]),
            vector=np.concatenate([self.vector, younger.vector]),
        )


def corners(box: Floats) -> Floats:
    """Return boxes (N, 4) of centre, width and height as corners."""
    half = np.maximum(box[:, 2:], 0) / 2
    return np.concatenate([box[:, :2] - half, box[:, :2] + half], axis=1)


def no_tracks() -> TrackColumns:
    """Return columns without a row."""
    floats, integers = np.zeros(0, np.float32), np.zeros(0, np.int64)
    return TrackColumns(
        mean=np.zeros((2, 0, 4), np.float32),
        covariance=np.zeros((3, 2, 0), np.float32),
        area=floats,
        confidence=floats,
        class_id=integers,
        track_id=integers,
        state=integers,
        evidence=floats,
        mean_certainty=floats,
        seen_ns=integers,
        number=integers,
        vector=np.zeros((0, 0), np.float32),
    )


LARGEST_COORDINATE = 1e7
SMALLEST_AREA = 1.0


# Bands of certainty, plain integers because arrays are compared with them.
IGNORED: Final = 0
LOW: Final = 1  # keeps a track alive
FAIR: Final = 2  # starts a track; for a track that is mostly seen like this, as good as a high one
HIGH: Final = 3  # matches any track


@dataclass(frozen=True, slots=True, eq=False)
class Detections:
    """Columns over the detections of one frame."""

    xyxy: npt.NDArray[np.float32]
    confidence: npt.NDArray[np.float32]
    certainty: npt.NDArray[np.float32]
    """The confidence on the scale of the tracker's thresholds."""
    class_id: npt.NDArray[np.int64]
    box: npt.NDArray[np.float32]
    """(N, 4): centre, width and height."""
    area: npt.NDArray[np.float32]
    """At least one square pixel, as the filter's noise is measured by it."""
    weight: npt.NDArray[np.float32]
    """Factor of the overlap: the certainty of a fair or high detection, 1 of a low one."""
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
    scale: Callable[[Floats], Floats] = lambda confidence: confidence,
) -> Detections:
    """Return detections with their bands of certainty, which begin at the three `limits`; `scale` gives the certainty
    of confidences.

    Detections with NaN, infinity or coordinates beyond ten million pixels are ignored.

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
        xyxy, confidence = _without_unsafe(xyxy, confidence)
    certainty = scale(confidence)
    band = limits.searchsorted(certainty, side="right")
    return Detections(
        xyxy=xyxy,
        box=np.concatenate([(xyxy[:, :2] + xyxy[:, 2:]) / 2, xyxy[:, 2:] - xyxy[:, :2]], axis=1),
        confidence=confidence,
        certainty=certainty,
        class_id=class_id.astype(np.int64, copy=False),
        area=np.maximum(area(xyxy), SMALLEST_AREA),
        weight=np.where(band >= FAIR, certainty, np.float32(1)),
        band=band,
    )


def _without_unsafe(
    xyxy: npt.NDArray[np.float32], confidence: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    safe = (np.abs(xyxy) <= LARGEST_COORDINATE).all(axis=1) & ~np.isnan(confidence)
    return (
        np.where(safe[:, None], xyxy, 0).astype(np.float32, copy=False),
        np.where(safe, np.minimum(confidence, 1), -1).astype(np.float32, copy=False),
    )


class MatchNotes:
    """Notes of one update, from which `Matches` are made when somebody asks: which track has which detection."""

    def __init__(self, count: int) -> None:
        """Begin the notes of a frame with `count` detections."""
        self._number = np.full(count, NO_TRACK, np.int64)
        self._pairs: tuple[npt.NDArray[np.intp], Boxes, Boxes] | None = None

    def matched(self, columns: npt.NDArray[np.intp], number: Integers, *, expected: Boxes, seen: Boxes) -> None:
        """Note tracks that were expected at boxes (K, 4), and seen at boxes (K, 4) by the detections `columns`."""
        self._number[columns] = number
        self._pairs = columns, expected, seen

    def begun(self, columns: npt.NDArray[np.intp], number: Integers) -> None:
        """Note tracks that begin with the detections `columns`."""
        self._number[columns] = number

    def matches(self) -> Matches:
        """Return the columns; they belong to the caller."""
        certainty = np.full(len(self._number), np.nan, np.float32)
        if self._pairs is not None:
            columns, expected, seen = self._pairs
            certainty[columns] = iou_pairs(expected, seen)
        return Matches(self._number.copy(), certainty)
