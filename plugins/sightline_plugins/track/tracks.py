"""Records that a tracker works on: tracks of a stream, and detections of a frame in bands of confidence.

C functions work on the same records, whose layout is that of `track.h`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final, Generic, TypeVar, cast

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import NO_TRACK, Matches
from sightline.media.boxes import Boxes, iou_pairs
from sightline_plugins.native import POINTER, SIZE, function, pointer
from sightline_plugins.track.kalman import FILTER, Filters, expected_boxes

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Array = TypeVar("Array")

_sort_into_bands = function("sort_into_bands", POINTER, SIZE, POINTER, SIZE, POINTER)


class TrackState(IntEnum):
    """What is known of a track."""

    TENTATIVE = 0
    """Not yet confirmed: seen too rarely or with too little confidence; has no id yet."""
    TRACKED = 1
    """Confirmed, and detected on the last frame that a detector ran on."""
    LOST = 2
    """Confirmed, not detected on the last frame that a detector ran on, not yet given up."""


# Bands of certainty, plain integers because arrays are compared with them.
IGNORED: Final = 0
LOW: Final = 1  # keeps a track alive
FAIR: Final = 2  # starts a track; for a track that is mostly seen like this, as good as a high one
HIGH: Final = 3  # matches any track

TRACK = np.dtype(
    [
        ("filter", FILTER),
        *((name, np.float32) for name in ("area", "confidence", "evidence", "mean_certainty")),
        ("expected", np.float32, (4,)),
        *((name, np.int64) for name in ("class_id", "track_id", "state", "seen_ns", "number", "detection", "row")),
    ],
    align=True,
)
DETECTION = np.dtype(
    [
        ("xyxy", np.float32, (4,)),
        ("box", np.float32, (4,)),
        *((name, np.float32) for name in ("confidence", "certainty", "area", "weight", "overlap")),
        *((name, np.int64) for name in ("class_id", "band", "track", "round", "number", "track_id")),
    ],
    align=True,
)


class Records:
    """Rows of records (N,), always the same array; columns are views of it."""

    def __init__(self, records: npt.NDArray[np.void]) -> None:
        self.records = records

    def __len__(self) -> int:
        return len(self.records)


class Column(Generic[Array]):
    """The column of records that has the name of the attribute."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, rows: Records, owner: type | None = None) -> Array:
        column = rows.__dict__[self._name] = rows.records[self._name]  # found there from now on
        return cast("Array", column)


class TrackColumns(Records):
    """A row of `TRACK` per track, oldest first; rows have one owner, the tracker, which changes them in place."""

    filter: Column[Filters] = Column()
    """Where the box is and how it moves: (N,) of `FILTER`."""
    area: Column[Floats] = Column()
    """Area of the box last seen."""
    confidence: Column[Floats] = Column()
    """Of the detection last seen."""
    evidence: Column[Floats] = Column()
    """Until it is confirmed: the sum of its detections, each 1 from `high_threshold` on, else less."""
    mean_certainty: Column[Floats] = Column()
    """Running mean of the certainty of its detections."""
    expected: Column[Floats] = Column()
    """(N, 4): corners of the box that was matched with the detections of the last frame."""
    class_id: Column[Integers] = Column()
    """Of the detection last seen."""
    track_id: Column[Integers] = Column()
    """-1 while tentative."""
    state: Column[Integers] = Column()
    """A `TrackState`."""
    seen_ns: Column[Integers] = Column()
    """When last seen, on the tracker's clock."""
    number: Column[Integers] = Column()
    """Counts all tracks, also those that never get an id."""
    detection: Column[Integers] = Column()
    """The row of the detection that it has in the last frame, -1 for none."""
    row: Column[Integers] = Column()
    """The row that it had before tracks were forgotten the last time."""

    def copy(self) -> TrackColumns:
        """Return a copy."""
        return TrackColumns(self.records.copy())

    @property
    def mean(self) -> Floats:
        """(N, 2, 4): centre, width and height, and their velocity per second."""
        column: Floats = self.records["filter"]["mean"]
        return column

    @property
    def covariance(self) -> Floats:
        """(N, 3, 2): see `FILTER`."""
        column: Floats = self.records["filter"]["covariance"]
        return column

    @property
    def xyxy(self) -> Boxes:
        """(N, 4): a copy of the boxes as corners; sides that shrank below 0 are 0."""
        return expected_boxes(self.filter.copy())[0]


