"""Tracks as a whole: what is kept of a track while it lasts, and the record when it has ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np

from sightline.media import Batch, Event, Frame, Objects, Stream
from sightline.media.time import format_time
from sightline_plugins.delivery.images import Image, ImageMaker
from sightline_plugins.delivery.kinds import Draft, Maker, Sighting, TrackBody
from sightline_plugins.delivery.paths import simplify_to
from sightline_plugins.sinks.records import (
    BOX_STEPS,
    CONFIDENCE_STEPS,
    Attribute,
    Numbers,
    attributes_of,
    frame_bounds,
    rounded,
)

MOST_TRACKS = 4_096
"""With more open tracks of a stream than this, the one that was not seen for longest is ended."""
_MOST_POINTS = 512
"""Points of a path that are kept while the track lasts."""
_MOST_VALUES = 64
"""Different values of an attribute, or labels, that are counted; the rare ones are forgotten."""
_MOST_RULES = 100
_MOST_IMAGES = 512
"""With more open tracks of a stream than this, no more images are taken."""
_BETTER = 1.25
"""A crop is taken again when area times confidence is this many times that of the last one."""
_DIGITS = 6


_Value = TypeVar("_Value", bound=Hashable)
_When: TypeAlias = tuple[int, int, int | None]
"""Frame index, time of the stream, and time of day."""


Box: TypeAlias = tuple[float, float, float, float]


class _Seen(NamedTuple):
    """One object of a frame, as plain values; `label` with the class id."""

    track_id: int
    xyxy: Box
    confidence: float
    label: tuple[str, int]
    attributes: dict[str, Attribute] | None


def _seen(objects: Objects) -> list[_Seen]:
    columns = zip(
        objects.track_id.tolist(),
        map(tuple, objects.xyxy.tolist()),
        objects.confidence.tolist(),
        zip(objects.labels(), objects.class_id.tolist(), strict=True),
        attributes_of(objects) if objects.attributes else repeat(None, len(objects)),
        strict=True,
    )
    return list(map(_Seen._make, columns))


class _Track:
    """What is kept of an open track; its size does not grow with its length."""

    __slots__ = (
        "attributes",
        "best_confidence",
        "best_score",
        "confidence_sum",
        "first",
        "first_xyxy",
        "frames",
        "image",
        "labels",
        "last",
        "points",
        "rules",
        "tolerance",
        "xyxy",
    )

    def __init__(self, when: _When, xyxy: Box, *, tolerance: float) -> None:
        self.first = self.last = when
        self.first_xyxy = self.xyxy = xyxy
        self.frames = 0
        self.confidence_sum = self.best_confidence = 0.0
        self.labels: dict[tuple[str, int], int] = {}
        self.attributes: dict[str, _Votes] = {}
        self.points: list[Sequence[float]] = []
        self.tolerance = tolerance
        self.rules: dict[str, None] = {}
        self.best_score = 0.0
        self.image: Image | None = None

    def add(self, one: _Seen, when: _When) -> None:
        self.last, self.xyxy = when, one.xyxy
        self.frames += 1
        self.confidence_sum += one.confidence
        self.best_confidence = max(self.best_confidence, one.confidence)
        vote(self.labels, one.label)
        for name, value in one.attributes.items() if one.attributes else ():
            self.attributes.setdefault(name, _Votes()).add(value)

    def add_point(self, point: Sequence[float]) -> None:
        self.points.append(point)
        if len(self.points) >= _MOST_POINTS:
            self.points = self._simplified(_MOST_POINTS // 2)

    def path(self, most: int) -> list[Numbers]:
        return rounded(np.array(self._simplified(most), np.float64), steps=BOX_STEPS)

    def _simplified(self, most: int) -> list[Sequence[float]]:
        points = np.array(self.points, np.float64)
        kept, self.tolerance = simplify_to(points, tolerance=self.tolerance, most=most)
        return [self.points[index] for index in kept.tolist()]


class _Votes:
    """The values of one attribute over a track: the most frequent one, or the mean of numbers with decimals."""

    __slots__ = ("_count", "_sum", "_values")

    def __init__(self) -> None:
        self._values: dict[Attribute, int] = {}
        self._sum, self._count = 0.0, 0

    def add(self, value: Attribute) -> None:
        if isinstance(value, float):
            self._sum, self._count = self._sum + value, self._count + 1
        else:
            vote(self._values, value)

    def result(self) -> Attribute:
        if self._count:
            return float(round(self._sum / self._count, _DIGITS))
        return winner(self._values)


def vote(values: dict[_Value, int], value: _Value) -> None:
    """Count a value; when there are too many different ones, the half that is rarest is forgotten."""
    values[value] = values.get(value, 0) + 1
    if len(values) > _MOST_VALUES:
        kept = Counter(values).most_common(_MOST_VALUES // 2)
        values.clear()
        values.update(kept)


def winner(values: dict[_Value, int]) -> _Value:
    """The most frequent value; of equal ones the first that was seen."""
    return max(values, key=values.__getitem__)


class TrackBodies(Maker):
    """Makes `tracks`: one when a track was not seen for `timeout_ns` of the stream's time, or the stream ends.

    `anchor` is the point of the box, in fractions of its width and height, that makes the path; that is simplified to
    `tolerance` pixels, and further to `most_points`.
    """

    def __init__(
        self,
        *,
        timeout_ns: int,
        anchor: tuple[float, float],
        tolerance: float,
        most_points: int,
        images: ImageMaker | None = None,
    ) -> None:
        self._timeout_ns = timeout_ns
        self._anchor = anchor
        self._tolerance = tolerance
        self._most_points = most_points
        self._images = images
        self._streams: dict[Stream, dict[int, _Track]] = {}

    def make(self, batch: Batch) -> Iterator[Draft]:
        """Yield the tracks that have ended."""
        seen, bounds = _seen(batch.objects), frame_bounds(batch)
        events = iter(batch.events)
        event = next(events, None)
        for row, frame in enumerate(batch.frames):
            tracks = self._streams.setdefault(frame.stream, {})
            for one in seen[bounds[row] : bounds[row + 1]]:
                if one.track_id >= 0:
                    # The dict is in the order in which tracks were last seen.
                    track = tracks.pop(one.track_id, None)
                    if track is not None and self._is_over(track, frame.pts_ns):
                        yield self._ended(row, frame.stream, one.track_id, track)
                        track = None
                    tracks[one.track_id] = self._see(one, frame, track)
            while event is not None and event.frame == row:
                _add_rule(tracks, event)
                event = next(events, None)
            yield from self._overdue(row, frame.stream, tracks, now_ns=frame.pts_ns)

    def end(self, stream: Stream) -> Iterator[Draft]:
        """Yield the open tracks of a stream."""
        for track_id, track in self._streams.pop(stream, {}).items():
            yield self._ended(0, stream, track_id, track)

    def _see(self, one: _Seen, frame: Frame, track: _Track | None) -> _Track:
        """Add a sighting to a track, or begin one."""
        when = (frame.index, frame.pts_ns, frame.capture_ns)
        left, top, right, bottom = one.xyxy
        point = (left + (right - left) * self._anchor[0], top + (bottom - top) * self._anchor[1])
        if track is None:
            track = _Track(when, one.xyxy, tolerance=self._tolerance)
        track.add(one, when)
        track.add_point(point)
        if self._images is not None and len(self._streams[frame.stream]) <= _MOST_IMAGES:
            self._look(frame, track, one)
        return track

    def _is_over(self, track: _Track, now_ns: int) -> bool:
        """Whether a track was not seen for too long, or the stream's time went back."""
        return not 0 <= now_ns - track.last[1] <= self._timeout_ns

    def _overdue(self, row: int, stream: Stream, tracks: dict[int, _Track], *, now_ns: int) -> Iterator[Draft]:
        while tracks:
            track_id = next(iter(tracks))
            if not self._is_over(tracks[track_id], now_ns) and len(tracks) <= MOST_TRACKS:
                return
            yield self._ended(row, stream, track_id, tracks.pop(track_id))

    def _look(self, frame: Frame, track: _Track, one: _Seen) -> None:
        """Take the image of a track where it is seen better than before."""
        assert self._images is not None
        left, top, right, bottom = one.xyxy
        score = (right - left) * (bottom - top) * one.confidence
        if track.image is None or score > _BETTER * track.best_score:
            image = self._images.take(frame, one.xyxy)
            if image is not None:
                track.best_score, track.image = score, image

    def _ended(self, row: int, stream: Stream, track_id: int, track: _Track) -> Draft:
        label, class_id = winner(track.labels)
        image = None
        if self._images is not None and track.image is not None:
            image = self._images.place(track.image, stream=stream.name, kind="tracks", track=track_id)
        mean, best = rounded(
            np.array([track.confidence_sum / track.frames, track.best_confidence]), steps=CONFIDENCE_STEPS
        )
        body = TrackBody(
            stream.name,
            track_id,
            label,
            class_id,
            track.frames,
            mean,
            best,
            _sighting(track.first, track.first_xyxy),
            _sighting(track.last, track.xyxy),
            track.path(self._most_points),
            {name: votes.result() for name, votes in track.attributes.items()} or None,
            list(track.rules),
            image,
        )
        return Draft(row, "tracks", body)


def _sighting(when: _When, xyxy: Box) -> Sighting:
    frame, pts_ns, capture_ns = when
    box = rounded(np.array(xyxy), steps=BOX_STEPS)
    return Sighting(frame, pts_ns, msgspec.UNSET if capture_ns is None else format_time(capture_ns), box)


def _add_rule(tracks: Mapping[int, _Track], event: Event) -> None:
    track_id = event.data.get("track_id")
    track = tracks.get(track_id) if isinstance(track_id, int) else None
    if track is not None and len(track.rules) < _MOST_RULES:
        track.rules[event.rule] = None
