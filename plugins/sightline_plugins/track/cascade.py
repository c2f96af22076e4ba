"""Rounds of one-to-one matching, each among the tracks and detections that earlier rounds left over.

In each round the assignment has the largest sum of similarities, and pairs that are not similar enough are dropped from
it afterwards, as SORT and its successors do. (`association.assign` leaves such pairs out beforehand.) IOU's tracks
choose in turn instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline.media.boxes import Boxes
from sightline_plugins.native import POINTER, SIZE, function, pointer, values
from sightline_plugins.track.association import assign_all

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Pairwise = Callable[[Indices, Indices], Floats]
"""From n tracks and m detections, as row numbers, to a value for each pair (n, m)."""

_overlap_boxes = function("overlap_boxes", POINTER, SIZE, POINTER, SIZE, POINTER)


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
    in_turn: bool = False
    """Whether tracks choose in turn, the oldest first, instead of the largest sum; without `preference`."""
    greedy: bool = False
    """Whether the most similar pair of all is taken first, then the next one, instead of the largest sum; without
    `preference`."""


def overlaps(tracks: Boxes, detections: Boxes) -> Pairwise:
    """Return the intersection over union of pairs of these boxes (N, 4) and (M, 4)."""
    return lambda rows, columns: overlap_matrix(tracks[rows], detections[columns])


def overlap_matrix(one: Boxes, other: Boxes) -> Floats:
    """Return the intersection over union of each of these finite boxes (N, 4) with each of the others (M, 4), (N, M).

    As `iou_matrix` to the bit, in a fifth of the time for ten boxes.
    """
    found = np.empty((len(one), len(other)), np.float32)
    _overlap_boxes(values(one, np.float32), len(one), values(other, np.float32), len(other), pointer(found))
    return found


def match_in_rounds(rounds: Iterable[Round], *, tracks: int, detections: int) -> tuple[Indices, Indices]:
    """Return the rows of the tracks and detections that match, pair by pair, in the order of the rounds."""
    open_tracks, open_detections = np.ones(tracks, np.bool_), np.ones(detections, np.bool_)
    found_rows, found_columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for each in rounds:
        rows = (open_tracks & each.tracks).nonzero()[0]
        columns = (open_detections & each.detections).nonzero()[0]
        if not len(rows) or not len(columns):
            continue
        similarity = each.similarity(rows, columns)
        if each.in_turn:
            pairs = pairs_in_turn(similarity, least=each.least)
        elif each.greedy:
            pairs = pairs_greedily(similarity, least=each.least)
        else:
            preference = None if each.preference is None else each.preference(rows, columns)
            pairs = best_pairs(similarity, least=each.least, preference=preference)
        rows, columns = rows[pairs[0]], columns[pairs[1]]
        open_tracks[rows] = False
        open_detections[columns] = False
        found_rows.append(rows)
        found_columns.append(columns)
    return np.concatenate(found_rows), np.concatenate(found_columns)


def best_pairs(similarity: Floats, *, least: float, preference: Floats | None = None) -> tuple[Indices, Indices]:
    """Return rows and columns of the one-to-one assignment with the largest sum, without pairs below `least`.

    `similarity` (N, M) is 0 or more; `preference` (N, M) is added to it for the sum only. No solver runs where no pair
    competes with another.
    """
    if preference is None:
        rows, columns = (similarity > 0).nonzero()
        competing = len(set(rows.tolist())) < len(rows) or len(set(columns.tolist())) < len(columns)
        if not competing:
            enough = similarity[rows, columns] >= least
            return rows[enough], columns[enough]
    rows, columns = assign_all(similarity if preference is None else similarity + preference)
    enough = similarity[rows, columns] >= least
    return rows[enough], columns[enough]


def pairs_in_turn(similarity: Floats, *, least: float) -> tuple[Indices, Indices]:
    """Return rows and columns when each row in turn takes the most similar column left, from `least` on.

    Rows ask for the column they like best, a column refuses all but the first of them, and the refused ask for their
    next best one, until none is refused (D. Gale and L. Shapley, 1962). Few rows compete, so few passes are needed.
    """
    liked = np.where(similarity >= least, similarity, np.float32(0))
    while True:
        columns = liked.argmax(axis=1)
        rows = (liked[np.arange(len(liked)), columns] > 0).nonzero()[0]
        columns = columns[rows]
        _, first = np.unique(columns, return_index=True)
        if len(first) == len(rows):
            return rows, columns
        refused = np.delete(np.arange(len(rows)), first)
        liked[rows[refused], columns[refused]] = 0


def pairs_greedily(similarity: Floats, *, least: float) -> tuple[Indices, Indices]:
    """Return rows and columns when the most similar pair from `least` on is taken first, then the next one among the
    rest. All pairs that like each other best are taken at once, which gives the same.
    """
    left = np.where(similarity >= least, similarity, np.float32(0))
    rows, columns = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    while left.any():
        liked, liking = left.argmax(axis=1), left.argmax(axis=0)
        found = ((liking[liked] == np.arange(len(left))) & (left.max(axis=1) > 0)).nonzero()[0]
        rows.append(found)
        columns.append(liked[found])
        left[found] = 0
        left[:, liked[found]] = 0
    return np.concatenate(rows), np.concatenate(columns)


def enlarged(xyxy: Boxes, *, buffer: float) -> Boxes:
    """Return boxes (N, 4) that reach farther on each side by this fraction of their width or height."""
    margin = (xyxy[:, 2:] - xyxy[:, :2]) * np.float32(buffer)
    return np.concatenate([xyxy[:, :2] - margin, xyxy[:, 2:] + margin], axis=1)
