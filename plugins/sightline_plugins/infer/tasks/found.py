"""What was found, as answers: candidates in pixels of the picture that become objects of the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Objects, Origin, Skeleton
from sightline.media.boxes import Boxes, clip
from sightline.media.objects import Column
from sightline.media.shapes import usual_skeleton
from sightline_plugins.infer.heads.findings import Candidates
from sightline_plugins.infer.subjects.memory import Slot
from sightline_plugins.infer.subjects.siblings import NOBODY, Numbers, Siblings, sibling_columns
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.infer.tasks.masks import moved_mask
from sightline_plugins.infer.tasks.task import Answered, Task
from sightline_plugins.pixels.placement import Region

SkeletonOf = Callable[[int], Skeleton]
"""What so many keypoints are called and how they are joined."""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The answer of one subject: candidates in pixels of the picture, and the box of the object they were found on.

    Of a tracked object also the number of each candidate (N,), what is remembered to number the next ones by, and
    whether the candidates were found on an earlier frame. `read_nothing` says that the outputs held no
    candidate at all.
    """

    candidates: Candidates
    on: Boxes | None = None
    numbers: Numbers | None = None
    siblings: Siblings = NOBODY
    is_remembered: bool = False
    read_nothing: bool = False


class FindingTask(Task[Found]):
    """Puts what was found into the batch: as objects of the picture, or as children of the objects it was found on.

    Subclasses read the outputs, and say how finds of several regions of one picture become one table.
    """

    def __init__(self, origin: Origin, *, skeleton_of: SkeletonOf = usual_skeleton) -> None:
        self._origin = origin
        self._skeleton_of = skeleton_of

    def is_empty(self, answer: Found) -> bool:
        """Whether the head read nothing at all, not even boxes to be left out."""
        return answer.read_nothing

    def learn(self, slot: Slot[Found], answer: Found, subject: Subject, batch: Batch) -> Found:
        """The newest finds, with the numbers that they have over the object's life."""
        on = batch.objects.xyxy[subject.object]
        before = NOBODY if slot.known is None else slot.known.siblings
        found = answer.candidates
        numbers, siblings = before.numbered(found.xyxy, found.class_id, on=on)
        return super().learn(slot, replace(answer, numbers=numbers, siblings=siblings), subject, batch)

    def recall(self, slot: Slot[Found], subject: Subject, batch: Batch) -> Found | None:
        """What was found on the object, moved along with its box; what has left the picture goes."""
        known = slot.known
        if known is None or known.on is None or not len(known.candidates):
            return known
        found = moved(known.candidates, known.on, batch.objects.xyxy[subject.object])
        found = replace(found, xyxy=clip(found.xyxy, size_wh=batch.frames[subject.row].size_wh))
        there: npt.NDArray[np.bool_] = np.all(found.xyxy[:, 2:] > found.xyxy[:, :2], axis=1)
        numbers = known.numbers
        if not there.all():
            found, numbers = found.select(there), None if numbers is None else numbers[there]
        return Found(found, known.on, numbers=numbers, is_remembered=True)

    def attach(self, batch: Batch, answered: Sequence[Answered[Found]]) -> Batch:
        """The batch with more objects."""
        rows, parents, tables = [], [], []
        for looks in _looks(answered):
            subject = looks[0][0]
            found = [NOTHING if answer is None else answer.candidates for _, answer in looks]
            regions = [look.placement.region_xyxy for look, _ in looks]
            size_wh = batch.frames[subject.row].size_wh
            tables.append(found[0] if len(looks) == 1 else self.merged(found, regions=regions, size_wh=size_wh))
            rows.append(subject.row)
            parents.append(subject.object)
        batch = _marked(batch, answered)
        counts = [len(table) for table in tables]
        if not sum(counts):
            return batch
        every = joined(tables)
        objects = Objects.from_columns(
            frame=np.repeat(rows, counts),
            xyxy=every.xyxy,
            confidence=every.confidence,
            class_id=every.class_id,
            source=self._origin,
            extra=self._structures(every),
        )
        if max(parents) < 0:
            return batch.with_objects(Objects.concat([batch.objects, objects]))
        objects = objects.with_columns(**_ties(answered))
        return batch.with_objects(batch.objects.with_children(objects, parents=np.repeat(parents, counts)))

    def merged(
        self, tables: Sequence[Candidates], *, regions: Sequence[Region], size_wh: tuple[int, int]
    ) -> Candidates:
        """What was found on several regions (in pixels) of one picture, as one table."""
        raise NotImplementedError

    def _structures(self, found: Candidates) -> dict[str, npt.NDArray[Any]]:
        extra: dict[str, npt.NDArray[Any]] = {}
        if found.points is not None:
            extra["keypoints"] = found.points
            extra["skeleton"] = np.full(len(found), self._skeleton_of(found.points.shape[1]), np.object_)
        if found.corners is not None:
            extra["corners"] = found.corners
        if found.shapes is not None:
            extra["mask"] = found.shapes
        return extra


