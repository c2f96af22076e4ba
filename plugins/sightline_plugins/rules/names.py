"""Names of rules in options: `step.rule`, or `step.rule.direction`."""

from __future__ import annotations

import re
from typing import Annotated

from sightline.graph.fields import Shape
from sightline.media import Event

RuleName = Annotated[str, Shape(r"[A-Za-z0-9_-]+\.\S+", "must be `step.rule` or `step.rule.direction`")]
"""`step.rule` or `step.rule.direction`; `step` is an id, or the name of the element."""


def is_of_step(event: Event, name: str) -> bool:
    """Whether an event is of the step of the rule of that name: of its id, or of its element when the id is the name of
    that and a number.
    """
    step = name.split(".", 1)[0]
    return not event.step or event.step == step or re.fullmatch(re.escape(step) + r"-\d+", event.step) is not None


def is_of_rule(event: Event, name: str) -> bool:
    """Whether an event is of the rule of that name (and direction)."""
    if not is_of_step(event, name):
        return False
    rest = name.split(".", 1)[1]
    details = (event.data.get("direction"), event.data.get("state"), event.kind)
    return rest == event.rule or rest in [f"{event.rule}.{detail}" for detail in details if detail is not None]
