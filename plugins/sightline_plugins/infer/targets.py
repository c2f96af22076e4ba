"""Inference targets: which parts of which frames a model runs on.

A selector chooses the targets of a batch: the whole frame, its regions of interest or tiles, or the objects of earlier
steps. `StackSelector` adds the newest frames of each of them, for action recognition models.
"""

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
from sightline_plugins.infer.track_memory import TrackEntry, TrackMemory, child_numbers, is_remembered
from sightline_plugins.preprocess.definition import Preprocessing
from sightline_plugins.preprocess.placement import Placement, Region, align_face, whole_samples
from sightline_plugins.preprocess.stacks import Stack, StackForm

PlacementsOf = Callable[[Frame], Sequence[Placement]]
"""Returns the parts of a frame, and where each lies in the network's input."""


@dataclass(frozen=True, slots=True, eq=False)
class InferenceTarget:
    """A part of a frame that a model runs on.

    `row` is the row of the frame in the batch, `placement` the part of it, `object` the row of the object in that part
    (-1: none), and `entry` the memory of the object's track (None: none). The model runs if the target is `due`;
    otherwise the known result is reused. `stack` takes the image and is the model's input (None: the image is).
    """

    row: int
    placement: Placement
    object: int = -1
    entry: TrackEntry[Any] | None = None
    due: bool = True
    stack: Stack | None = None

    @property
    def needs_image(self) -> bool:
        """Whether its image is needed: by the model now, or by the stack."""
        return self.due or self.stack is not None


class TargetSelector(Protocol):
    """Chooses what a model runs on. Owned by one operator; `end_stream` drops the state of a stream."""

    def select(self, batch: Batch) -> list[InferenceTarget]:
        """Return the targets of a batch, in the order of frames."""

    def end_stream(self, stream: Stream) -> None:
        """Forget a stream that has ended."""


class _FrameCounter:
    """Counts the frames of each stream."""

    def __init__(self) -> None:
        self._counts: dict[Stream, int] = {}

    def next(self, stream: Stream) -> int:
        """Return the number of the stream's next frame, from 0."""
        number = self._counts.get(stream, 0)
        self._counts[stream] = number + 1
        return number

    def end_stream(self, stream: Stream) -> None:
        """Forget a stream."""
        self._counts.pop(stream, None)


class RegionSelector:
    """Selects each part of every n-th frame of each stream; with `by_batch`, of the frames of every n-th batch."""

    def __init__(self, placements_of: PlacementsOf, *, every: int = 1, by_batch: bool = False) -> None:
        self._placements_of = placements_of
        self._every = every
        self._by_batch = by_batch
        self._batches = 0
        self._frames = _FrameCounter()

    def select(self, batch: Batch) -> list[InferenceTarget]:
        if self._by_batch:
            self._batches += 1
            return self.of_rows(batch, range(len(batch.frames)) if (self._batches - 1) % self._every == 0 else ())
        return self.of_rows(
            batch,
            [
                row
                for row, frame in enumerate(batch.frames)
                if self._every == 1 or self._frames.next(frame.stream) % self._every == 0
            ],
        )

    def of_rows(self, batch: Batch, rows: Sequence[int]) -> list[InferenceTarget]:
        """Return each part of the frames at these rows."""
        return [InferenceTarget(row, placement) for row in rows for placement in self._placements_of(batch.frames[row])]

    def end_stream(self, stream: Stream) -> None:
        self._frames.end_stream(stream)


def region_placements(preprocessing: Preprocessing, *, regions_of: Callable[[str], Sequence[Region]]) -> PlacementsOf:
    """Return the regions (fractions of the frame) that `regions_of` gives for a stream's name."""

    def placements_of(frame: Frame) -> list[Placement]:
        return [preprocessing.place_fractions(region, frame.surface) for region in regions_of(frame.stream.name)]

    return placements_of