class Detections(Records):
    """A row of `DETECTION` per detection of one frame."""

    xyxy: Column[Boxes] = Column()
    """(N, 4): corners in pixels; 0 where they cannot be used."""
    box: Column[Floats] = Column()
    """(N, 4): centre, width and height."""
    confidence: Column[Floats] = Column()
    """At most 1; -1 where it cannot be used."""
    certainty: Column[Floats] = Column()
    """The confidence on the scale of the tracker's thresholds."""
    area: Column[Floats] = Column()
    """At least one square pixel, as the filter's noise is measured by it."""
    weight: Column[Floats] = Column()
    """Factor of the overlap: the certainty of a fair or high detection, 1 of a low one."""
    overlap: Column[Floats] = Column()
    """IoU with the box where its track was expected; NaN without a track before."""
    class_id: Column[Integers] = Column()
    """Any number."""
    band: Column[Integers] = Column()
    """`IGNORED`, `LOW`, `FAIR` or `HIGH`."""
    track: Column[Integers] = Column()
    """The row of its track, -1 for none."""
    round: Column[Integers] = Column()
    """The round that matched it with a track that was there before, -1 for none."""
    number: Column[Integers] = Column()
    """The number of its track, -1 for none."""
    track_id: Column[Integers] = Column()
    """The id of its track, -1 for none."""


def joined(parts: Sequence[npt.NDArray[np.void]]) -> npt.NDArray[np.void]:
    """Return a copy of the rows of all parts, of which there is at least one; all have the same type. For
    records, `np.concatenate` spends more time on comparing types than on the copy.
    """
    return np.frombuffer(bytearray().join([part.tobytes() for part in parts]), parts[0].dtype)


def check_columns(xyxy: npt.NDArray[Any], confidence: npt.NDArray[Any], class_id: npt.NDArray[Any]) -> None:
    """Raise ValueError when the three columns do not have shapes (N, 4), (N,) and (N,)."""
    count = len(xyxy)
    if xyxy.shape != (count, 4) or confidence.shape != (count,) or class_id.shape != (count,):
        raise ValueError(
            "tracker: xyxy, confidence and class_id must have shapes (N, 4), (N,) and (N,), got "
            f"{xyxy.shape}, {confidence.shape} and {class_id.shape}"
        )


def sorted_into_bands(
    xyxy: npt.NDArray[np.float32],
    *,
    confidence: npt.NDArray[np.float32],
    class_id: npt.NDArray[np.integer],
    limits: npt.NDArray[np.float32],
) -> Detections:
    """Return detections with their bands of confidence, which begin at the `limits`, three at most.

    Detections with NaN, infinity or coordinates beyond ten million pixels are ignored. Raises ValueError when the three
    columns do not have shapes (N, 4), (N,) and (N,).
    """
    check_columns(xyxy, confidence, class_id)
    seen = Detections(np.empty(len(xyxy), DETECTION))
    seen.xyxy[:], seen.confidence[:], seen.class_id[:] = xyxy, confidence, class_id
    _sort_into_bands(pointer(seen.records), len(seen), pointer(limits), len(limits), None)
    return seen


class MatchNotes:
    """Notes of one update, of the detections of all streams, from which `Matches` are made when somebody asks."""

    def __init__(self, count: int) -> None:
        """Begin the notes of frames with `count` detections."""
        self._number = np.full(count, NO_TRACK, np.int64)
        self._pairs: tuple[npt.NDArray[np.intp], Boxes, Boxes] | None = None

    def matched(self, columns: npt.NDArray[np.intp], number: Integers, *, expected: Boxes, seen: Boxes) -> None:
        """Note tracks that were expected at boxes (K, 4), and seen at boxes (K, 4) by the detections `columns`."""
        self._number[columns] = number
        self._pairs = columns, expected, seen

    def begun(self, columns: npt.NDArray[np.intp], number: Integers) -> None:
        """Note tracks that begin with the detections `columns`."""
        self._number[columns] = number

    def matches(self, own: slice) -> Matches:
        """Return the columns for these detections; they belong to the caller."""
        certainty = np.full(len(self._number), np.nan, np.float32)
        if self._pairs is not None:
            columns, expected, seen = self._pairs
            certainty[columns] = iou_pairs(expected, seen)
        return Matches(self._number[own].copy(), certainty[own])
