"""What the trackers of the literature share: columns of tracks, a filter step for each frame, ids and their end.

They count in frames: each update is one step of the filter, whatever time has passed. Only how long a track is kept
unseen is a time (`max_lost`), as the reference implementations scale it by the frame rate. `adaptive` counts in time
throughout.

All streams of a batch are worked on at once: each stream keeps its rows of tracks, they are joined for the batch,
stream by stream, and divided again. A calculation that is one call of NumPy for a stream is one call for sixteen, and
gives every row the same value to the bit.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from sightline.graph.fields import Fraction
from sightline.graph.tracker import NO_TRACK, Matches, Predictions, Tracker, TrackerOptions
from sightline.media.boxes import Boxes
from sightline.media.time import Duration
from sightline_plugins.track.cascade import Indices, Mask, PairMatcher, Round
from sightline_plugins.track.motion import Floats, Motion
from sightline_plugins.track.tracks import Column, Detections, MatchNotes, Records, joined, sorted_into_bands

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


STREAM = np.dtype(
    [
        (name, np.int64)
        for name in ("next_id", "next_number", "now_ns", "interval_ns", "last_pts_ns", "frames", "active_frames")
    ]
)
"""What a tracker counts of a stream. `now_ns` is the sum of all intervals, `last_pts_ns` the time of the last update
where `frames` is above 0, and `active_frames` the frames so far with detections or tracks."""


def track_type(motion: Motion, *more: tuple[Any, ...]) -> np.dtype[np.void]:
    """Return the type of the rows of `Tracks`, with further columns."""
    return np.dtype(
        [
            ("mean", np.float64, (2, 4)),
            ("covariance", np.float64, (3, motion.noise_columns)),
            *((name, np.float32) for name in ("confidence", "best_confidence")),
            *((name, np.int64) for name in ("track_id", "class_id", "hits", "missed", "seen_ns", "number", "stream")),
            *more,
        ]
    )


class Tracks(Records):
    """A row for each track, stream by stream, oldest first; the tracker owns the rows and changes them in place."""

    mean: Column[Floats] = Column()
    """(N, 2, 4), see `motion`."""
    covariance: Column[Floats] = Column()
    """(N, 3, C), see `motion`."""
    confidence: Column[Confidences] = Column()
    """Of the detection last seen."""
    best_confidence: Column[Confidences] = Column()
    """The highest of all its detections."""
    track_id: Column[Integers] = Column()
    """-1 until the track is confirmed."""
    class_id: Column[Integers] = Column()
    """Of the detection last seen."""
    hits: Column[Integers] = Column()
    """Detections in all."""
    missed: Column[Integers] = Column()
    """Frames since the last detection: 0 after an update that saw the track."""
    seen_ns: Column[Integers] = Column()
    """When last seen, on the tracker's clock."""
    number: Column[Integers] = Column()
    """Counts all tracks of the stream, also those that never get an id."""
    stream: Column[Integers] = Column()
    """The number of its stream among those that are tracked together; 0 outside of that."""


