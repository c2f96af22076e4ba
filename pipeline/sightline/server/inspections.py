"""Frames that somebody has inspected: made as plain data, kept for a minute."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sightline.api import (
    InspectedBox,
    InspectedObject,
    InspectedScore,
    InspectedStep,
    InspectedTarget,
    Inspection,
)
from sightline.graph.inspection import ModelWork
from sightline.media import Objects
from sightline.media.convert import rgb_from_surface
from sightline.media.surface import Surface
from sightline.redaction import redact
from sightline.runtime.inspection import FrameInspection, StepInspection

Image = npt.NDArray[np.uint8]
FRAME = "frame.png"
_KEPT_SECONDS = 60.0
_MOST_KEPT = 4
_MOST_INPUTS = 48


@dataclass(slots=True)
class _Made:
    answer: Inspection
    images: dict[str, Image]
    at_seconds: float = field(default_factory=monotonic)


class Inspections:
    """The last inspections, four at most, each for a minute. From any thread; one frame at a time is inspected."""

    def __init__(self) -> None:
        self.turn = Lock()
        """Held while a frame is inspected."""
        self._made: dict[str, _Made] = {}
        self._lock = Lock()

    def add(self, inspection: FrameInspection) -> Inspection:
        """Keep an inspection whose frame has come."""
        made = _Made(*plain_inspection(inspection))
        with self._lock:
            self._forget()
            while len(self._made) >= _MOST_KEPT:
                del self._made[next(iter(self._made))]
            self._made[made.answer.id] = made
        return made.answer

    def get(self, inspection_id: str) -> Inspection | None:
        """Return an inspection; None when it is forgotten."""
        made = self._find(inspection_id)
        return None if made is None else made.answer

    def image(self, inspection_id: str, name: str) -> Image | None:
        """Return an image (height, width, 3), RGB, of an inspection; None when there is none, or it is forgotten."""
        made = self._find(inspection_id)
        return None if made is None else made.images.get(name)

    def _find(self, inspection_id: str) -> _Made | None:
        with self._lock:
            self._forget()
            return self._made.get(inspection_id)

    def _forget(self) -> None:
        oldest = monotonic() - _KEPT_SECONDS
        for name in [name for name, made in self._made.items() if made.at_seconds < oldest]:
            del self._made[name]


def plain_inspection(inspection: FrameInspection) -> tuple[Inspection, dict[str, Image]]:
    """Return an inspection whose frame has come as plain data, and images that it names, (height, width, 3), RGB."""
    frame = inspection.frame
    assert frame is not None
    surface, note = inspection.image()
    images: dict[str, Image] = {} if surface is None else {FRAME: rgb_from_surface(surface)}
    steps = [
        _step_of(step_id, element.name, inspection.steps.get(step_id), surface, images)
        for step_id, element in inspection.elements.items()
    ]
    answer = Inspection(
        id=secrets.token_urlsafe(12),
        stream=inspection.stream,
        frame=frame.index,
        pts_ns=frame.pts_ns,
        size=list(frame.size_wh),
        image=None if surface is None else FRAME,
        image_note=note,
        steps=steps,
    )
    return answer, images


def _step_of(
    step_id: str, element: str, step: StepInspection | None, surface: Surface | None, images: dict[str, Image]
) -> InspectedStep:
    if step is None:
        return InspectedStep(
            id=step_id, element=element, state="missing", before=[], after=[], events=[], is_model=False, targets=[]
        )
    after = step.after
    state: Literal["done", "failed", "missing"] = "missing" if after is None else "done"
    if step.failure:
        state, after = "failed", step.before
    return InspectedStep(
        id=step_id,
        element=element,
        state=state,
        failure=redact(step.failure),
        before=_objects(step.before),
        after=[] if after is None else _objects(after),
        events=[event.to_json() for event in step.events],
        is_model=step.is_model,
        targets=[_target(work, surface, images) for work in step.works],
    )


def _target(work: ModelWork, surface: Surface | None, images: dict[str, Image]) -> InspectedTarget:
    found = work.explain()
    name = None
    if surface is not None and len(images) <= _MOST_INPUTS:
        name = f"input-{len(images) - 1}.png"
        images[name] = work.input_of(surface)
    return InspectedTarget(
        object=None if work.object_row < 0 else work.object_row,
        corners=[list(corner) for corner in work.corners],
        input=name,
        note=work.note,
        threshold=found.threshold,
        boxes=[
            InspectedBox(
                label=one.label,
                confidence=round(one.confidence, 4),
                box=_rounded(one.xyxy),
                survives=one.survives,
                kept=one.is_kept,
            )
            for one in found.boxes
        ],
        scores=[InspectedScore(output=one.output, label=one.label, value=round(one.value, 4)) for one in found.scores],
    )


def _objects(table: Objects) -> list[InspectedObject]:
    return [
        InspectedObject(
            label=one.label,
            confidence=round(one.confidence, 4),
            box=_rounded(one.xyxy),
            track_id=one.track_id,
            attributes={name: _plain(value) for name, value in one.attributes.items()},
        )
        for one in table
    ]


def _rounded(xyxy: tuple[float, float, float, float]) -> list[float]:
    return [round(value, 2) for value in xyxy]


def _plain(value: object) -> Any:
    """Return an attribute as JSON holds it."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | bool | None) else str(value)
