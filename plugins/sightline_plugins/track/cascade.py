"""Rounds of one-to-one matching, each among the tracks and detections that earlier rounds left over.

In each round the assignment has the largest sum of similarities, and pairs that are not similar enough are dropped from
it afterwards, as SORT and its successors do. (`association.assign` leaves such pairs out beforehand.) IOU's tracks
choose in turn instead.

A round matches all streams of a batch at once: tracks and detections stand stream by stream, and only those of the same
stream are pairs (`rounds.c`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes
from sightline_plugins.native import FLOAT, INT, POINTER, SIZE, function, pointer, values

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Pairwise = Callable[[Indices, Indices], Floats]
"""From pairs (P,) of tracks and detections, as row numbers, to a value for each, float32 (P,). Pairs come stream by
stream, and within one each track with all detections."""

_overlap_boxes = function("overlap_boxes", POINTER, SIZE, POINTER, SIZE, POINTER)
_list_pairs = function("list_pairs", POINTER, POINTER, SIZE, POINTER, POINTER, SIZE, POINTER, POINTER, result=SIZE)
_overlap_pairs = function("overlap_pairs", POINTER, POINTER, POINTER, POINTER, SIZE, POINTER)
_match_pairs = function(
    "match_pairs", POINTER, POINTER, SIZE, POINTER, POINTER, FLOAT, INT, *[POINTER] * 5, result=SIZE
)


class Way(IntEnum):
    """How the pairs of a round are chosen."""

    LARGEST_SUM = 0
    """The one-to-one assignment with the largest sum."""
    IN_TURN = 1
    """Tracks choose in turn, the oldest first; without `preference`."""
    GREEDY = 2
    """The most similar pair of all is taken first, then the next one; without `preference`."""


@dataclass(frozen=True, slots=True)
class Round:
    """Which tracks and detections a round matches, and when they are similar enough."""

    tracks: Mask
    """(N,) tracks that take part, unless they are matched already."""
    detections: Mask
    """(M,) detections that take part, unless they are matched already."""
    similarity: Pairwise
    """0 or more; pairs match from `least` on."""
    least: float
    """Similarity that a pair needs, above 0."""
    preference: Pairwise | None = None
    """Added to the similarity to choose between assignments; `least` does not count it."""
    way: Way = Way.LARGEST_SUM


def overlap_matrix(one: Boxes, other: Boxes) -> Floats:
    """Return the intersection over union of each of these finite boxes (N, 4) with each of the others (M, 4), (N, M).

    As `iou_matrix` to the bit, in a fifth of the time for ten boxes.
    """
    found = np.empty((len(one), len(other)), np.float32)
    _overlap_boxes(values(one, np.float32), len(one), values(other, np.float32), len(other), pointer(found))
    return found


def overlaps(tracks: Boxes, detections: Boxes) -> Pairwise:
    """Return the intersection over union of pairs of these finite boxes (N, 4) and (M, 4), float32, as `iou_pairs` to
    the bit.
    """
    one, other = np.ascontiguousarray(tracks), np.ascontiguousarray(detections)

    def overlap(rows: Indices, columns: Indices) -> Floats:
        found = np.empty(len(rows), np.float32)
        _overlap_pairs(pointer(one), pointer(rows), pointer(other), pointer(columns), len(rows), pointer(found))
        return found

    return overlap


class PairMatcher:
    """Matches tracks and detections that stand stream by stream; `of_tracks` (N,) and `of_detections` (M,) are numbers
    of their streams, which ascend.
    """

    def __init__(self, of_tracks: Indices, of_detections: Indices) -> None:
        self._of_tracks, self._of_detections = np.ascontiguousarray(of_tracks), np.ascontiguousarray(of_detections)
        self._room = len(of_tracks) + len(of_detections)
        self._most = len(of_tracks) * len(of_detections)
        last = max(of_tracks[-1:].tolist() + of_detections[-1:].tolist(), default=0)
        if last:
            counts = np.bincount(of_tracks, minlength=last + 1), np.bincount(of_detections, minlength=last + 1)
            self._most = int(counts[0] @ counts[1])

    def pairs(self, tracks: Mask, detections: Mask) -> tuple[Indices, Indices]:
        """Return the rows of all pairs of these tracks and detections, in the order of `Pairwise`."""
        rows, columns = np.empty((2, self._most), np.int64)
        count = _list_pairs(
            pointer(np.ascontiguousarray(tracks)),
            pointer(self._of_tracks),
            len(tracks),
            pointer(np.ascontiguousarray(detections)),
            pointer(self._of_detections),
            len(detections),
            pointer(rows),
            pointer(columns),
        )
        return rows[:count], columns[:count]

    def matched(self, rounds: Iterable[Round]) -> tuple[Indices, Indices]:
        """Return the rows of the tracks and detections that match, pair by pair, in the order of the rounds."""
        open_tracks = np.ones(len(self._of_tracks), np.bool_)
        open_detections = np.ones(len(self._of_detections), np.bool_)
        found_rows, found_columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for each in rounds:
            rows, columns = self.pairs(open_tracks & each.tracks, open_detections & each.detections)
            if not len(rows):
                continue
            own = self.best(rows, columns, each)
            rows, columns = rows[own], columns[own]
            open_tracks[rows] = False
            open_detections[columns] = False
            found_rows.append(rows)
            found_columns.append(columns)
        return np.concatenate(found_rows), np.concatenate(found_columns)

    def best(self, rows: Indices, columns: Indices, each: Round) -> Indices:
        """Return the numbers of the pairs that match in a round."""
        count, similarity = len(rows), each.similarity(rows, columns)
        preference = None if each.preference is None else each.preference(rows, columns)
        room, scratch = self._room, np.empty(7 * self._room)
        matched = np.empty(count, np.int64)
        found = _match_pairs(
            pointer(rows),
            pointer(self._of_tracks),
            count,
            pointer(similarity),
            None if preference is None else pointer(preference),
            each.least,
            each.way,
            pointer(np.empty(count, np.float32)),
            pointer(scratch[:room]),
            pointer(scratch[room:]),
            pointer(scratch[2 * room :]),
            pointer(matched),
        )
        return matched[:found]


def enlarged(xyxy: Boxes, *, buffer: float) -> Boxes:
    """Return boxes (N, 4) that reach farther on each side by this fraction of their width or height."""
    margin = (xyxy[:, 2:] - xyxy[:, :2]) * np.float32(buffer)
    return np.concatenate([xyxy[:, :2] - margin, xyxy[:, 2:] + margin], axis=1)
