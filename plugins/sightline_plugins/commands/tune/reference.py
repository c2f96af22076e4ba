"""What a run with fewer detections loses against one that detects every frame.

Both runs are scored against the same measure, and the loss is the difference of the scores. The measure is the ground
truth where there is one. Else it is the tracks of the run with every frame, smoothed in time: a detector trembles, and
boxes of two runs that are equally good differ. That takes half of the trembling out, and none of the errors which the
detector makes steadily, so a loss without truth is two to four times too large.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.commands.evaluate.scores import TrackScores, score_tracks

Floats = npt.NDArray[np.float64]

_REACH_SECONDS = 0.16
"""Boxes are smoothed over so long before and after."""
_SHORTEST_SECONDS = 0.5
"""Tracks that are shorter count neither way: most are false alarms, which no run gives twice."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Points of HOTA and IDF1 (0 to 100) that a run loses; below 0 it is better."""

    hota: float
    idf1: float

    @property
    def worst(self) -> float:
        """The larger of both."""
        return max(self.hota, self.idf1)


class Reference:
    """A run in which every frame was detected, and what it and others on the same clip are scored against: the truth,
    or its own tracks, smoothed (`truth`).
    """

    def __init__(self, tracks: Annotations, *, fps: float, truth: Annotations | None = None) -> None:
        if truth is None:
            reach, shortest = max(1, round(_REACH_SECONDS * fps)), max(2, round(_SHORTEST_SECONDS * fps))
            truth = smoothed(tracks, reach=reach, shortest=shortest)
        self.truth = truth
        self.scores = self.scores_of(tracks)

    @property
    def tracks(self) -> int:
        """How many objects count."""
        return len(np.unique(self.truth.identity[~self.truth.ignored]))

    def scores_of(self, tracks: Annotations) -> TrackScores:
        """Return the scores of a run. Raises ConfigurationError without TrackEval."""
        return score_tracks(tracks, truth=self.truth)

    def loss_of(self, tracks: Annotations) -> Loss:
        """Return what a run loses. Raises ConfigurationError without TrackEval."""
        own, best = self.scores_of(tracks), self.scores
        return Loss(100 * (best.hota - own.hota), 100 * (best.idf1 - own.idf1))


def smoothed(tracks: Annotations, *, reach: int, shortest: int) -> Annotations:
    """Return tracks with their gaps filled, and boxes smoothed over `reach` frames before and after. Those of fewer
    frames than `shortest` are ignored, and boxes without a track left out.

    Each coordinate is that of the parabola through its neighbours (A. Savitzky and M. Golay, "Smoothing and
    Differentiation of Data by Simplified Least Squares Procedures", 1964), which does not lag behind growing boxes.
    """
    parts: list[Annotations] = []
    for identity in np.unique(tracks.identity[tracks.identity >= 0]).tolist():
        own = tracks.select(tracks.identity == identity)
        seen, first = np.unique(own.frame, return_index=True)
        frames = np.arange(seen[0], seen[-1] + 1)
        filled = np.stack([np.interp(frames, seen, own.xyxy[first, side]) for side in range(4)], axis=1)
        count = len(frames)
        parts.append(
            Annotations.from_rows(
                frame=frames,
                xyxy=_smooth(filled, reach=min(reach, (count - 1) // 2)),
                confidence=np.ones(count),
                label=np.full(count, own.label[0]),
                identity=np.full(count, identity),
                ignored=np.full(count, len(seen) < shortest),
            )
        )
    if not parts:
        return tracks.select(tracks.identity >= 0)
    return Annotations.from_rows(
        frame=np.concatenate([part.frame for part in parts]),
        xyxy=np.concatenate([part.xyxy for part in parts]),
        confidence=np.concatenate([part.confidence for part in parts]),
        label=np.concatenate([part.label for part in parts]),
        identity=np.concatenate([part.identity for part in parts]),
        ignored=np.concatenate([part.ignored for part in parts]),
    )


def _smooth(values: Floats, *, reach: int) -> Floats:
    """Return values (N, 4), N at least 2 reach + 1, each on the parabola through itself and its neighbours."""
    if reach < 2:  # three points lie on a parabola
        return values
    width = 2 * reach + 1
    powers = np.vander(np.arange(-reach, reach + 1), 3).astype(np.float64)
    fitted = powers @ np.linalg.pinv(powers)
    middle = np.lib.stride_tricks.sliding_window_view(values, width, axis=0) @ fitted[reach]
    return np.concatenate([fitted[:reach] @ values[:width], middle, fitted[reach + 1 :] @ values[-width:]])
