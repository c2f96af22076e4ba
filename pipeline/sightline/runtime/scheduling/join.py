"""Join parallel branches: merge what they found, frame by frame."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from sightline.errors import EndOfLink
from sightline.graph import Element
from sightline.media import Altered, Batch, Event, Objects, Tensor
from sightline.runtime.scheduling.link import Item, LinkReceiver, WorkItem


def marked(given: Batch, result: Batch, *, element: Element) -> Batch:
    """Mark the frames of a result whose image the element may have changed as altered."""
    if not element.changes_images and result.frames is given.frames:
        return result
    how = Altered.DRAWN if element.draws_only else Altered.CHANGED
    altered = [
        after.altered | how if element.changes_images or after.surface is not before.surface else after.altered
        for before, after in zip(given.frames, result.frames, strict=True)
    ]
    if all(now is frame.altered for now, frame in zip(altered, result.frames, strict=True)):
        return result
    frames = tuple(
        frame if now is frame.altered else dataclasses.replace(frame, altered=now)
        for now, frame in zip(altered, result.frames, strict=True)
    )
    return dataclasses.replace(result, frames=frames)


_ROW = "_row"


def mark_inherited(batch: Batch) -> Batch:
    """Prepare a batch for branches: share it, and number its objects so that the join recognizes them."""
    objects = batch.objects
    if len(objects):
        objects = objects.with_columns(**{_ROW: np.arange(len(objects), dtype=np.int32)})
    return batch.shared().with_objects(objects)


Rows = npt.NDArray[np.int32]


class Join:
    """Receives the same batches from the trunk and from every branch, in the same order, and merges them.

    Pixels are the trunk's. An object that was there before the branches stays unless every branch dropped it, with
    the columns that a branch changed (a later branch wins); objects, events and overlays that branches added follow
    in the order of the branches.
    """

    def __init__(
        self,
        trunk: LinkReceiver[Item],
        branches: Sequence[LinkReceiver[Item]],
        *,
        on_lost: Callable[[WorkItem], None] | None = None,
    ) -> None:
        self._trunk = trunk
        self._branches = branches
        self._on_lost = on_lost

    @property
    def receivers(self) -> Sequence[LinkReceiver[Item]]:
        """What it receives from: the trunk, then the branches."""
        return [self._trunk, *self._branches]

    def receive(self) -> Item:
        """Return the next merged batch, or a mark. Raises EndOfLink, also when the branches were cut off at
        different places because the run was aborted.
        """
        base = self._trunk.receive()
        if isinstance(base, WorkItem) and base.is_lost:  # before the branches: they did not get it
            return base
        try:
            parts = [_matching(base, link.receive()) for link in self._branches]
            if not isinstance(base, WorkItem):
                return base
            base.is_lost = any(isinstance(part, WorkItem) and part.is_lost for part in parts)
            if base.is_lost:
                if self._on_lost is not None:
                    self._on_lost(base)
                return base
            batches = [part.batch() for part in parts if isinstance(part, WorkItem)]
            merged = merge_branches(base.batch(), batches)
            for part in parts:
                if isinstance(part, WorkItem) and part.trace is not None:
                    part.trace.release()
            return WorkItem(base.frames, base.arrivals_ns, merged, trace=base.trace, inspection=base.inspection)
        except BaseException:
            if isinstance(base, WorkItem) and self._on_lost is not None:
                self._on_lost(base)
            raise

    def close(self) -> None:
        """Receive nothing more."""
        for link in (self._trunk, *self._branches):
            link.close()


def _matching(base: Item, part: Item) -> Item:
    """Return what a branch sent if it matches the trunk. Raises EndOfLink if the branch has left something out."""
    if isinstance(base, WorkItem) and isinstance(part, WorkItem):
        same = part.frames is base.frames
    else:
        same = base == part
    if not same:
        raise EndOfLink
    return part


def merge_branches(base: Batch, branches: Sequence[Batch]) -> Batch:
    """Merge what the branches found into the trunk's batch."""
    return Batch(
        frames=base.frames,
        objects=_merge_objects(base.objects, [branch.objects for branch in branches]),
        events=_merge_events(base, branches),
        tensors=_merge_tensors(base, branches),
        columns=base.columns.merged([branch.columns for branch in branches]),
    )


def _rows_of(objects: Objects) -> Rows:
    rows = objects.extra.get(_ROW)
    return np.full(len(objects), -1, np.int32) if rows is None else rows


def _without_mark(objects: Objects) -> Objects:
    extra = {name: column for name, column in objects.extra.items() if name != _ROW}
    return dataclasses.replace(objects, extra=extra)


def _merge_objects(base: Objects, branches: Sequence[Objects]) -> Objects:
    inherited, place = _merge_inherited(base, branches)
    added, parents = [], []
    for branch in branches:
        rows = _rows_of(branch)
        own = rows < 0
        added.append(_without_mark(branch.select(own)))
        of_base = np.where(branch.parent >= 0, rows[branch.parent], -1)[own] if len(branch) else rows
        parents.append(np.where(of_base >= 0, place[of_base], -1) if len(place) else of_base)
    return _with_added(inherited, added, parents)


def _with_added(inherited: Objects, added: Sequence[Objects], parents: Sequence[Rows]) -> Objects:
    """What was there before and what the branches found, branch by branch, each found object with its parent."""
    found = Objects.concat(added)
    order = np.argsort(np.concatenate([table.frame for table in added]), kind="stable")
    return inherited.with_children(found, parents=np.concatenate(parents)[order])


def _merge_inherited(base: Objects, branches: Sequence[Objects]) -> tuple[Objects, Rows]:
    """The objects that were there before and are still there, and where each row of `base` went (-1: dropped)."""
    if not len(base):
        return base, np.empty(0, np.int32)
    merged, kept = base, np.zeros(len(base), np.bool_)
    for branch in branches:
        rows = _rows_of(branch)
        own = _without_mark(branch.select(rows >= 0))
        rows = rows[rows >= 0]
        kept[rows] = True
        merged = _take_changes(merged, base, own, rows)
    place = np.where(kept, np.cumsum(kept) - 1, -1).astype(np.int32)
    return merged.select(kept), place


def _take_changes(merged: Objects, base: Objects, branch: Objects, rows: Rows) -> Objects:
    changes = {}
    for name in ("xyxy", "confidence", "class_id", "track_id"):
        new, old = getattr(branch, name), getattr(base, name)
        if not np.array_equal(old[rows], new):
            changes[name] = getattr(merged, name).copy()
            changes[name][rows] = new
    merged = merged.with_columns(**changes) if changes else merged
    for name, new in branch.extra.items():
        known = base.extra.get(name)
        if known is None or not np.array_equal(known[rows], new):
            merged = merged.with_values(name, rows=rows, values=new)
    return merged


def _merge_events(base: Batch, branches: Sequence[Batch]) -> tuple[Event, ...]:
    known = {id(event) for event in base.events}
    added = [event for branch in branches for event in branch.events if id(event) not in known]
    return tuple(sorted([*base.events, *added], key=lambda event: event.frame))


def _merge_tensors(base: Batch, branches: Sequence[Batch]) -> tuple[Tensor, ...]:
    known = {id(tensor) for tensor in base.tensors}
    added = [tensor for branch in branches for tensor in branch.tensors if id(tensor) not in known]
    return tuple(sorted([*base.tensors, *added], key=lambda tensor: tensor.frame))
