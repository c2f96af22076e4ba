"""Objects of steps before as subjects: which of them, and what of the picture the model sees of each."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects, Stream
from sightline.media.boxes import Boxes
from sightline_plugins.infer.options import Selection
from sightline_plugins.infer.pixels.faces import align_face
from sightline_plugins.infer.pixels.placement import Placement
from sightline_plugins.infer.pixels.preprocess import Preprocessing
from sightline_plugins.infer.subjects.memory import TrackMemory
from sightline_plugins.infer.subjects.subject import Subject


class ObjectSubjects:
    """The selected objects of every n-th frame of each stream.

    Objects with a track, or found on one with a track (the plate of a car), are kept in mind: the model looks at them
    again when `refresh_ns` have passed, when the box has grown, or when they are seen better.
    """

    def __init__(self, selection: Selection, preprocessing: Preprocessing, *, refresh_ns: int, every: int = 1) -> None:
        self._selection = selection
        self._preprocessing = preprocessing
        self._memory: TrackMemory[Any] = TrackMemory(refresh_ns)
        self._every = every
        self._seen: dict[Stream, int] = {}

    def of(self, batch: Batch) -> list[Subject]:
        """See `Subjects.of`."""
        due = [self._is_due(frame.stream) for frame in batch.frames]
        objects = batch.objects
        chosen = np.flatnonzero(chosen_objects(objects, self._selection))
        if not len(chosen):
            return []
        regions = seen_regions(objects.xyxy[chosen], self._selection)
        keys = track_keys(objects, chosen)
        return [
            self._subject(batch, int(number), tuple(region), key, looks=due[objects.frame[number]])
            for number, region, key in zip(chosen, regions.tolist(), keys, strict=True)
            if key is not None or due[objects.frame[number]]
        ]

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's tracks."""
        self._seen.pop(stream, None)
        self._memory.end_stream(stream)

    def _subject(
        self, batch: Batch, number: int, region: tuple[float, float, float, float], key: Hashable | None, *, looks: bool
    ) -> Subject:
        objects = batch.objects
        row = int(objects.frame[number])
        frame = batch.frames[row]
        placement = self._placement(objects, number, region)
        if key is None:
            return Subject(row, placement, number, due=looks)
        slot = self._memory.slot(frame.stream, key, pts_ns=frame.pts_ns)
        area = (region[2] - region[0]) * (region[3] - region[1])
        quality = float(objects.confidence[number])
        due = looks and self._memory.asks(slot, pts_ns=frame.pts_ns, area=area, quality=quality)
        return Subject(row, placement, number, slot, due)

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


def chosen_objects(objects: Objects, selection: Selection) -> npt.NDArray[np.bool_]:
    """Mask (N,) of the objects that a selection names."""
    mask = np.ones(len(objects), np.bool_) if selection.label is None else objects.has_label(selection.label)
    if selection.origin is not None:
        origins = [number for number, origin in enumerate(objects.origins) if origin.element == selection.origin]
        mask &= np.isin(objects.origin, origins)
    if selection.min_confidence:
        mask &= objects.confidence >= np.float32(selection.min_confidence)
    sides = objects.xyxy[:, 2:] - objects.xyxy[:, :2]
    return mask & (sides >= np.array(selection.min_size or (1, 1), np.float32)).all(axis=1)


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

    An object without a track that was found on a tracked one is known by that track and its place among the objects of
    its kind that were found on it.
    """
    keys: list[Hashable | None] = []
    parents, tracks = objects.parent, objects.track_id
    counts: dict[Hashable, int] = {}
    for row in rows.tolist():
        if tracks[row] >= 0:
            keys.append(int(tracks[row]))
            continue
        ancestor = int(parents[row])
        depth = 1
        while ancestor >= 0 and tracks[ancestor] < 0:
            ancestor, depth = int(parents[ancestor]), depth + 1
        if ancestor < 0:
            keys.append(None)
            continue
        kind = (
            int(objects.frame[row]),
            int(tracks[ancestor]),
            depth,
            int(objects.origin[row]),
            int(objects.class_id[row]),
        )
        counts[kind] = counts.get(kind, -1) + 1
        keys.append((*kind[1:], counts[kind]))
    return keys
