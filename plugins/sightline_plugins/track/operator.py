"""What `track` builds: one tracker for each stream, and the objects of its batches with their track ids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sightline.graph import Operator
from sightline.media import Batch, Frame, Objects, Origin, Stream
from sightline.media.boxes import area, clip
from sightline_plugins.track.bytetrack import ByteTracker, Predictions
from sightline_plugins.track.options import TrackerOptions

CLASSES_OF_ONE_ORIGIN = 1 << 20
"""The tracker knows a class by its number plus this times the number of the element that found it."""


class TrackOperator(Operator):
    """One tracker for each stream, fed with its frames in order. When the size of the images changes, the places of
    all objects mean something else: tracks end there, and new ones begin with ids that go on.
    """

    def __init__(self, options: TrackerOptions, *, keep_untracked: bool) -> None:
        self._options = options
        self._keep_untracked = keep_untracked
        self._trackers: dict[Stream, ByteTracker] = {}
        self._sizes_wh: dict[Stream, tuple[int, int]] = {}
        self._latest_id: dict[Stream, int] = {}
        self._tracks: dict[str, Counter[str]] = {}
        self._origins: list[Origin] = []

    def process(self, batch: Batch) -> Batch:
        """Write track ids into the objects; add the objects expected on frames where nothing was detected."""
        objects = batch.objects
        followed = None if (objects.parent < 0).all() else objects.parent < 0
        classes = self._classes(objects)
        track_id = np.full(len(objects), -1, np.int64)
        expected: list[tuple[int, Predictions]] = []
        first = 0
        lasts = np.searchsorted(objects.frame, np.arange(len(batch)), side="right").tolist()
        for row, (frame, last) in enumerate(zip(batch.frames, lasts, strict=True)):
            tracker = self._tracker(frame)
            if batch.detected and not batch.detected[row]:
                expected.append((row, tracker.predict(pts_ns=frame.pts_ns)))
            else:
                own = slice(first, last) if followed is None else first + np.flatnonzero(followed[first:last])
                update = tracker.update(objects.xyxy[own], objects.confidence[own], classes[own], pts_ns=frame.pts_ns)
                track_id[own] = update.track_id
                self._count(frame.stream, update.track_id, classes[own])
            first = last
        tracked = self._tidied(objects.with_columns(track_id=track_id)) if len(objects) else objects
        if expected:
            tracked = Objects.concat([tracked, self._expected(batch, expected)])
        return batch.with_objects(tracked)

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's tracks."""
        self._trackers.pop(stream, None)
        self._sizes_wh.pop(stream, None)
        self._latest_id.pop(stream, None)

    def totals(self) -> Mapping[str, Mapping[str, Mapping[str, int]]]:
        """How many different objects were followed: stream, label (as it was first), `tracks`."""
        return {
            stream: {label: {"tracks": number} for label, number in sorted(counts.items())}
            for stream, counts in self._tracks.items()
        }

    def _tracker(self, frame: Frame) -> ByteTracker:
        stream = frame.stream
        tracker = self._trackers.get(stream)
        if tracker is None:
            tracker = self._trackers[stream] = ByteTracker(self._options)
            self._latest_id[stream] = 0
            self._tracks.setdefault(stream.name, Counter())
        elif self._sizes_wh[stream] != frame.size_wh:
            tracker = self._trackers[stream] = ByteTracker(self._options, first_id=tracker.next_id)
        self._sizes_wh[stream] = frame.size_wh
        return tracker

    def _classes(self, objects: Objects) -> npt.NDArray[np.int64]:
        """The class of each object as one number for all elements that find objects."""
        if len(objects):
            self._origins += [origin for origin in objects.origins if origin not in self._origins]
        classes = objects.class_id.astype(np.int64)
        if len(self._origins) > 1 and len(objects):
            numbers = np.array([self._origins.index(origin) for origin in objects.origins], np.int64)
            classes += numbers[objects.origin] * CLASSES_OF_ONE_ORIGIN
        return classes

    def _count(self, stream: Stream, track_id: npt.NDArray[np.int64], classes: npt.NDArray[np.int64]) -> None:
        latest = int(track_id.max(initial=0))
        if latest <= self._latest_id[stream]:
            return
        for own_class in classes[track_id > self._latest_id[stream]].tolist():
            origin, class_id = divmod(own_class, CLASSES_OF_ONE_ORIGIN)
            self._tracks[stream.name][self._origins[origin].label(class_id)] += 1
        self._latest_id[stream] = latest

    def _tidied(self, objects: Objects) -> Objects:
        if self._keep_untracked:
            return objects
        wanted = objects.track_id >= 0
        children = objects.parent >= 0
        wanted[children] = wanted[objects.parent[children]]
        return objects if wanted.all() else objects.select(wanted)

    def _expected(self, batch: Batch, expected: list[tuple[int, Predictions]]) -> Objects:
        """Objects at the boxes that the tracker expects, cut to the image; those outside of it are left out."""
        classes = np.concatenate([known.class_id for _, known in expected])
        count = len(classes)
        xyxy = np.concatenate([clip(known.xyxy, size_wh=batch.frames[row].size_wh) for row, known in expected])
        table = Objects(
            frame=np.repeat([row for row, _ in expected], [len(known.track_id) for _, known in expected]).astype(
                np.int32
            ),
            xyxy=xyxy,
            confidence=np.concatenate([known.confidence for _, known in expected]),
            class_id=(classes % CLASSES_OF_ONE_ORIGIN).astype(np.int32),
            track_id=np.concatenate([known.track_id for _, known in expected]),
            parent=np.full(count, -1, np.int32),
            origin=(classes // CLASSES_OF_ONE_ORIGIN).astype(np.int16),
            origins=tuple(self._origins),
        )
        return table.select(area(xyxy) > 0)
