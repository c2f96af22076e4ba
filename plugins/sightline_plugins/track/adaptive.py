"""The default tracker: associate detections with tracks by the overlap of their boxes, at any frame rate.

It takes its rounds from ByteTrack (Zhang et al., "ByteTrack: Multi-Object Tracking by Associating Every Detection Box",
ECCV 2022): tracks are matched first to detections of high certainty, then the remaining ones to those of low certainty,
which are mostly objects half hidden. What makes it adapt:

- confidences are read relative to what the detector usually gives, so that one set of thresholds serves weak and
  strong detectors: that is the running median of the confidences of confirmed tracks, and a detection as sure as that
  has a certainty of 0.95 (`detections.c`);
- real time instead of frame counts, in the life of tracks as in the Kalman filter;
- boxes that are enlarged in a last round by the way that the object may have gone since the last frame, which is much
  at low frame rates (after the buffered IoU of Yang et al., "Hard to Track Objects with Irregular Motions and Similar
  Appearances? Make It Easier by Buffering the Matching Space", WACV 2023);
- confirmation on evidence: an object of low certainty needs more detections;
- a running mean of each track's certainty, which decides what is low for it (track confidence as in Yang et al.,
  "Hybrid-SORT: Weak Cues Matter for Online Multi-Object Tracking", AAAI 2024);
- low certainty as measurement noise, and a preference for the same class;
- with `appearance`, a gallery of all tracks, from which an object that was away gets its id (`gallery.py`).

What every frame needs is in C (`adaptive.c`, `matching.c`, `detections.c`); what options add comes in between.

Defaults were chosen on public and made sequences at several frame rates (docs/benchmarks/tracking.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import Luma, Matches, Predictions, Tracker, Vectors
from sightline_plugins.flow.camera_motion import CameraMotion
from sightline_plugins.track.adaptive_appearance import AdaptiveAppearance
from sightline_plugins.track.adaptive_memory import AdaptiveMemory, track_by_boxes
from sightline_plugins.track.adaptive_options import AdaptiveOptions, MatchingThresholds
from sightline_plugins.track.kalman import MotionModel, expected_boxes, predict
from sightline_plugins.track.tracks import Integers, TrackColumns, TrackState
from sightline_plugins.track.visual import FollowerModel, VisualFollower

NANOSECOND = 1e-9
TRACKED = int(TrackState.TRACKED)


class AdaptiveTracker(Tracker):
    """The default tracker, for one stream; ids count 1, 2, 3, ...

    >>> tracker = AdaptiveTracker(AdaptiveOptions())
    >>> box = np.array([[10, 10, 50, 90]], np.float32)
    >>> for frame in range(3):
    ...     seen = tracker.update(box + frame, np.array([0.9]), np.array([0]), pts_ns=frame * 40_000_000)
    >>> seen
    array([1])
    """

    def __init__(
        self,
        options: AdaptiveOptions,
        *,
        first_id: int = 1,
        thresholds: MatchingThresholds | None = None,
        motion: MotionModel | None = None,
        follower: FollowerModel | None = None,
    ) -> None:
        self._motion = motion or MotionModel()
        self.memory = AdaptiveMemory(options, thresholds or MatchingThresholds(), self._motion, first_id=first_id)
        self._camera = CameraMotion() if options.camera_motion else None
        self._follower = VisualFollower(follower) if options.visual else None
        self._appearance = AdaptiveAppearance(options) if options.appearance else None
        self.goes_by_boxes = not (options.needs_images or options.needs_appearance)

    @property
    def ended_ids(self) -> Integers:
        """Confirmed tracks that the last update gave up; their ids come again only where an object is recognized."""
        return self.memory.ended_ids

    @property
    def tracks(self) -> TrackColumns:
        """Copy of all tracks after the last update, including tentative and lost ones."""
        return self.memory.tracks.copy()

    def look(self, image: Luma) -> None:
        """Note how the camera moved since the frame before, and where to search for the objects."""
        if self._camera is not None:
            self._camera.look(image)
        if self._follower is not None:
            self._follower.look(image)

    def compare_by(self, appearance: Vectors) -> None:
        """Take the embeddings of the next detections."""
        if self._appearance is not None:
            self._appearance.take(appearance, tracks=len(self.memory.tracks))

    def update(
        self,
        xyxy: npt.NDArray[np.float32],
        confidence: npt.NDArray[np.float32],
        class_id: npt.NDArray[np.integer],
        *,
        pts_ns: int,
    ) -> Integers:
        """Match the detections of the frame at `pts_ns` and return their confirmed tracks.

        Time that stands still or runs backward counts as no time passed. Detections that are not finite are ignored.
        Raises ValueError on wrong shapes.
        """
        if self.goes_by_boxes:
            return track_by_boxes([self.memory], xyxy, confidence, class_id, ends=[len(xyxy)], pts_ns=[pts_ns])
        self.memory.take(xyxy, confidence, class_id)
        self._track_with_options(pts_ns)
        return self.memory.track_id

    @classmethod
    def update_batch(
        cls,
        trackers: Sequence[Self],
        xyxy: npt.NDArray[np.float32],
        confidence: npt.NDArray[np.float32],
        class_id: Integers,
        *,
        ends: Sequence[int],
        pts_ns: Sequence[int],
    ) -> Integers:
        """Track the detections of a batch, in one call where trackers go by boxes alone."""
        if trackers and not trackers[0].goes_by_boxes:
            return super().update_batch(trackers, xyxy, confidence, class_id, ends=ends, pts_ns=pts_ns)
        memories = [one.memory for one in trackers]
        return track_by_boxes(memories, xyxy, confidence, class_id, ends=ends, pts_ns=pts_ns)

    def matches(self) -> Matches:
        """Return which track each detection of the last update belongs to, and how well it fits."""
        seen = self.memory.detections
        return Matches(seen.number.copy(), seen.overlap.copy())

    def predict(self, *, pts_ns: int) -> Predictions:
        """Return the confirmed tracks seen by the last update, moved to `pts_ns`; none after `max_lost`.

        With `visual`, all tracks move to where the image of this frame shows them; asked again, it answers the same.
        """
        memory, tracks = self.memory, self.memory.tracks
        elapsed_ns = memory.elapsed_ns(pts_ns)
        is_current = elapsed_ns <= memory.longest_lost_ns()
        if self._follower is not None and self._follower.is_waiting and is_current:
            ahead_ns, memory.moved_ns = memory.ahead_ns(pts_ns), pts_ns
            self._move(tracks, ahead_ns)
            self._follower.correct(tracks, now_ns=memory.now_ns + elapsed_ns)
            self._follower.forget_image()
        rows = (tracks.state == TRACKED).nonzero()[0]
        if not is_current:
            rows = rows[:0]
        filters = tracks.filter[rows]
        dt_seconds = memory.ahead_ns(pts_ns) * NANOSECOND
        predict(filters, area=tracks.area[rows], dt_seconds=dt_seconds, model=self._motion)
        if self._camera is not None:
            mean = filters["mean"]
            mean[:, 0, :2], _ = self._camera.follow(mean[:, 0, :2], mean[:, 1, :2])
        xyxy, certainty = expected_boxes(filters)
        return Predictions(
            track_id=tracks.track_id[rows],
            xyxy=xyxy,
            confidence=tracks.confidence[rows],
            class_id=tracks.class_id[rows],
            certainty=certainty,
        )

    def _track_with_options(self, pts_ns: int) -> None:
        """Track the detections by their boxes, and by images and embeddings."""
        memory, appearance = self.memory, self._appearance
        memory.begin(pts_ns=pts_ns)
        if appearance is not None:
            appearance.keep(memory.tracks.row)
        if self._camera is not None:
            self._follow_camera(self._camera, memory.tracks)
        if self._follower is None:
            self._match()
        else:
            self._match_where_seen(self._follower)
        memory.correct()
        if appearance is not None:
            appearance.correct(memory.tracks, memory.detections, now_ns=memory.now_ns)
        memory.end()
        if appearance is not None:
            appearance.end(memory.tracks, memory.detections, next_number=memory.next_number, now_ns=memory.now_ns)
        if self._follower is not None:
            self._follower.learn(memory.tracks)

    def _move(self, tracks: TrackColumns, ahead_ns: int) -> None:
        """Move the tracks ahead in time, and by the motion of the camera."""
        if ahead_ns and len(tracks):
            filters = tracks.filter.copy()
            predict(filters, area=tracks.area, dt_seconds=ahead_ns * NANOSECOND, model=self._motion)
            tracks.filter[:] = filters
        if self._camera is not None:
            self._follow_camera(self._camera, tracks)

    def _follow_camera(self, camera: CameraMotion, tracks: TrackColumns) -> None:
        mean = tracks.mean
        mean[:, 0, :2], mean[:, 1, :2] = camera.follow(mean[:, 0, :2], mean[:, 1, :2])
        camera.restart()

    def _match_where_seen(self, follower: VisualFollower) -> None:
        """Match detections with tracks where the image shows these. Tracks that match stay where they were expected,
        because what they match is the better measurement.
        """
        tracks = self.memory.tracks
        expected = tracks.filter.copy()
        follower.correct(tracks, now_ns=self.memory.now_ns)
        self._match()
        rows = (tracks.detection >= 0).nonzero()[0]
        tracks.filter[rows] = expected[rows]

    def _match(self) -> None:
        memory = self.memory
        if self._appearance is None:
            memory.match()
            return
        support = self._appearance.compare(memory.tracks)
        memory.match(support=support)
        self._appearance.recognise(memory.tracks, memory.detections)
