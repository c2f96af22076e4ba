"""Joining parallel branches: what each found is merged, frame by frame, exactly."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from sightline.errors import EndOfLink
from sightline.media import Batch, Event, Objects, Overlay
from sightline.runtime.link import Link
from sightline.runtime.parcel import Item, Parcel, StreamEnd

_ROW = "_row"


def mark_inherited(batch: Batch) -> Batch:
    """The batch as branches get it: shared, its objects numbered so that the join knows them again."""
    objects = batch.objects
    if len(objects):
        objects = objects.with_columns(**{_ROW: np.arange(len(objects), dtype=np.int32)})
    return batch.shared().with_objects(objects)


class Join:
    """Receives the same parcels from the trunk and from every branch, in the same order, and merges them.

    Pixels are the trunk's. An object that was there before the branches stays unless every branch dropped it, with
    the columns that a branch changed (a later branch wins); objects, events and overlays that branches added follow
    in the order of the branches.
    """

    def __init__(
        self, trunk: Link[Item], branches: Sequence[Link[Item]], *, on_lost: Callable[[Parcel], None] | None = None
    ) -> None:
        self._trunk = trunk
        self._branches = branches
        self._on_lost = on_lost

    def receive(self) -> Item:
        """The next merged parcel, or the end of a stream. Raises EndOfLink, also when the branches were cut off at
        different places because the run was aborted.
        """
        base = self._trunk.receive()
        try:
            parts = [_matching(base, link.receive()) for link in self._branches]
            if isinstance(base, StreamEnd):
                return base
            batches = [part.batch() for part in parts if isinstance(part, Parcel)]
            return Parcel(base.frames, base.arrivals_ns, merge_branches(base.batch(), batches))
        except BaseException:
            if isinstance(base, Parcel) and self._on_lost is not None:
                self._on_lost(base)
            raise

    def close(self) -> None:
        """Take nothing more."""
        for link in (self._trunk, *self._branches):
            link.close()


def _matching(base: Item, part: Item) -> Item:
    """What a branch sent, when it is what the trunk sent; else the branch left something out, and that is its end."""
    if isinstance(base, Parcel) and isinstance(part, Parcel):
        same = part.frames is base.frames
    else:
        same = base == part
    if not same:
        raise EndOfLink
    return part


def merge_branches(base: Batch, branches: Sequence[Batch]) -> Batch:
    """The trunk's batch with what its branches found."""
    inherited = _merge_inherited(base.objects, [branch.objects for branch in branches])
    added = [_without_mark(branch.objects.select(_rows_of(branch.objects) < 0)) for branch in branches]
    return Batch(
        frames=base.frames,
        objects=Objects.concat([inherited, *added]),
        events=_merge_events(base, branches),
        overlays=_merge_overlays(base, branches),
        detected=_merge_detected([base, *branches]),
    )


def _rows_of(objects: Objects) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    rows = objects.extra.get(_ROW)
    return np.full(len(objects), -1, np.int32) if rows is None else rows


def _without_mark(objects: Objects) -> Objects:
    extra = {name: column for name, column in objects.extra.items() if name != _ROW}
    return dataclasses.replace(objects, extra=extra)


def _merge_inherited(base: Objects, branches: Sequence[Objects]) -> Objects:
    if not len(base):
        return base
    merged, kept = base, np.zeros(len(base), np.bool_)
    for branch in branches:
        rows = _rows_of(branch)
        own = _without_mark(branch.select(rows >= 0))
        rows = rows[rows >= 0]
        kept[rows] = True
        merged = _take_changes(merged, base, own, rows)
    return merged.select(kept)


def _take_changes(
    merged: Objects, base: Objects, branch: Objects, rows: np.ndarray[tuple[int], np.dtype[np.int32]]
) -> Objects:
    changes = {}
    for name in ("xyxy", "confidence", "class_id", "track_id", *branch.extra):
        new = branch.extra[name] if name in branch.extra else getattr(branch, name)
        old = base.extra.get(name) if name in branch.extra else getattr(base, name)
        if old is None:
            old = np.zeros((len(base), *new.shape[1:]), new.dtype)
        elif np.array_equal(old[rows], new):
            continue
        present = merged.extra.get(name) if name in branch.extra else getattr(merged, name)
        column = (old if present is None else present).copy()
        column[rows] = new
        changes[name] = column
    return merged.with_columns(**changes) if changes else merged


def _merge_events(base: Batch, branches: Sequence[Batch]) -> tuple[Event, ...]:
    known = {id(event) for event in base.events}
    added = [event for branch in branches for event in branch.events if id(event) not in known]
    return tuple(sorted([*base.events, *added], key=lambda event: event.frame))


def _merge_overlays(base: Batch, branches: Sequence[Batch]) -> tuple[tuple[Overlay, ...], ...]:
    if not any(branch.overlays for branch in branches):
        return base.overlays
    before = base.overlays or ((),) * len(base)
    return tuple(
        own + tuple(overlay for branch in branches if branch.overlays for overlay in branch.overlays[row][len(own) :])
        for row, own in enumerate(before)
    )


def _merge_detected(batches: Sequence[Batch]) -> tuple[bool, ...]:
    known = [batch.detected for batch in batches if batch.detected]
    return tuple(any(row) for row in zip(*known, strict=True)) if known else ()
