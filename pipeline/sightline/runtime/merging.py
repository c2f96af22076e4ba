"""Merging: what was made of some rows of a batch, put into their place; and the marks of what was altered."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from sightline.media import Batch, Objects


def merge_rows(batch: Batch, rows: Sequence[int], part: Batch) -> Batch:
    """The batch with what an operator made of some of its rows (`part`, in the order of `rows`) in their place."""
    mine = np.zeros(len(batch), np.bool_)
    mine[rows] = True
    place = np.array(rows, np.int32)
    others = batch.objects.select(~mine[batch.objects.frame])
    objects = part.objects.with_columns(frame=place[part.objects.frame])
    frames, overlays, detected = list(batch.frames), list(batch.overlays), list(batch.detected)
    overlays = overlays or ([()] * len(batch) if part.overlays else [])
    detected = detected or ([True] * len(batch) if part.detected else [])
    searched = list(batch.searched_by) or ([frozenset()] * len(batch) if part.searched_by else [])
    for index, row in enumerate(rows):
        frames[row] = part.frames[index]
        if part.overlays:
            overlays[row] = part.overlays[index]
        if part.detected:
            detected[row] = part.detected[index]
        if part.searched_by:
            searched[row] = part.searched_by[index]
    kept = [event for event in batch.events if not mine[event.frame]]
    moved = [dataclasses.replace(event, frame=rows[event.frame]) for event in part.events]
    kept_tensors = [tensor for tensor in batch.tensors if not mine[tensor.frame]]
    moved_tensors = [dataclasses.replace(tensor, frame=rows[tensor.frame]) for tensor in part.tensors]
    return Batch(
        frames=tuple(frames),
        objects=Objects.concat([others, objects]),
        events=tuple(sorted([*kept, *moved], key=lambda event: event.frame)),
        overlays=tuple(overlays),
        detected=tuple(detected),
        tensors=tuple(sorted([*kept_tensors, *moved_tensors], key=lambda tensor: tensor.frame)),
        searched_by=tuple(searched),
    )


def marked(given: Batch, result: Batch, *, changes_images: bool) -> Batch:
    """The result, in which frames whose image may be another one are marked as altered."""
    if not changes_images and result.frames is given.frames:
        return result
    altered = [
        not after.altered and (changes_images or after.surface is not before.surface)
        for before, after in zip(given.frames, result.frames, strict=True)
    ]
    if not any(altered):
        return result
    frames = tuple(
        dataclasses.replace(frame, altered=True) if is_altered else frame
        for frame, is_altered in zip(result.frames, altered, strict=True)
    )
    return dataclasses.replace(result, frames=frames)
