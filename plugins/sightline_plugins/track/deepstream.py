"""`deepstream`: the life of targets in NvMultiObjectTracker of DeepStream, which is counted in frames.

A target is tentative until its age, the frames since its first one, reaches `probation_age`. A tentative target ends
when it was not seen for `early_termination_age` frames. An active one that is not seen goes into the shadow, keeps its
id, and ends when it was not seen for more than `max_shadow_age` frames. A detection begins a target only where no
target is. Association is by overlap: greedy, or cascaded as in NvSORT: sure detections with validated targets, then
unsure ones with those that were seen on the frame before, then sure ones with tentative targets. Semantics and defaults
are those of DeepStream 9.1 (NvMultiObjectTracker's `TargetManagement` and `DataAssociator`). Correlation filters and
embeddings are not part of it: `adaptive` has these.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from sightline.graph.fields import Fraction
from sightline.graph.tracker import NO_TRACK, Tracker, TrackerOptions
from sightline.media.boxes import Boxes
from sightline_plugins.track.cascade import Floats, Indices, Mask, PairMatcher, Pairwise, Round, Way, overlaps
from sightline_plugins.track.frame_tracker import HIGH, IGNORED, LOW, FrameTracker, Integers, Tracks
from sightline_plugins.track.iou import STANDING
from sightline_plugins.track.motion import CornerMotion
from sightline_plugins.track.tracks import Column, Detections

Age = Annotated[int, Field(ge=0, le=100_000)]
"""A number of frames."""
_ANY_OVERLAP = 1e-6
"""What a threshold of 0 asks for: boxes that do not touch never match."""


class DeepStreamOptions(TrackerOptions):
    """Options of `DeepStreamTracker`, to compare numbers with an installation of DeepStream."""

    name: ClassVar[str] = "deepstream"
    tells_matches: ClassVar[bool] = True

    probation_age: Age = 3
    """Frames after its first one until a target gets its id (`probationAge`)."""
    early_termination_age: Age = 1
    """Frames without a detection that end a target without an id (`earlyTerminationAge`)."""
    max_shadow_age: Age = 30
    """Frames without a detection for which a target with an id is kept (`maxShadowTrackingAge`)."""
    new_target_iou: Fraction = 0.5
    """A detection begins a target only if it overlaps every other one by less than this (`minIouDiff4NewTarget`)."""
    low_confidence: Fraction = 0.0
    """Detections below are not used (`minDetectorConfidence`)."""
    matching: Literal["greedy", "cascaded"] = "greedy"
    """How detections and targets are matched (`associationMatcherType`)."""
    high_confidence: Fraction = 0.5
    """With `cascaded`: detections below are unsure (`tentativeDetectorConfidence`)."""
    min_iou: Fraction = 0.0
    """Overlap (IoU) that a pair needs (`minMatchingScore4Iou`)."""
    tentative_min_iou: Fraction = 0.0
    """With `cascaded`: the overlap that unsure detections and targets without an id need
    (`minMatchingScore4TentativeIou`)."""
    same_class: bool = True
    """Whether a target has detections of its class only (`checkClassMatch`)."""
    motion: Literal["kalman", "none"] = "kalman"
    """Whether targets are expected where they move (`stateEstimatorType`)."""

    def build(self, *, first_id: int = 1) -> Tracker:
        """Make the tracker of one stream."""
        return DeepStreamTracker(self, first_id=first_id)


class AgedTracks(Tracks):
    """Tracks with the number of the frame on which each began."""

    begun: Column[Integers] = Column()


class DeepStreamTracker(FrameTracker):
    """Targets of DeepStream, for one stream."""

    keeps_tentative: ClassVar[bool] = True
    columns_of_tracks = AgedTracks
    tracks: AgedTracks

    def __init__(self, options: DeepStreamOptions, *, first_id: int = 1) -> None:
        is_cascaded = options.matching == "cascaded"
        limits = (options.low_confidence, max(options.low_confidence, options.high_confidence))
        super().__init__(
            None,
            motion=CornerMotion() if options.motion == "kalman" else STANDING,
            limits=limits if is_cascaded else limits[:1],
            new_track_threshold=limits[1] if is_cascaded else limits[0],
            first_id=first_id,
            more_columns=[("begun", np.int64)],
        )
        self._options = options

    def _rounds(self, boxes: Boxes, seen: Detections) -> Iterable[Round]:
        options, similarity = self._options, self._similarity(boxes, seen)
        least = max(options.min_iou, _ANY_OVERLAP)
        if options.matching == "greedy":
            every = np.ones(len(boxes), np.bool_)
            yield Round(every, seen.band != IGNORED, similarity, least, way=Way.GREEDY)
            return
        validated = self.tracks.track_id != NO_TRACK
        unsure = max(options.tentative_min_iou, _ANY_OVERLAP)
        yield Round(validated, seen.band == HIGH, similarity, least)
        yield Round(validated & (self.tracks.missed == 1), seen.band == LOW, similarity, unsure)
        yield Round(~validated, seen.band == HIGH, similarity, unsure)

    def _similarity(self, boxes: Boxes, seen: Detections) -> Pairwise:
        """Return the overlap of pairs; 0 for those of different classes, where these are kept apart."""
        overlap = overlaps(boxes, seen.xyxy)
        if not self._options.same_class:
            return overlap
        of_tracks, of_seen = self.tracks.class_id, seen.class_id

        def within_classes(rows: Indices, columns: Indices) -> Floats:
            return np.where(of_tracks[rows] == of_seen[columns], overlap(rows, columns), np.float32(0))

        return within_classes

    def _is_confirmed(self, rows: Indices) -> Mask:
        old: Mask = self._of_tracks("frames", rows) - self.tracks.begun[rows] >= self._options.probation_age
        return old

    def _drop_ended(self) -> None:
        """Drop tentative targets that were missed too often, and active ones whose time in the shadow is over."""
        tracks, options = self.tracks, self._options
        is_tentative = tracks.track_id == NO_TRACK
        ended = is_tentative & (tracks.missed >= max(options.early_termination_age, 1))
        ended |= ~is_tentative & (tracks.missed > options.max_shadow_age)
        if ended.any():
            self._keep(~ended)

    def _longest_lost_ns(self, interval_ns: int) -> int:
        return self._options.max_shadow_age * interval_ns

    def _begin(self, seen: Detections, of_seen: Indices, *, matched: Indices, track_id: Integers) -> None:
        """Begin targets with detections that match none, and overlap none."""
        tracks = self.tracks
        if len(tracks) and len(matched) < len(seen):
            every, free = np.ones(len(tracks), np.bool_), np.ones(len(seen), np.bool_)
            free[matched] = False
            rows, columns = PairMatcher(tracks.stream, of_seen).pairs(every, free)
            overlap = overlaps(self._motion.boxes(tracks.mean[:, 0]), seen.xyxy)(rows, columns)
            matched = np.union1d(matched, columns[overlap >= self._options.new_target_iou])
        super()._begin(seen, of_seen, matched=matched, track_id=track_id)

    def _fill(self, begun: Tracks, xyxy: Boxes) -> None:
        del xyxy
        assert isinstance(begun, AgedTracks)
        begun.begun[:] = self.streams["frames"][begun.stream]
