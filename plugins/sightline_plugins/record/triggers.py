"""What starts a recording: an event of a rule, or objects of a label in the image."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from sightline.graph.fields import Fraction
from sightline.media import Event, FrameView

RuleName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]+\.[^\s]+$")]
"""`step.rule` or `step.rule.direction`; `step` is an id, or the name of the element."""


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class LabelTrigger(BaseModel):
    """Objects of a label in the image: recording goes on while there are any, and for `after` from then on."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True)

    label: Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    """Label, or labels of which one is enough."""
    confidence: Fraction = 0.0
    """How sure the detector has to be."""


Trigger = RuleName | LabelTrigger


def causes(view: FrameView, triggers: Sequence[Trigger]) -> Iterator[str]:
    """Why a frame starts a recording, in words; nothing when it does not."""
    for trigger in triggers:
        if isinstance(trigger, LabelTrigger):
            yield from _labels(view, trigger)
        elif any(says(event, trigger) for event in view.events):
            yield trigger


def says(event: Event, name: str) -> bool:
    """Whether this is an event of the rule of that name (and direction)."""
    step, rest = name.split(".", 1)
    if event.step and not is_named(event.step, step):
        return False
    ways = (event.data.get("direction"), event.data.get("state"), event.kind)
    return rest == event.rule or rest in [f"{event.rule}.{way}" for way in ways if way is not None]


def is_named(element_id: str, name: str) -> bool:
    """Whether a step is meant: by its id, or by the name of its element when the id is that and a number."""
    return element_id == name or re.fullmatch(re.escape(name) + r"-\d+", element_id) is not None


def _labels(view: FrameView, trigger: LabelTrigger) -> Iterator[str]:
    objects = view.objects
    if len(objects):
        there = objects.has_label(trigger.label) & (objects.confidence >= np.float32(trigger.confidence))
        yield from dict.fromkeys(objects.select(there).labels())
