"""When the detector runs on a stream: decisions from images, and from what its last runs have found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma, Predictions
from sightline.media.boxes import Boxes, iou_pairs
from sightline_plugins.flow.luma import HalvedLuma
from sightline_plugins.infer.adaptive.allowance import Allowance
from sightline_plugins.infer.adaptive.backoff import Backoff
from sightline_plugins.infer.adaptive.budget import SECOND_NS, Budget
from sightline_plugins.infer.adaptive.loss import PredictionLoss
from sightline_plugins.infer.adaptive.motion import Mask, MotionGrid
from sightline_plugins.track.adaptive import AdaptiveTracker
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.cascade import overlap_matrix
from sightline_plugins.track.following import FollowedTracks, ReducedImage
from sightline_plugins.track.tracks import TrackState

TENTATIVE, LOST = int(TrackState.TENTATIVE), int(TrackState.LOST)
_CERTAIN = 0.7
"""Mean certainty from which a new or lost track is worth another run."""
_KNOWN_RUNS = 3
"""A track that was found on more runs than this is missed when it is gone."""
_NEIGHBOURS = 100.0
"""Objects from which the trembling of boxes is known; as time passes, they count less."""
_MEETING = 0.05
"""Overlap from which two boxes meet."""
_BEGINNING_NS = 600_000_000
"""A stream is detected on every frame for this long, until it is known whether its camera moves."""
_CALM_NS = SECOND_NS // 2
"""A camera that moved is watched for this long."""


class Reason(StrEnum):
    """Why the detector ran on a frame; also the keys of the report."""

    FIRST = "first"
    CAMERA = "camera"
    LONGEST = "longest"
    SAMPLE = "sample"
    NEW = "new"
    LOST = "lost"
    MEETING = "meeting"
    MOTION = "motion"
    INTERVAL = "interval"
    BUSY = "busy"


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """A run of the detector on the frame at `pts_ns`, of which the result is to come.

    `image` is its image, reduced: later steps may draw on the frame meanwhile. It is None where nothing is to be
    learned: while the camera moves, and where nothing is decided. `gap_ns` is the time since the run before, 0 for the
    first; `blocks` are those in which motion asked for it.
    """

    reason: Reason
    image: ReducedImage | None
    pts_ns: int
    gap_ns: int
    blocks: Mask | None


class StreamPace:
    """Decides for one stream; its decisions depend on the stream's frames and detections alone, unless `max_rate` makes
    streams share.

    For each frame, in order: `decide_by_image`, and where that leaves it open, `decide_by_tracks`, for which all runs
    with an image so far have to be passed to `learn`. `run` then notes that the detector runs.
    """

    def __init__(self, budget: Budget, allowance: Allowance) -> None:
        self.frames = 0
        self.reasons: Counter[Reason] = Counter()
        self._budget = budget
        self._allowance = allowance
        self._sample_frames = max(2, round(2 / budget.sampling))
        self._sampled = _Agreement()
        self._grid = MotionGrid((0, 0))
        self._tracker = AdaptiveTracker(AdaptiveOptions())
        self._followed = FollowedTracks()
        self._loss = PredictionLoss()
        self._backoff = Backoff()
        self._rested = False
        self._image = HalvedLuma(np.empty((0, 0), np.uint8))
        self._pts_ns: int | None = None
        self._first_ns = 0
        self._run_ns: int | None = None
        self._moved_ns: int | None = None
        self._frame_ns = 0
        self._found: Boxes = np.empty((0, 4), np.float32)
        self._met: frozenset[tuple[int, int]] = frozenset()
        self._urgent: Reason | None = None
        self._blocks: Mask | None = None
        self._ages: dict[int, int] = {}

    def decide_by_image(self, luma: Luma, *, pts_ns: int) -> Reason | None:
        """Look at the next frame, and return why the detector must run on it; None when tracks decide."""
        size_wh = (luma.shape[1], luma.shape[0])
        self.frames += 1
        before = self._pts_ns
        if size_wh != self._grid.size_wh or before is None or pts_ns < before:
            self._loss, self._backoff = PredictionLoss(), Backoff()
            self._begin(size_wh)
        frame_ns = 0 if before is None else max(0, pts_ns - before)
        self._image, self._pts_ns = HalvedLuma(luma), pts_ns
        if self._budget.max_rate is None and self._rests(before, pts_ns):
            return Reason.BUSY
        self._allowance.earn(frame_ns / SECOND_NS)
        self._grid.look(self._image, seconds=frame_ns / SECOND_NS)
        if self._run_ns is None:
            self._first_ns = pts_ns
            return Reason.FIRST
        self._frame_ns = frame_ns or self._frame_ns
        if self._grid.camera_moves:
            self._moved_ns = pts_ns
        if pts_ns - self._first_ns < _BEGINNING_NS:
            return self._granted(Reason.FIRST, need=0.9)
        elapsed_ns = pts_ns - self._run_ns
        if elapsed_ns + self._frame_ns > self._budget.max_interval:
            return self._granted(Reason.LONGEST, need=1.0)
        if self._moved_ns is not None and 0 <= pts_ns - self._moved_ns < _CALM_NS:
            return self._granted(Reason.CAMERA, need=0.9)
        if self.frames % self._sample_frames < 2:  # the second one sees how boxes tremble from frame to frame
            return self._granted(Reason.SAMPLE, need=0.5)
        return None

    def decide_by_tracks(self) -> Reason | None:
        """Return why the detector should run on the frame of the last `decide_by_image`, None when it should not."""
        assert self._pts_ns is not None
        assert self._run_ns is not None
        if self._urgent is not None:
            return self._granted(self._urgent, need=0.8)
        expected = self._tracker.predict(pts_ns=self._pts_ns)
        if self._meets(expected):
            return self._granted(Reason.MEETING, need=0.7)
        interval_ns = SECOND_NS * self._loss.interval_seconds(
            self._budget.max_loss, frame_seconds=self._frame_ns / SECOND_NS
        )
        elapsed_ns = self._pts_ns - self._run_ns
        if elapsed_ns + self._frame_ns / 2 < interval_ns:
            return None
        boxes = np.concatenate([expected.xyxy, self._found])
        self._blocks = self._grid.unexplained(boxes)
        if self._blocks.any():
            return self._granted(Reason.MOTION, need=0.6)
        if self._grid.moving(boxes):
            return self._granted(Reason.INTERVAL, need=min(0.6, 0.3 * elapsed_ns / interval_ns))
        return None

    def run(self, reason: Reason) -> Run:
        """Note that the detector runs on the last frame."""
        assert self._pts_ns is not None
        gap_ns = 0 if self._run_ns is None else self._pts_ns - self._run_ns
        image = None
        if reason is Reason.CAMERA:
            self._forget_objects()
        elif reason is not Reason.BUSY:
            image = ReducedImage.of(self._image)
        run = Run(reason, image, self._pts_ns, gap_ns, self._blocks if reason is Reason.MOTION else None)
        self.reasons[reason] += 1
        self._run_ns = self._pts_ns
        self._grid.mark()
        return run

    def learn(
        self, run: Run, xyxy: Boxes, confidence: npt.NDArray[np.float32], class_id: npt.NDArray[np.integer[Any]]
    ) -> None:
        """Take what a run with an image has found: boxes (N, 4) in pixels, confidences and classes (N,). In the order
        of runs.
        """
        assert run.image is not None
        tracker, followed = self._tracker, self._followed
        followed.look(run.image)
        is_measured = run.gap_ns > 0 and (run.reason is Reason.SAMPLE or not self._knows_trembling(run.gap_ns))
        shown = followed.follow(tracker.predict(pts_ns=run.pts_ns)) if is_measured else None
        track_id = tracker.update(xyxy, confidence, class_id.astype(np.int64), pts_ns=run.pts_ns)
        known = tracker.predict(pts_ns=run.pts_ns)
        followed.begin(known, track_id, xyxy)
        overlap = tracker.matches().certainty
        if shown is not None:
            self._measure(run, shown, track_id, xyxy)
        self._found = xyxy
        self._met = self._pairs(known)
        self._urgent = self._doubts()
        if run.blocks is not None:
            self._grid.judge(run.blocks, xyxy[np.isnan(overlap)])

    def report(self) -> Mapping[str, Any]:
        """Return what was decided and measured, for the report of the run."""
        runs = sum(self.reasons.values())
        report: dict[str, Any] = {
            "frames": self.frames,
            "detected": runs,
            "share": round(runs / max(1, self.frames), 4),
            "reasons": {reason.value: self.reasons[reason] for reason in Reason if self.reasons[reason]},
            "loss_per_second": round(self._loss.slope, 3),
        }
        if self._sampled.count:
            report["agreement"] = {"samples": self._sampled.count, "overlap": round(self._sampled.mean, 3)}
        return report

    def _begin(self, size_wh: tuple[int, int]) -> None:
        """Begin anew: another size of images, time that ran backward, or images that nothing looked at."""
        self._grid = MotionGrid(size_wh)
        self._run_ns = self._moved_ns = self._blocks = None
        self._frame_ns = 0
        self._forget_objects()

    def _forget_objects(self) -> None:
        """Know of no objects: the stream begins anew, or its camera moves."""
        self._tracker = AdaptiveTracker(AdaptiveOptions())
        self._followed = FollowedTracks()
        self._urgent = None
        self._found = self._found[:0]
        self._met = frozenset()
        self._ages = {}

    def _knows_trembling(self, gap_ns: int) -> bool:
        """Return whether a run tells only how boxes tremble from frame to frame, which is known well enough."""
        return gap_ns < 1.5 * self._frame_ns and self._loss.neighbours >= _NEIGHBOURS

    def _rests(self, before_ns: int | None, pts_ns: int) -> bool:
        """Return whether the frame is detected without looking at it, after the decision for the one before."""
        if before_ns is not None and not self._rested and before_ns - self._first_ns >= _BEGINNING_NS:
            self._backoff.count(before_ns, runs=self._run_ns == before_ns)
        rested, self._rested = self._rested, self._backoff.rests(pts_ns=pts_ns)
        if rested and not self._rested:
            self._begin(self._grid.size_wh)
        return self._rested

    def _granted(self, reason: Reason, *, need: float) -> Reason | None:
        return reason if self._allowance.spend(need) else None

    def _measure(self, run: Run, shown: Predictions, track_id: npt.NDArray[np.int64], xyxy: Boxes) -> None:
        """Compare the boxes that would have been shown of tracks with those that were found: (N, 4), their ids (N,).

        The loss is that of tracks on both sides. What is on one side only agrees with nothing, but the next frame is
        looked at just when an object has come or is missed, so it would make following look better than it is.
        """
        _, shown_row, found_row = np.intersect1d(shown.track_id, track_id, return_indices=True)
        overlap = iou_pairs(shown.xyxy[shown_row], xyxy[found_row])
        if len(overlap):
            self._loss.add(
                run.gap_ns / SECOND_NS,
                1 - float(overlap.mean()),
                frame_seconds=self._frame_ns / SECOND_NS,
                objects=len(overlap),
            )
        boxes = len(self._in_view(shown.xyxy)) + int(np.count_nonzero(track_id >= 0))
        if not boxes:
            return
        agreement = 2 * float(overlap.sum()) / boxes
        if run.reason is Reason.SAMPLE and run.gap_ns > 1.5 * self._frame_ns:
            self._sampled.add(agreement)

    def _in_view(self, xyxy: Boxes) -> Boxes:
        """Return the boxes (N, 4) that reach into the image."""
        width, height = self._grid.size_wh
        return xyxy[(xyxy[:, 2] > 0) & (xyxy[:, 3] > 0) & (xyxy[:, 0] < width) & (xyxy[:, 1] < height)]

    def _doubts(self) -> Reason | None:
        """Return whether the tracker needs to see the next frame: an object has just come, or is missed."""
        tracks, ages = self._tracker.tracks, self._ages
        doubt: Reason | None = None
        kept: dict[int, int] = {}
        rows = zip(tracks.number.tolist(), tracks.state.tolist(), tracks.mean_certainty.tolist(), strict=True)
        for number, state, certainty in rows:
            age = ages.get(number, 0)
            if state == LOST:
                if age > _KNOWN_RUNS and certainty >= _CERTAIN:
                    doubt = doubt or Reason.LOST
                kept[number] = min(age, 0)
                continue
            kept[number] = age + 1
            if state == TENTATIVE and age == 0 and certainty >= _CERTAIN:
                doubt = Reason.NEW
        self._ages = kept
        return doubt

    def _meets(self, expected: Predictions) -> bool:
        """Return whether two objects meet that were apart at the last run."""
        return not self._pairs(expected) <= self._met

    @staticmethod
    def _pairs(expected: Predictions) -> frozenset[tuple[int, int]]:
        ids, xyxy = expected.track_id, expected.xyxy
        one, other = np.nonzero(overlap_matrix(xyxy, xyxy) > _MEETING)
        return frozenset(pair for pair in zip(ids[one].tolist(), ids[other].tolist(), strict=True) if pair[0] < pair[1])


class _Agreement:
    """The running mean of sampled agreements."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0

    def add(self, agreement: float) -> None:
        self.count += 1
        self._sum += agreement

    @property
    def mean(self) -> float:
        return self._sum / self.count
