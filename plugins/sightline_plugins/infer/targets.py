"""Inference targets: which parts of which frames a model is run on."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Frame, Objects, Stream
from sightline.media.boxes import Boxes
from sightline_plugins.infer.options import TargetSelection, Tiles
from sightline_plugins.infer.track_memory import TrackEntry, TrackMemory, is_remembered, sibling_numbers
from sightline_plugins.pixels.faces import align_face
from sightline_plugins.pixels.placement import Placement, Region, whole_samples
from sightline_plugins.pixels.preprocess import Preprocessing
from sightline_plugins.pixels.stacks import Stack, StackForm


@dataclass(frozen=True, slots=True, eq=False)
class InferenceTarget:
    """A part of a frame that a model sees.

    `row` is the frame's in the batch, `placement` says which part of its image, `object` is the row of the object
    that it shows (-1: none), and `slot` keeps what is known of that object's track (None: nothing is kept). `due` says
    whether the model is run, or what the slot knows is used again. `stack` takes the image, and is what the model is
    run on (None: on the image alone).
    """

    row: int
    placement: Placement
    object: int = -1
    slot: TrackEntry[Any] | None = None
    due: bool = True
    stack: Stack | None = None

    @property
    def is_seen(self) -> bool:
        """Whether its image is needed: by the model now, or by the stack."""
        return self.due or self.stack is not None


class TargetSelector(Protocol):
    """Chooses what a model is run on. Kept by one operator; state per stream is dropped by `end_stream`."""

    def of(self, batch: Batch) -> list[InferenceTarget]:
        """The subjects of a batch, in order of frames."""
        ...

    def end_stream(self, stream: Stream) -> None:
        """The stream has ended."""
        ...


def region_of(target: InferenceTarget, size_wh: tuple[int, int]) -> Boxes:
    """The upright box (4,) of what a subject shows, in pixels of the image, cut to it."""
    width, height = size_wh
    left, top, right, bottom = target.placement.region_xyxy
    return np.clip(np.array([left, top, right, bottom], np.float32), 0, [width, height, width, height]).astype(
        np.float32
    )


PlacementsOf = Callable[[Frame], Sequence[Placement]]
"""The parts of a frame's image, and where each lies in the network's input."""


class RegionSelector:
    """Every n-th frame of each stream, each part of its image."""

    def __init__(self, placements_of: PlacementsOf, *, every: int = 1) -> None:
        self._placements_of = placements_of
        self._every = every
        self._seen: dict[Stream, int] = {}

    def of(self, batch: Batch) -> list[InferenceTarget]:
        """See `Subjects.of`."""
        return [
            InferenceTarget(row, placement)
            for row, frame in enumerate(batch.frames)
            if self._is_due(frame.stream)
            for placement in self._placements_of(frame)
        ]

    def end_stream(self, stream: Stream) -> None:
        """Forget how many frames the stream had."""
        self._seen.pop(stream, None)

    def _is_due(self, stream: Stream) -> bool:
        if self._every == 1:
            return True
        number = self._seen.get(stream, 0)
        self._seen[stream] = number + 1
        return number % self._every == 0


def region_placements(preprocessing: Preprocessing, *, regions_of: Callable[[str], Sequence[Region]]) -> PlacementsOf:
    """The regions (fractions of the image) that `regions_of` names for a stream."""

    def placements_of(frame: Frame) -> list[Placement]:
        return [preprocessing.place_fractions(region, frame.surface) for region in regions_of(frame.stream.name)]

    return placements_of


def tile_placements(tiles: Tiles, preprocessing: Preprocessing) -> PlacementsOf:
    """The tiles of an image row by row, and the whole of it before them where that is wanted.

    Tiles are as large as the network's input unless `tiles` says another size; one of the two is known.
    """
    tile_wh = tiles.size or preprocessing.size_wh
    assert tile_wh is not None

    def placements_of(frame: Frame) -> list[Placement]:
        size_wh, chroma_shift = frame.surface.size_wh, frame.surface.format.chroma_shift
        regions = tile_regions(size_wh, tile_wh=tile_wh, overlap=tiles.overlap, whole=tiles.whole)
        return [
            preprocessing.place(whole_samples(region, size_wh=size_wh, chroma_shift=chroma_shift)) for region in regions
        ]

    return placements_of


@lru_cache(maxsize=256)
def tile_regions(
    size_wh: tuple[int, int], *, tile_wh: tuple[int, int], overlap: float, whole: bool
) -> tuple[Region, ...]:
    """The tiles of an image in its pixels, after the whole image (once, where tiles are not smaller).

    Tiles are spread evenly, so that neighbours share at least `overlap` of a tile's side and none is narrower.
    """
    (width, height), (across, down) = size_wh, tile_wh
    tiles = [
        (left, top, min(left + across, width), min(top + down, height))
        for top in _origins(height, tile=down, overlap=overlap)
        for left in _origins(width, tile=across, overlap=overlap)
    ]
    image = (0, 0, width, height)
    return (image, *tiles) if whole and tiles != [image] else tuple(tiles)


def _origins(side: int, *, tile: int, overlap: float) -> tuple[int, ...]:
    if side <= tile:
        return (0,)
    step = max(tile - ceil(tile * overlap), 1)
    count = ceil((side - tile) / step) + 1
    return tuple((side - tile) * number // (count - 1) for number in range(count))


class ObjectSelector:
    """The selected objects of every n-th frame of each stream.

    Objects with a track, or found on one with a track (the plate of a car), are kept in mind: the model looks at them
    again when `reinfer_interval_ns` have passed (sooner while they are new), when the box has grown, or when they are
    seen better. It does not look at objects whose place is only remembered from an earlier frame, and what it found
    out stays with objects that have become too small or too doubtful to look at.
    """

    def __init__(
        self, selection: TargetSelection, preprocessing: Preprocessing, *, reinfer_interval_ns: int, every: int = 1
    ) -> None:
        self._selection = selection
        self._preprocessing = preprocessing
        self._memory: TrackMemory[Any] = TrackMemory(reinfer_interval_ns)
        self._every = every
        self._seen: dict[Stream, int] = {}

    def of(self, batch: Batch) -> list[InferenceTarget]:
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
        return [target for target in found if target is not None]

    def end_stream(self, stream: Stream) -> None:
        """Forget the stream's tracks."""
        self._seen.pop(stream, None)
        self._memory.end_stream(stream)

    def _subject(
        self, batch: Batch, number: int, region: tuple[float, float, float, float], key: Hashable | None, *, looks: bool
    ) -> InferenceTarget | None:
        """The object at a row as a subject; None when nothing is known of it and the model is not to look."""
        objects, memory = batch.objects, self._memory
        row = int(objects.frame[number])
        if key is None:
            there = looks and not self._selection.tracked
            return InferenceTarget(row, self._placement(objects, number, region), number) if there else None
        stream, pts_ns = batch.frames[row].stream, batch.frames[row].pts_ns
        if not looks or (memory.reinfer_interval_ns and is_remembered(objects, number)):
            slot = memory.asked(stream, key, pts_ns=pts_ns)
            return (
                None
                if slot is None
                else InferenceTarget(row, self._preprocessing.place(region), number, slot, due=False)
            )
        slot = memory.slot(stream, key, pts_ns=pts_ns)
        area = (region[2] - region[0]) * (region[3] - region[1])
        due = memory.asks(slot, pts_ns=pts_ns, area=area, quality=float(objects.confidence[number]))
        return InferenceTarget(row, self._placement(objects, number, region), number, slot, due)

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


