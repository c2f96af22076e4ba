"""What the trackers of the literature share: columns of tracks, a filter step for each frame, ids and their end.

They count in frames: each update is one step of the filter, whatever time has passed. Only how long a track is kept
unseen is a time (`max_lost`), as the reference implementations scale it by the frame rate. `adaptive` counts in time
throughout.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Annotated, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sightline.graph.fields import Fraction
from sightline.graph.tracker import NO_TRACK, Matches, Predictions, Tracker, TrackerOptions
from sightline.media.boxes import Boxes
from sightline.media.time import Duration
from sightline_plugins.track.cascade import Indices, Mask, Round, match_in_rounds
from sightline_plugins.track.motion import Floats, Motion
from sightline_plugins.track.tracks import Detections, MatchNotes, sorted_into_bands

Integers = npt.NDArray[np.int64]
Confidences = npt.NDArray[np.float32]
Similarity = Annotated[float, Field(gt=0, le=1)]
"""A field that holds the overlap that a pair needs; at 0 boxes that do not touch would match."""

IGNORED, LOW, HIGH = range(3)
"""Bands of confidence: detections below every limit or not finite, those from the first limit on, and from the second.
A tracker with one limit has no `HIGH` ones.
"""


class FrameTrackerOptions(TrackerOptions):
    """Options that these trackers share."""

    tells_matches: ClassVar[bool] = True

    max_lost: Duration = 1_000_000_000
    """How long a track is kept without being seen; at least for one frame, unless 0."""
    min_hits: Annotated[int, Field(ge=1)] = 2
    """Detections before a track is confirmed and gets its id."""


class BandedOptions(FrameTrackerOptions):
    """Options of trackers that match high-confidence detections first."""

    low_confidence: Fraction = 0.1
    """Detections below are not used."""
    high_confidence: Fraction = 0.6
    """Detections from here on are matched first; those below begin no track."""
    new_track_threshold: Fraction = 0.7
    """Detections from here on may begin a track."""

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.low_confidence > self.high_confidence:
            raise ValueError(
                "tracker: low_confidence must not be above high_confidence, got "
                f"{self.low_confidence} and {self.high_confidence}"
            )
        return self


@dataclass(slots=True, eq=False)
class Tracks:
    """A row for each track, oldest first; the tracker owns the columns and changes them in place."""

    mean: Floats
    """(N, 2, 4), see `motion`."""
    covariance: Floats
    """(N, 3, C), see `motion`."""
    track_id: Integers
    """-1 until the track is confirmed."""
    confidence: Confidences
    """Of the detection last seen."""
    class_id: Integers
    """Of the detection last seen."""
    best_confidence: Confidences
    """The highest of all its detections."""
    hits: Integers
    """Detections in all."""
    missed: Integers
    """Frames since the last detection: 0 after an update that saw the track."""
    seen_ns: Integers
    """When last seen, on the tracker's clock."""
    number: Integers
    """Counts all tracks, also those that never get an id."""

    def __len__(self) -> int:
        return len(self.track_id)

    def select(self, rows: Mask | Indices) -> Self:
        """Return a copy with these rows only."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    def joined(self, younger: Self) -> Self:
        """Return a copy with the rows of `younger` after these."""
        names = [field.name for field in fields(self)]
        return type(self)(*(np.concatenate([getattr(self, name), getattr(younger, name)]) for name in names))


class FrameTracker(Tracker):
    """The life of tracks, for one stream; a subclass says which pairs match and when a track is confirmed."""

    keeps_tentative: ClassVar[bool] = False
    """Whether tracks that are not confirmed outlive a frame without a detection."""

    def __init__(
        self,
        options: FrameTrackerOptions | None,
        *,
        motion: Motion,
        limits: Iterable[float],
        new_track_threshold: float,
        first_id: int,
    ) -> None:
        """Make a tracker for which bands of confidence begin at `limits`; without `options`, the subclass says when a
        track is confirmed and when it ends.
        """
        self._motion = motion
        self._limits = np.array(list(limits), np.float32)
        self._new_track_threshold = np.float32(new_track_threshold)
        self._max_lost_ns = 0 if options is None else options.max_lost
        self._min_hits = 1 if options is None else options.min_hits
        self._next_id = first_id
        self._now_ns = self._interval_ns = 0
        self._last_pts_ns: int | None = None
        self._frames = 0
        self._next_number = 0
        self._notes = MatchNotes(0)
        none = np.empty(0, np.int64)
        self._tracks = self._begun(np.empty((0, 4), np.float32), confidence=none.astype(np.float32), class_id=none)

    @abstractmethod
    def _rounds(self, boxes: Boxes, seen: Detections) -> Iterable[Round]:
        """Return the rounds that match the tracks, expected at `boxes`, with the detections."""

    def _is_confirmed(self, rows: Indices) -> Mask:
        """Return which of the tracks `rows`, just seen or begun, deserve an id."""
        enough: Mask = self._tracks.hits[rows] >= self._min_hits
        return enough

    def update(
        self, xyxy: Boxes, confidence: Confidences, class_id: npt.NDArray[np.integer], *, pts_ns: int
    ) -> Integers:
        """Match the detections of the frame at `pts_ns`, and return their confirmed tracks.

        Time that stands still or runs backward counts as no time passed. Detections that are not finite are ignored.
        Raises ValueError on wrong shapes.
        """
        seen = sorted_into_bands(xyxy, confidence=confidence, class_id=class_id, limits=self._limits)
        self._interval_ns = self._elapsed_ns(pts_ns)
        self._last_pts_ns = pts_ns
        self._now_ns += self._interval_ns
        self._frames += 1
        track_id = np.full(len(seen), NO_TRACK, np.int64)
        columns = np.empty(0, np.int64)
        self._notes = MatchNotes(len(seen))
        if len(self._tracks):
            self._advance()
            boxes = self._motion.boxes(self._tracks.mean[:, 0])
            rounds = self._rounds(boxes, seen) if len(seen) else ()
            rows, columns = match_in_rounds(rounds, tracks=len(self._tracks), detections=len(seen))
            if len(rows):
                number = self._tracks.number[rows]
                self._notes.matched(columns, number, expected=boxes[rows], seen=seen.xyxy[columns])
                self._see(rows, columns, seen)
                track_id[columns] = self._shown_ids(rows)
            self._drop_ended()
        self._begin(seen, matched=columns, track_id=track_id)
        return track_id

    def matches(self) -> Matches:
        """Return which track each detection of the last update belongs to, and how well it fits."""
        return self._notes.matches()

    def predict(self, *, pts_ns: int) -> Predictions:
        """Return the confirmed tracks seen by the last update, moved to `pts_ns`; none after `max_lost`."""
        elapsed_ns = self._elapsed_ns(pts_ns)
        rows = (self._tracks.missed == 0).nonzero()[0]
        rows = rows[self._shown_ids(rows) != NO_TRACK]
        if elapsed_ns > max(self._max_lost_ns, self._interval_ns):
            rows = rows[:0]
        frames = elapsed_ns / self._interval_ns if self._interval_ns else 0.0
        mean = self._tracks.mean[rows]
        return Predictions(
            track_id=self._tracks.track_id[rows],
            xyxy=self._expected(mean, frames),
            confidence=self._tracks.confidence[rows],
            class_id=self._tracks.class_id[rows],
        )

    def _expected(self, mean: Floats, frames: float) -> Boxes:
        """Return the boxes of tracks with this mean (N, 2, 4) after so many frames."""
        return self._motion.boxes(mean[:, 0] + mean[:, 1] * frames)

    def _elapsed_ns(self, pts_ns: int) -> int:
        return 0 if self._last_pts_ns is None else max(0, pts_ns - self._last_pts_ns)

    def _advance(self) -> None:
        """Move the tracks by one frame."""
        self._motion.predict(self._tracks.mean, self._tracks.covariance)
        self._tracks.missed += 1

    def _see(self, rows: Indices, columns: Indices, seen: Detections) -> None:
        """Correct the tracks `rows` by the detections `columns`, and give ids to those that are confirmed now."""
        tracks, position = self._tracks, self._motion.measured(seen.xyxy[columns])
        tracks.mean[rows], tracks.covariance[rows] = self._motion.correct(
            tracks.mean[rows], tracks.covariance[rows], position
        )
        confidence = seen.confidence[columns]
        tracks.confidence[rows] = confidence
        tracks.best_confidence[rows] = np.maximum(tracks.best_confidence[rows], confidence)
        tracks.class_id[rows] = seen.class_id[columns]
        tracks.hits[rows] += 1
        tracks.missed[rows] = 0
        tracks.seen_ns[rows] = self._now_ns
        self._confirm(np.sort(rows))

    def _confirm(self, rows: Indices) -> None:
        """Give ids to those of the tracks `rows`, just seen or begun, that deserve one and have none."""
        nameless = rows[self._tracks.track_id[rows] == NO_TRACK]
        if len(nameless):
            confirmed = nameless[self._is_confirmed(nameless)]
            self._tracks.track_id[confirmed] = np.arange(self._next_id, self._next_id + len(confirmed))
            self._next_id += len(confirmed)

    def _shown_ids(self, rows: Indices) -> Integers:
        """Return the ids that the tracks `rows`, just seen, have in the result."""
        return self._tracks.track_id[rows]

    def _drop_ended(self) -> None:
        """Drop tracks that were lost for too long by the last frame already, and tentative ones that were not seen."""
        tracks = self._tracks
        if not tracks.missed.any():
            return
        kept = tracks.seen_ns > self._now_ns - self._interval_ns - self._max_lost_ns
        if not self.keeps_tentative:
            kept &= tracks.track_id != NO_TRACK
        kept |= tracks.missed == 0
        if not kept.all():
            self._keep(kept)

    def _keep(self, kept: Mask) -> None:
        """Keep only these tracks."""
        self._tracks = self._tracks.select(kept)

    def _begin(self, seen: Detections, *, matched: Indices, track_id: Integers) -> None:
        """Begin tracks with detections that match none; write their ids to `track_id` if confirmed at once."""
        beginning = (seen.confidence >= self._new_track_threshold) & (seen.band != IGNORED)
        beginning[matched] = False
        columns = beginning.nonzero()[0]
        if not len(columns):
            return
        first = len(self._tracks)
        self._append(seen, columns)
        rows = np.arange(first, len(self._tracks))
        self._notes.begun(columns, self._tracks.number[rows])
        self._confirm(rows)
        track_id[columns] = self._tracks.track_id[rows]

    def _append(self, seen: Detections, columns: Indices) -> None:
        """Begin tracks with the detections `columns`."""
        begun = self._begun(seen.xyxy[columns], confidence=seen.confidence[columns], class_id=seen.class_id[columns])
        self._tracks = self._tracks.joined(begun)

    def _begun(self, xyxy: Boxes, *, confidence: Confidences, class_id: Integers) -> Tracks:
        mean, covariance = self._motion.initiate(xyxy)
        count = len(xyxy)
        first, self._next_number = self._next_number, self._next_number + count
        return Tracks(
            mean=mean,
            covariance=covariance,
            track_id=np.full(count, NO_TRACK, np.int64),
            confidence=confidence,
            class_id=class_id,
            best_confidence=confidence.copy(),
            hits=np.ones(count, np.int64),
            missed=np.zeros(count, np.int64),
            seen_ns=np.full(count, self._now_ns, np.int64),
            number=np.arange(first, self._next_number, dtype=np.int64),
        )