class FrameTracker(Tracker):
    """The life of tracks; a subclass says which pairs match and when a track is confirmed.

    It is the tracker of one stream, and for the time of a batch a copy of it is that of several: then `streams` has a
    row for each, `tracks` the tracks of all, and what subclasses compute holds for all of them.
    """

    keeps_tentative: ClassVar[bool] = False
    """Whether tracks that are not confirmed outlive a frame without a detection."""
    columns_of_tracks: ClassVar[type[Tracks]] = Tracks

    def __init__(
        self,
        options: FrameTrackerOptions | None,
        *,
        motion: Motion,
        limits: Iterable[float],
        new_track_threshold: float,
        first_id: int,
        more_columns: Iterable[tuple[Any, ...]] = (),
    ) -> None:
        """Make a tracker for which bands of confidence begin at `limits`; without `options`, the subclass says when a
        track is confirmed and when it ends. Its tracks have `more_columns`.
        """
        self._motion = motion
        self.limits = np.array(list(limits), np.float32)
        self._new_track_threshold = np.float32(new_track_threshold)
        self._max_lost_ns = 0 if options is None else options.max_lost
        self._min_hits = 1 if options is None else options.min_hits
        self.goes_by_boxes = options is None or not (options.needs_images or options.needs_appearance)
        self.streams = np.zeros(1, STREAM)
        self.streams["next_id"] = first_id
        self.tracks = self.columns_of_tracks(np.empty(0, track_type(motion, *more_columns)))
        self.notes, self.noted = MatchNotes(0), slice(0, 0)

    @abstractmethod
    def _rounds(self, boxes: Boxes, seen: Detections) -> Iterable[Round]:
        """Return the rounds that match the tracks, expected at `boxes`, with the detections."""

    def _is_confirmed(self, rows: Indices) -> Mask:
        """Return which of the tracks `rows`, just seen or begun, deserve an id."""
        enough: Mask = self.tracks.hits[rows] >= self._min_hits
        return enough

    def update(
        self, xyxy: Boxes, confidence: Confidences, class_id: npt.NDArray[np.integer], *, pts_ns: int
    ) -> Integers:
        """Match the detections of the frame at `pts_ns`, and return their confirmed tracks.

        Time that stands still or runs backward counts as no time passed. Detections that are not finite are ignored.
        Raises ValueError on wrong shapes.
        """
        seen = sorted_into_bands(xyxy, confidence=confidence, class_id=class_id, limits=self.limits)
        track_id = self.track_frames(seen, np.zeros(len(seen), np.int64), pts_ns=[pts_ns])
        self.noted = slice(0, len(seen))
        return track_id

    @classmethod
    def update_batch(
        cls,
        trackers: Sequence[Self],
        xyxy: Boxes,
        confidence: Confidences,
        class_id: Integers,
        *,
        ends: Sequence[int],
        pts_ns: Sequence[int],
    ) -> Integers:
        """Match the detections of several frames, those of different streams together; see `Tracker.update_batch`."""
        if len(trackers) < 2 or not trackers[0].goes_by_boxes:
            return super().update_batch(trackers, xyxy, confidence, class_id, ends=ends, pts_ns=pts_ns)
        seen = sorted_into_bands(xyxy, confidence=confidence, class_id=class_id, limits=trackers[0].limits)
        found = np.empty(len(seen), np.int64)
        bounds, first = [0, *ends], 0
        while first < len(trackers):
            last = first + _distinct(trackers[first:])
            own = slice(bounds[first], bounds[last])
            found[own] = cls._update_together(
                trackers[first:last],
                Detections(seen.records[own]),
                counts=np.diff(bounds[first : last + 1]),
                pts_ns=pts_ns[first:last],
            )
            first = last
        return found

    @classmethod
    def _update_together(
        cls, trackers: Sequence[Self], seen: Detections, *, counts: Integers, pts_ns: Sequence[int]
    ) -> Integers:
        """Match the detections of one frame of each of these trackers."""
        streams = np.arange(len(trackers))
        together = copy(trackers[0])
        together.streams = joined([one.streams for one in trackers])
        together.tracks = cls.columns_of_tracks(joined([one.tracks.records for one in trackers]))
        together.tracks.stream[:] = np.repeat(streams, [len(one.tracks) for one in trackers])
        track_id = together.track_frames(seen, np.repeat(streams, counts), pts_ns=pts_ns)
        tracks, of_tracks = together.tracks.records, together.tracks.stream
        if not (of_tracks[1:] >= of_tracks[:-1]).all():  # tracks have begun
            tracks = tracks[np.argsort(of_tracks, kind="stable")]
        bounds = np.searchsorted(tracks["stream"], [*streams, len(trackers)]).tolist()
        noted = [0, *np.cumsum(counts).tolist()]
        tracks["stream"] = 0
        for number, one in enumerate(trackers):
            one.streams = together.streams[number : number + 1]
            one.tracks = cls.columns_of_tracks(tracks[bounds[number] : bounds[number + 1]])
            one.notes, one.noted = together.notes, slice(noted[number], noted[number + 1])
        return track_id

    def track_frames(self, seen: Detections, of_seen: Indices, *, pts_ns: Sequence[int]) -> Integers:
        """Match the detections of a frame of each stream; `of_seen` (N,) are their streams, which ascend."""
        self._pass_time(pts_ns)
        track_id = np.full(len(seen), NO_TRACK, np.int64)
        columns = np.empty(0, np.int64)
        self.notes = MatchNotes(len(seen))
        if len(self.tracks):
            self._advance()
            boxes = self._motion.boxes(self.tracks.mean[:, 0])
            if len(seen):
                rows, columns = PairMatcher(self.tracks.stream, of_seen).matched(self._rounds(boxes, seen))
                if len(rows):
                    number = self.tracks.number[rows]
                    self.notes.matched(columns, number, expected=boxes[rows], seen=seen.xyxy[columns])
                    self._see(rows, columns, seen)
                    track_id[columns] = self._shown_ids(rows)
            self._drop_ended()
        self._begin(seen, of_seen, matched=columns, track_id=track_id)
        return track_id

    def matches(self) -> Matches:
        """Return which track each detection of the last update belongs to, and how well it fits."""
        return self.notes.matches(self.noted)

    def predict(self, *, pts_ns: int) -> Predictions:
        """Return the confirmed tracks seen by the last update, moved to `pts_ns`; none after `max_lost`."""
        (elapsed_ns,), (interval_ns,) = self._elapsed_ns([pts_ns]), self.streams["interval_ns"].tolist()
        rows = (self.tracks.missed == 0).nonzero()[0]
        rows = rows[self._shown_ids(rows) != NO_TRACK]
        if elapsed_ns > max(self._longest_lost_ns(interval_ns), interval_ns):
            rows = rows[:0]
        frames = elapsed_ns / interval_ns if interval_ns else 0.0
        mean = self.tracks.mean[rows]
        return Predictions(
            track_id=self.tracks.track_id[rows],
            xyxy=self._expected(mean, frames),
            confidence=self.tracks.confidence[rows],
            class_id=self.tracks.class_id[rows],
        )

    def _expected(self, mean: Floats, frames: float) -> Boxes:
        """Return the boxes of tracks with this mean (N, 2, 4) after so many frames."""
        return self._motion.boxes(mean[:, 0] + mean[:, 1] * frames)

    def _longest_lost_ns(self, interval_ns: int) -> int:
        """Return for how long tracks are expected after the last update, which came so long after the one before."""
        del interval_ns
        return self._max_lost_ns

    def _of_tracks(self, name: str, rows: Indices | slice = slice(None)) -> Integers:
        """Return what is counted of the stream of each of the tracks `rows`."""
        counted: Integers = self.streams[name][self.tracks.stream[rows]]
        return counted

    def _pass_time(self, pts_ns: Sequence[int]) -> None:
        """Begin a frame of each stream."""
        streams = self.streams
        streams["interval_ns"] = self._elapsed_ns(pts_ns)
        streams["last_pts_ns"] = pts_ns
        streams["now_ns"] += streams["interval_ns"]
        streams["frames"] += 1

    def _elapsed_ns(self, pts_ns: Sequence[int]) -> list[int]:
        """Return the time of each stream from its last update on."""
        known = zip(pts_ns, self.streams["last_pts_ns"].tolist(), self.streams["frames"].tolist(), strict=True)
        return [max(0, now - last) if frames else 0 for now, last, frames in known]

    def _advance(self) -> None:
        """Move the tracks by one frame."""
        self._motion.predict(self.tracks.mean, self.tracks.covariance)
        self.tracks.missed[:] += 1

    def _see(self, rows: Indices, columns: Indices, seen: Detections) -> None:
        """Correct the tracks `rows` by the detections `columns`, and give ids to those that are confirmed now."""
        tracks, position = self.tracks, self._motion.measured(seen.xyxy[columns])
        self._motion.correct(tracks.mean, tracks.covariance, rows, position)
        confidence = seen.confidence[columns]
        tracks.confidence[rows] = confidence
        tracks.best_confidence[rows] = np.maximum(tracks.best_confidence[rows], confidence)
        tracks.class_id[rows] = seen.class_id[columns]
        tracks.hits[rows] += 1
        tracks.missed[rows] = 0
        tracks.seen_ns[rows] = self._of_tracks("now_ns", rows)
        self._confirm(np.sort(rows))

    def _confirm(self, rows: Indices) -> None:
        """Give ids to those of the tracks `rows`, just seen or begun and in order, that deserve one and have none."""
        nameless = rows[self.tracks.track_id[rows] == NO_TRACK]
        if len(nameless):
            confirmed = nameless[self._is_confirmed(nameless)]
            self.tracks.track_id[confirmed] = self._next("next_id", self.tracks.stream[confirmed])

    def _next(self, name: str, streams: Indices) -> Integers:
        """Return the next numbers of these streams (N,), which ascend, and count on."""
        counts = np.bincount(streams, minlength=len(self.streams))
        first = self.streams[name] - (np.cumsum(counts) - counts)
        self.streams[name] += counts
        numbers: Integers = first[streams] + np.arange(len(streams))
        return numbers

    def _shown_ids(self, rows: Indices) -> Integers:
        """Return the ids that the tracks `rows`, just seen, have in the result."""
        return self.tracks.track_id[rows]

    def _drop_ended(self) -> None:
        """Drop tracks that were lost for too long by the last frame already, and tentative ones that were not seen."""
        tracks = self.tracks
        if not tracks.missed.any():
            return
        oldest_ns = self.streams["now_ns"] - self.streams["interval_ns"] - self._max_lost_ns
        kept = tracks.seen_ns > oldest_ns[tracks.stream]
        if not self.keeps_tentative:
            kept &= tracks.track_id != NO_TRACK
        kept |= tracks.missed == 0
        if not kept.all():
            self._keep(kept)

    def _keep(self, kept: Mask) -> None:
        """Keep only these tracks."""
        self.tracks = type(self.tracks)(self.tracks.records[kept])

    def _begin(self, seen: Detections, of_seen: Indices, *, matched: Indices, track_id: Integers) -> None:
        """Begin tracks with detections that match none; write their ids to `track_id` if confirmed at once."""
        beginning = (seen.confidence >= self._new_track_threshold) & (seen.band != IGNORED)
        beginning[matched] = False
        columns = beginning.nonzero()[0]
        if not len(columns):
            return
        first = len(self.tracks)
        self._append(seen, of_seen, columns)
        rows = np.arange(first, len(self.tracks))
        self.notes.begun(columns, self.tracks.number[rows])
        self._confirm(rows)
        track_id[columns] = self.tracks.track_id[rows]

    def _append(self, seen: Detections, of_seen: Indices, columns: Indices) -> None:
        """Begin tracks with the detections `columns`."""
        begun = type(self.tracks)(np.zeros(len(columns), self.tracks.records.dtype))
        xyxy = seen.xyxy[columns]
        begun.mean[:], begun.covariance[:] = self._motion.initiate(xyxy)
        begun.confidence[:] = begun.best_confidence[:] = seen.confidence[columns]
        begun.class_id[:] = seen.class_id[columns]
        begun.track_id[:] = NO_TRACK
        begun.hits[:] = 1
        begun.stream[:] = of_seen[columns]
        begun.seen_ns[:] = self.streams["now_ns"][begun.stream]
        begun.number[:] = self._next("next_number", begun.stream)
        self._fill(begun, xyxy)
        self.tracks = type(self.tracks)(joined([self.tracks.records, begun.records]))

    def _fill(self, begun: Tracks, xyxy: Boxes) -> None:
        """Fill the further columns of tracks that begin at these boxes, which are 0."""


def _distinct(trackers: Sequence[FrameTracker]) -> int:
    """Return how many trackers there are before one comes that has been there."""
    known: set[int] = set()
    for number, one in enumerate(trackers):
        if id(one) in known:
            return number
        known.add(id(one))
    return len(trackers)
