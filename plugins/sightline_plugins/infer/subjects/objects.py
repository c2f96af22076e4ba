"""Objects of steps before as subjects: which of them, and what of the picture the model sees of each."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects, Stream
from sightline.media.boxes import Boxes
from sightline_plugins.infer.options import Selection
from sightline_plugins.infer.subjects.memory import TrackMemory
from sightline_plugins.infer.subjects.siblings import is_remembered, sibling_numbers
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.pixels.faces import align_face
from sightline_plugins.pixels.placement import Placement
from sightline_plugins.pixels.preprocess import Preprocessing


class ObjectSubjects:
    """The selected objects of every n-th frame of each stream.

    Objects with a track, or found on one with a track (the plate of a car), are kept in mind: the model looks at them
    again when `refresh_ns` have passed (sooner while they are new), when the box has grown, or when they are seen
    better. It does not look at objects whose place is only remembered from an earlier frame, and what it found out
    stays with objects that have become too small or too doubtful to look at.
    """

    def __init__(self, selection: Selection, preprocessing: Preprocessing, *, refresh_ns: int, every: int = 1) -> None:
        self._selection = selection
        self._preprocessing = preprocessing
        self._memory: TrackMemory[Any] = TrackMemory(refresh_ns)
        self._every = every
        self._seen: dict[Stream, int] = {}

    def of(self, batch: Batch) -> list[Subject]:
        """See `Subjects.of`."""
        due = np.array([self._is_due(frame.stream) for frame in batch.frames], np.bool_)
        objects = batch.objects
        named = np.flatnonzero(named_objects(objects, self._selection))
        if not len(named):
            return []
        looks = (worth_a_look(objects, self._selection) & due[objects.frame])[named]
        regions = seen_regions(objects.xyxy[named], self._selection)
        found = [
            self._subject(batch, number, tuple(region), key, looks=look)
            for number, region, key, look in zip(
                named.tolist(), regions.tolist(), track_keys(objects, named), looks.tolist(), strict=True
            )
        ]
        return [subject for subject in found if subject is not None]

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's tracks."""
        self._seen.pop(stream, None)
        self._memory.end_stream(stream)

    def _subject(
        self, batch: Batch, number: int, region: tuple[float, float, float, float], key: Hashable | None, *, looks: bool
    ) -> Subject | None:
        """The object at a row as a subject; None when nothing is known of it and the model is not to look."""
        objects, memory = batch.objects, self._memory
        row = int(objects.frame[number])
        if key is None:
            there = looks and not self._selection.tracked
            return Subject(row, self._placement(objects, number, region), number) if there else None
        stream, pts_ns = batch.frames[row].stream, batch.frames[row].pts_ns
        if not looks or (memory.refresh_ns and is_remembered(objects, number)):
            slot = memory.asked(stream, key, pts_ns=pts_ns)
            return None if slot is None else Subject(row, self._preprocessing.place(region), number, slot, due=False)
        slot = memory.slot(stream, key, pts_ns=pts_ns)
        area = (region[2] - region[0]) * (region[3] - region[1])
        due = memory.asks(slot, pts_ns=pts_ns, area=area, quality=float(objects.confidence[number]))
        return Subject(row, self._placement(objects, number, region), number, slot, due)

    def _placement(self, objects: Objects, number: int, region: tuple[float, float, float, float]) -> Placement:
        points = objects.extra.get("keypoints")
        if self._selection.align == "face" and points is not None and self._preprocessing.size_wh is not None:
            turned = align_face(points[number], size_wh=self._preprocessing.size_wh)
            if turned is not None:
                width, height = self._preprocessing.size_wh
                return Placement(region, (0, 0, width, height), (width, height), turned)
        return self._preprocessing.place(region)

    def _is_due(self, stream: Stream) -> bool:
        number = self._seen.get(stream, 0)
        self._seen[stream] = number + 1
        return number % self._every == 0


def named_objects(objects: Objects, selection: Selection) -> npt.NDArray[np.bool_]:
    """Mask (N,) of the objects that a selection names by their label and the step that found them."""
    mask = np.ones(len(objects), np.bool_) if selection.label is None else objects.has_label(selection.label)
    if selection.origin is not None:
        origins = [number for number, origin in enumerate(objects.origins) if origin.element == selection.origin]
        mask &= np.isin(objects.origin, origins)
    return mask


def worth_a_look(objects: Objects, selection: Selection) -> npt.NDArray[np.bool_]:
    """Mask (N,) of the objects that are large and sure enough for a selection."""
    sides = objects.xyxy[:, 2:] - objects.xyxy[:, :2]
    worth: npt.NDArray[np.bool_] = np.all(sides >= np.array(selection.min_size or (1, 1), np.float32), axis=1)
    return worth & (objects.confidence >= np.float32(selection.min_confidence))


def seen_regions(xyxy: Boxes, selection: Selection) -> Boxes:
    """What the model sees of boxes (N, 4): with their margin, made square; may reach beyond the picture."""
    sides = xyxy[:, 2:] - xyxy[:, :2]
    middle = (xyxy[:, 2:] + xyxy[:, :2]) / 2
    half = sides * np.float32(0.5 + selection.margin)
    if selection.square:
        half = np.repeat(half.max(axis=1, keepdims=True), 2, axis=1)
    return np.concatenate([middle - half, middle + half], axis=1)


def track_keys(objects: Objects, rows: npt.NDArray[np.intp]) -> list[Hashable | None]:
    """What names each object's track over time; None for those that nobody follows.

    An object without a track that was found on a tracked one is known by that track, the step that found it, and its
    number among those found there.
    """
    tracks, parents, origins = objects.track_id, objects.parent, objects.origin
    numbers = sibling_numbers(objects)

    def key(row: int) -> tuple[int, ...] | None:
        if tracks[row] >= 0:
            return (int(tracks[row]),)
        if parents[row] < 0:
            return None
        above = key(int(parents[row]))
        return None if above is None else (*above, int(origins[row]), int(numbers[row]))

    return [key(row) for row in rows.tolist()]