def _ties(answered: Sequence[Answered[Found]]) -> dict[str, Column]:
    """The columns of things found on objects that tell the steps behind which thing is which."""
    finds = [answer for _, answer in answered if answer is not None and len(answer.candidates)]
    numbers = [np.full(len(one.candidates), -1, np.int32) if one.numbers is None else one.numbers for one in finds]
    counts = [len(one.candidates) for one in finds]
    remembered = np.repeat([one.is_remembered for one in finds], counts)
    return sibling_columns(np.concatenate(numbers), remembered=remembered)


def _looks(answered: Sequence[Answered[Found]]) -> Iterator[list[Answered[Found]]]:
    """The answers, those about one picture together, those about an object each alone."""
    looks: list[Answered[Found]] = []
    for look in answered:
        subject = look[0]
        if looks and (subject.object >= 0 or subject.row != looks[0][0].row or looks[0][0].object >= 0):
            yield looks
            looks = []
        looks.append(look)
    if looks:
        yield looks


def _marked(batch: Batch, answered: Sequence[Answered[Found]]) -> Batch:
    """The batch with the frames marked that a detector of pictures ran on, and gave numbers for."""
    looked = {subject.row for subject, _ in answered if subject.object < 0}
    looked -= {subject.row for subject, answer in answered if answer is None}
    if any(subject.object >= 0 for subject, _ in answered):
        return batch
    before = batch.detected or (False,) * len(batch)
    return replace(batch, detected=tuple(old or row in looked for row, old in enumerate(before)))


def in_picture(found: Candidates, subject: Subject, *, size_wh: tuple[int, int]) -> Candidates:
    """Candidates in pixels of the network's input -> in pixels of the picture, their boxes cut to it."""
    placement = subject.placement
    points, corners = found.points, found.corners
    if points is not None:
        points = np.concatenate([placement.points_in_picture(points[..., :2]), points[..., 2:]], axis=-1)
    return replace(
        found,
        xyxy=clip(placement.boxes_in_picture(found.xyxy), size_wh=size_wh),
        points=points,
        corners=None if corners is None else placement.points_in_picture(corners),
    )


def movement(before: Boxes, now: Boxes) -> tuple[Boxes, Boxes]:
    """Scale (2,) and shift (2,) that take a box (4,) from `before` to `now`: x * scale + shift."""
    scale = (now[2:] - now[:2]) / np.maximum(before[2:] - before[:2], np.float32(1e-6))
    return scale, now[:2] - before[:2] * scale


def moved(found: Candidates, before: Boxes, now: Boxes) -> Candidates:
    """What was found on an object when its box (4,) was `before`, where its box is now."""
    scale, shift = movement(before, now)
    points, corners, shapes = found.points, found.corners, found.shapes
    if points is not None:
        points = np.concatenate([points[..., :2] * scale + shift, points[..., 2:]], axis=-1)
    if shapes is not None:
        shapes = np.fromiter((moved_mask(mask, scale=scale, shift=shift) for mask in shapes), np.object_, len(shapes))
    return replace(
        found,
        xyxy=found.xyxy * np.tile(scale, 2) + np.tile(shift, 2),
        points=points,
        corners=None if corners is None else corners * scale + shift,
        shapes=shapes,
    )


def joined(tables: Sequence[Candidates]) -> Candidates:
    """The rows of all tables, one after the other; all come from the same model."""
    if len(tables) == 1:
        return tables[0]
    filled = [table for table in tables if len(table)]
    if len(filled) <= 1:
        return filled[0] if filled else NOTHING

    def column(name: str) -> npt.NDArray[Any] | None:
        parts = [getattr(table, name) for table in filled]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    return Candidates(
        np.concatenate([table.xyxy for table in filled]),
        np.concatenate([table.confidence for table in filled]),
        np.concatenate([table.class_id for table in filled]),
        points=column("points"),
        corners=column("corners"),
        shapes=column("shapes"),
    )


def all_finite(outputs: Sequence[npt.NDArray[Any]]) -> bool:
    """Whether every number of the outputs is finite."""
    return all(output.dtype.kind != "f" or bool(np.isfinite(output).all()) for output in outputs)


NOTHING = Candidates.from_arrays(np.empty((0, 4)), np.empty(0), np.empty(0))