def tile_placements(tiles: Tiles, preprocessing: Preprocessing) -> PlacementsOf:
    """Return the tiles of a frame row by row, after the whole frame where that is wanted.

    Tiles have the size of the network's input unless `tiles` sets another; one of the two is known.
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
    """Return the tiles of a frame in pixels, after the whole frame (once, where tiles are not smaller).

    Tiles are spread evenly, so that neighbours share at least `overlap` of a tile's side and none is narrower.
    """
    (width, height), (across, down) = size_wh, tile_wh
    tiles = [
        (left, top, min(left + across, width), min(top + down, height))
        for top in _origins(height, tile=down, overlap=overlap)
        for left in _origins(width, tile=across, overlap=overlap)
    ]
    frame = (0, 0, width, height)
    return (frame, *tiles) if whole and tiles != [frame] else tuple(tiles)


def _origins(side: int, *, tile: int, overlap: float) -> tuple[int, ...]:
    if side <= tile:
        return (0,)
    step = max(tile - ceil(tile * overlap), 1)
    count = ceil((side - tile) / step) + 1
    return tuple((side - tile) * number // (count - 1) for number in range(count))


class ObjectSelector:
    """Selects objects of every n-th frame of each stream.

    Objects with a track, or found on one with a track (the plate of a car), are remembered: the model runs on them
    again when `reinfer_interval_ns` have passed (sooner while they are new), when the box has grown, or when they are
    seen with more confidence. It does not run on objects whose position is carried over from an earlier frame, and the
    known result stays with objects that have become too small or too uncertain. With `even`, crops begin and end at
    even pixels.
    """

    def __init__(
        self,
        selection: TargetSelection,
        preprocessing: Preprocessing,
        *,
        reinfer_interval_ns: int,
        every: int = 1,
        even: bool = False,
    ) -> None:
        self._selection = selection
        self._preprocessing = preprocessing
        self._memory: TrackMemory[Any] = TrackMemory(reinfer_interval_ns)
        self._every = every
        self._even = even
        self._frames = _FrameCounter()

    def select(self, batch: Batch) -> list[InferenceTarget]:
        runs = np.array([self._frames.next(frame.stream) % self._every == 0 for frame in batch.frames], np.bool_)
        objects = batch.objects
        rows = np.flatnonzero(selected_objects(objects, self._selection))
        if not len(rows):
            return []
        usable = (recognisable_objects(objects, self._selection) & runs[objects.frame])[rows]
        regions = crop_regions(objects.xyxy[rows], self._selection)
        if self._even:
            regions = even_regions(regions)
        keys = track_keys(objects, rows)
        targets = [
            self._target(batch, row, (left, top, right, bottom), key, usable=is_usable)
            for row, (left, top, right, bottom), key, is_usable in zip(
                rows.tolist(), regions.tolist(), keys, usable.tolist(), strict=True
            )
        ]
        return [target for target in targets if target is not None]

    def end_stream(self, stream: Stream) -> None:
        self._frames.end_stream(stream)
        self._memory.end_stream(stream)

    def _target(
        self, batch: Batch, number: int, region: Region, key: Hashable | None, *, usable: bool
    ) -> InferenceTarget | None:
        """Return the object at a row as a target; None when the model does not run and no result is known."""
        objects, memory = batch.objects, self._memory
        row = int(objects.frame[number])
        if key is None:
            if not usable or self._selection.tracked:
                return None
            return InferenceTarget(row, self._placement(objects, number, region), number)
        stream, pts_ns = batch.frames[row].stream, batch.frames[row].pts_ns
        if not usable or (memory.reinfer_interval_ns and is_remembered(objects, number)):
            entry = memory.known(stream, key, pts_ns=pts_ns)
            if entry is None:
                return None
            return InferenceTarget(row, self._preprocessing.place(region), number, entry, due=False)
        entry = memory.entry(stream, key, pts_ns=pts_ns)
        area = (region[2] - region[0]) * (region[3] - region[1])
        due = memory.take_due(entry, pts_ns=pts_ns, area=area, confidence=float(objects.confidence[number]))
        return InferenceTarget(row, self._placement(objects, number, region), number, entry, due)

    def _placement(self, objects: Objects, number: int, region: Region) -> Placement:
        points, size_wh = objects.extra.get("keypoints"), self._preprocessing.size_wh
        if self._selection.align == "face" and points is not None and size_wh is not None:
            turned = align_face(points[number], size_wh=size_wh)
            if turned is not None:
                return Placement(region, (0, 0, *size_wh), size_wh, turned)
        return self._preprocessing.place(region)


def selected_objects(objects: Objects, selection: TargetSelection) -> npt.NDArray[np.bool_]:
    """Return a mask (N,) of the objects that a selection names by label and by the step that found them."""
    mask = np.ones(len(objects), np.bool_) if selection.label is None else objects.has_label(selection.label)
    if selection.origin is not None:
        origins = [number for number, origin in enumerate(objects.origins) if origin.element == selection.origin]
        mask &= np.isin(objects.origin, origins)
    return mask


def recognisable_objects(objects: Objects, selection: TargetSelection) -> npt.NDArray[np.bool_]:
    """Return a mask (N,) of the objects that are large and certain enough for a selection."""
    sides = objects.xyxy[:, 2:] - objects.xyxy[:, :2]
    large: npt.NDArray[np.bool_] = np.all(sides >= np.array(selection.min_size or (1, 1), np.float32), axis=1)
    return large & (objects.confidence >= np.float32(selection.min_confidence))


def crop_regions(xyxy: Boxes, selection: TargetSelection) -> Boxes:
    """Return the crops (N, 4) of boxes (N, 4): with margin, made square; they may reach beyond the frame."""
    sides = xyxy[:, 2:] - xyxy[:, :2]
    center = (xyxy[:, 2:] + xyxy[:, :2]) / 2
    half = sides * np.float32(0.5 + selection.margin)
    if selection.square:
        half = np.repeat(half.max(axis=1, keepdims=True), 2, axis=1)
    return np.concatenate([center - half, center + half], axis=1)


def even_regions(xyxy: Boxes) -> Boxes:
    """Return crops (N, 4) as DeepStream cuts them: left and top raised to even pixels, width and height lowered to even
    ones, each after its fraction is dropped; at least 2 pixels (`get_converted_buffer` of `gstnvinfer.cpp`).
    """
    start = np.ceil(np.trunc(np.maximum(xyxy[:, :2], 0)) / 2) * 2
    sides = np.maximum(np.trunc(xyxy[:, 2:] - xyxy[:, :2]) // 2 * 2, 2)
    return np.concatenate([start, start + sides], axis=1).astype(np.float32)


def track_keys(objects: Objects, rows: npt.NDArray[np.intp]) -> list[Hashable | None]:
    """Return what identifies each object over time; None for objects without a track.

    An object without a track that was found on a tracked one is identified by that track, the step that found it, and
    its number among those found there.
    """
    tracks, parents, origins = objects.track_id, objects.parent, objects.origin
    numbers = child_numbers(objects)

    def key(row: int) -> tuple[int, ...] | None:
        if tracks[row] >= 0:
            return (int(tracks[row]),)
        if parents[row] < 0:
            return None
        above = key(int(parents[row]))
        return None if above is None else (*above, int(origins[row]), int(numbers[row]))

    return [key(row) for row in rows.tolist()]


class StackSelector:
    """Gives each target of another selector the stack of its newest images.

    An image is taken on every `form.stride`-th frame of each stream. The model runs as soon as the stack is full, and
    again after `every` frames; results belong to the newest frame. Objects without a track are left out. A stack is
    dropped when it got no image for the time that it spans.
    """

    def __init__(self, selector: TargetSelector, form: StackForm, *, every: int) -> None:
        self._selector = selector
        self._form = form
        self._every = every
        self._frames = _FrameCounter()
        self._stacks: dict[Stream, dict[Hashable, Stack]] = {}

    def select(self, batch: Batch) -> list[InferenceTarget]:
        numbers = [self._count(frame.stream) for frame in batch.frames]
        regions = [0] * len(batch.frames)
        stacked = []
        for target in self._selector.select(batch):
            key: Hashable | None = target.entry
            if target.object < 0:
                key = regions[target.row]
                regions[target.row] += 1
            found = self._stacked(target, key, batch.frames[target.row].stream, number=numbers[target.row])
            if found is not None:
                stacked.append(found)
        return stacked

    def end_stream(self, stream: Stream) -> None:
        self._frames.end_stream(stream)
        self._stacks.pop(stream, None)
        self._selector.end_stream(stream)

    def _stacked(
        self, target: InferenceTarget, key: Hashable | None, stream: Stream, *, number: int
    ) -> InferenceTarget | None:
        """Return the target with its stack on frames that add an image; else with its known result, if there is one."""
        if key is None:
            return None
        if not target.due or number % self._form.stride:
            return None if target.entry is None else replace(target, due=False)
        stack = self._stacks.setdefault(stream, {}).setdefault(key, Stack(self._form.frames))
        stack.taken, stack.taken_at = stack.taken + 1, number
        due = stack.taken >= self._form.frames and (stack.asked_at is None or number - stack.asked_at >= self._every)
        if due:
            stack.asked_at = number
        return replace(target, stack=stack, due=due)

    def _count(self, stream: Stream) -> int:
        """Return the number of a stream's frame, and drop the stacks that no longer hold recent images."""
        number = self._frames.next(stream)
        stacks = self._stacks.get(stream)
        if stacks and number % self._form.stride == 0:
            oldest = number - self._form.frames * self._form.stride
            for key in [key for key, stack in stacks.items() if stack.taken_at < oldest]:
                del stacks[key]
        return number