def named_objects(objects: Objects, selection: TargetSelection) -> npt.NDArray[np.bool_]:
    """Mask (N,) of the objects that a selection names by their label and the step that found them."""
    mask = np.ones(len(objects), np.bool_) if selection.label is None else objects.has_label(selection.label)
    if selection.origin is not None:
        origins = [number for number, origin in enumerate(objects.origins) if origin.element == selection.origin]
        mask &= np.isin(objects.origin, origins)
    return mask


def worth_a_look(objects: Objects, selection: TargetSelection) -> npt.NDArray[np.bool_]:
    """Mask (N,) of the objects that are large and sure enough for a selection."""
    sides = objects.xyxy[:, 2:] - objects.xyxy[:, :2]
    worth: npt.NDArray[np.bool_] = np.all(sides >= np.array(selection.min_size or (1, 1), np.float32), axis=1)
    return worth & (objects.confidence >= np.float32(selection.min_confidence))


def seen_regions(xyxy: Boxes, selection: TargetSelection) -> Boxes:
    """What the model sees of boxes (N, 4): with their margin, made square; may reach beyond the image."""
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


class StackSelector:
    """What another kind of subjects chooses, each with the stack of its images.

    An image is taken on every `form.stride`-th frame of each stream. The model looks as soon as there are enough of
    them, and again when `every` frames have passed; answers belong to the newest frame. Objects have to be tracked:
    the others are left out. A stack that got no image for as long as it spans begins anew, so at most those of the
    objects that were seen within one span are kept.
    """

    def __init__(self, chosen: TargetSelector, form: StackForm, *, every: int) -> None:
        self._chosen = chosen
        self._form = form
        self._every = every
        self._seen: dict[Stream, int] = {}
        self._stacks: dict[Stream, dict[Hashable, Stack]] = {}

    def of(self, batch: Batch) -> list[InferenceTarget]:
        """See `Subjects.of`."""
        numbers = [self._count(frame.stream) for frame in batch.frames]
        parts = [0] * len(batch.frames)
        found = []
        for target in self._chosen.of(batch):
            key: Hashable | None = target.slot
            if target.object < 0:
                key = parts[target.row]
                parts[target.row] += 1
            stacked = self._stacked(target, key, batch.frames[target.row].stream, number=numbers[target.row])
            if stacked is not None:
                found.append(stacked)
        return found

    def end_stream(self, stream: Stream) -> None:
        """Drop the stream's stacks."""
        self._seen.pop(stream, None)
        self._stacks.pop(stream, None)
        self._chosen.end_stream(stream)

    def _stacked(
        self, target: InferenceTarget, key: Hashable | None, stream: Stream, *, number: int
    ) -> InferenceTarget | None:
        """The subject with its stack on frames that give an image; else what is known of it, None for nothing."""
        if key is None:
            return None
        if not target.due or number % self._form.stride:
            return None if target.slot is None else replace(target, due=False)
        stacks = self._stacks.setdefault(stream, {})
        stack = stacks.get(key)
        if stack is None:
            stack = stacks[key] = Stack(self._form.frames)
        stack.taken, stack.taken_at = stack.taken + 1, number
        due = stack.taken >= self._form.frames and (stack.asked_at is None or number - stack.asked_at >= self._every)
        if due:
            stack.asked_at = number
        return replace(target, stack=stack, due=due)

    def _count(self, stream: Stream) -> int:
        number = self._seen.get(stream, 0)
        self._seen[stream] = number + 1
        stacks = self._stacks.get(stream)
        if stacks and number % self._form.stride == 0:
            oldest = number - self._form.frames * self._form.stride
            for key in [key for key, stack in stacks.items() if stack.taken_at < oldest]:
                del stacks[key]
        return number
