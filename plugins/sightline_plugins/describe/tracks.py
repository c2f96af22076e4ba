"""Tracks that are asked about: what is kept of an open one, and when it has ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from sightline.media import Batch, Frame, Stream
from sightline_plugins.delivery.tracks import vote, winner
from sightline_plugins.describe.describe import Describe
from sightline_plugins.describe.facts import Moment
from sightline_plugins.encode.images import encode_rgb
from sightline_plugins.search.best_crop import BestCrop, worth_of
from sightline_plugins.sinks.records import Attribute, attributes_of, frame_bounds

_MOST_TRACKS = 512


class _Open:
    """What is kept of an open track; its size does not grow with its length."""

    __slots__ = ("altered", "attributes", "crop", "first_ns", "labels", "last")

    def __init__(self, frame: Frame) -> None:
        self.first_ns = frame.pts_ns
        self.last = Moment.of(frame)
        self.altered = frame.altered
        self.labels: dict[str, int] = {}
        self.attributes: dict[str, dict[Attribute, int]] = {}
        self.crop = BestCrop()


@dataclass(frozen=True, slots=True, eq=False)
class EndedTrack:
    """A track that has ended; `last` is its last frame, with what was done to all frames on which it was seen."""

    track_id: int
    last: Moment
    label: str
    seconds: float
    attributes: dict[str, Attribute]
    rgb: npt.NDArray[Any]

    def facts(self) -> dict[str, Any]:
        """Return what is known, as JSON values."""
        track: dict[str, Any] = {"label": self.label, "seen_for_seconds": round(self.seconds, 1)}
        if self.attributes:
            track["attributes"] = dict(self.attributes)
        return {**self.last.facts(), "track": track}

    def jpeg(self, *, quality: int) -> bytes:
        """Return the best crop as JPEG."""
        return encode_rgb(self.rgb, suffix=".jpg", quality=quality)


class Tracks:
    """Follows the tracks of all streams."""

    def __init__(self, element: Describe) -> None:
        self._element = element
        self._streams: dict[Stream, dict[int, _Open]] = {}

    def follow(self, batch: Batch) -> Iterator[EndedTrack]:
        """Take the objects of a batch; yield the tracks that have ended."""
        objects, element = batch.objects, self._element
        ids, labels = objects.track_id.tolist(), objects.labels()
        boxes, confidences = objects.xyxy.tolist(), objects.confidence.tolist()
        worth = worth_of(objects)
        attributes = attributes_of(objects) if objects.attributes else [None] * len(objects)
        bounds = frame_bounds(batch)
        for row, frame in enumerate(batch.frames):
            tracks = self._streams.setdefault(frame.stream, {})
            first, last = bounds[row], bounds[row + 1]
            for number in range(first, last):
                if ids[number] < 0 or (element.classes is not None and labels[number] not in element.classes):
                    continue
                track = tracks.pop(ids[number], None)
                if track is not None and not 0 <= frame.pts_ns - track.last.pts_ns <= element.track_timeout:
                    yield from self._ended(ids[number], track)
                    track = None
                tracks[ids[number]] = track = track or _Open(frame)
                track.last, track.altered = Moment.of(frame), track.altered & frame.altered
                vote(track.labels, labels[number])
                for name, value in (attributes[number] or {}).items():
                    vote(track.attributes.setdefault(name, {}), value)
                if track.crop.is_promising(worth[number], pts_ns=frame.pts_ns):
                    track.crop.consider(
                        frame,
                        boxes[number],
                        confidences[number],
                        others=objects.xyxy[first:last],
                        largest_side=element.image_size,
                    )
            yield from self._overdue(frame, tracks)

    def end(self, stream: Stream) -> Iterator[EndedTrack]:
        """Yield the open tracks of a stream that has ended."""
        for track_id, track in self._streams.pop(stream, {}).items():
            yield from self._ended(track_id, track)

    def _overdue(self, frame: Frame, tracks: dict[int, _Open]) -> Iterator[EndedTrack]:
        while tracks:
            track_id, track = next(iter(tracks.items()))
            is_open = 0 <= frame.pts_ns - track.last.pts_ns <= self._element.track_timeout
            if is_open and len(tracks) <= _MOST_TRACKS:
                return
            yield from self._ended(track_id, tracks.pop(track_id))

    def _ended(self, track_id: int, track: _Open) -> Iterator[EndedTrack]:
        lasted_ns = track.last.pts_ns - track.first_ns
        if track.crop.image is None or lasted_ns < self._element.least:
            return
        attributes = {name: winner(values) for name, values in track.attributes.items()}
        label, seconds = winner(track.labels), lasted_ns / 1e9
        last = track.last._replace(altered=track.altered)
        yield EndedTrack(track_id, last, label, seconds, attributes, track.crop.image)
