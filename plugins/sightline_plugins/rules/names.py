"""Names of rules in options: `step.rule`, or `step.rule.direction`."""

from __future__ import annotations

import re
from typing import Annotated

from sightline.graph.fields import Shape
from sightline.media import Event

RuleName = Annotated[str, Shape(r"[A-Za-z0-9_-]+\.\S+", "must be `step.rule` or `step.rule.direction`")]
"""`step.rule` or `step.rule.direction`; `step` is an id, or the name of the element."""


def is_of_rule(event: Event, name: str) -> bool:
    """Whether an event is of the rule of that name (and direction)."""
    step, rest = name.split(".", 1)
    # A step is named by its id, or by the name of its element when the id is that and a number.
    if event.step and event.step != step and re.fullmatch(re.escape(step) + r"-\d+", event.step) is None:
        return False
    details = (event.data.get("direction"), event.data.get("state"), event.kind)
    return rest == event.rule or rest in [f"{event.rule}.{detail}" for detail in details if detail is not None]
