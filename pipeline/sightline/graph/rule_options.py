"""Options of every named rule, whatever it looks for: when it is active, how often it reports, how grave it is.

The rule itself knows nothing of cool-downs and severity: they are put on its events here. A schedule it has to obey,
because what happens outside of it is not counted either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Field, model_validator

from sightline.graph.described import Described
from sightline.graph.fields import Shape
from sightline.graph.schedule import Schedule
from sightline.graph.state import Saved
from sightline.media import Part
from sightline.media.time import Duration

Severity = Literal["info", "low", "medium", "high", "critical"]
_MOST_HELD = 10_000


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Words = Annotated[
    tuple[Annotated[str, Shape(r"\w.{0,49}", "must begin with a letter, and have at most 50 characters")], ...],
    BeforeValidator(_as_tuple),
    Field(min_length=1),
]


class Verify(Described):
    """How alarms of a rule are verified before they go out."""

    question: Annotated[str, Field(min_length=1, max_length=8000)] = (
        "Look at the images: is what the system reports really so?"
    )
    """The question about an alarm. How the answer has to begin is added to it."""
    confirm: Words = ("yes",)
    """Words with which an answer begins that confirms the alarm. The first one is asked for."""
    refuse: Words = ("no",)
    """Words with which an answer begins that refuses the alarm. The first one is asked for."""
    otherwise: Literal["send", "hold"] = "send"
    """What becomes of an alarm without such an answer in time: it is sent, marked as unanswered, or not sent at all."""
    timeout: Annotated[Duration, Field(gt=0)] = 30_000_000_000
    """How long an alarm waits for its answer at most."""
    by: Annotated[str, Field(min_length=1)] | None = None
    """The id of the `describe` step that asks; the next one behind the rule when not given."""

    @model_validator(mode="after")
    def _tells_apart(self) -> Self:
        if both := {one.casefold() for one in self.confirm} & {one.casefold() for one in self.refuse}:
            raise ValueError(f"{sorted(both)[0]!r} stands in confirm and in refuse")
        return self


class RuleOptions(Described):
    """Options of one named rule that the framework sees to."""

    schedule: Schedule | None = None
    """When the rule is active, such as `mon-fri 08:00-18:00`, in the time of day of the frames; always when not given.
    Outside of these hours it sees no objects: it counts and reports nothing, and what lasts then ends."""
    cooldown: Duration = 0
    """How long the rule reports nothing new on a stream after an event. What is not reported is counted all the same.
    The end of something is reported exactly when its beginning was."""
    severity: Severity | None = None
    """How grave the rule's events are; it stands in each of them."""
    verify: bool | Verify = False
    """Hold events back until a vision-language model has confirmed them: a `describe` step behind this one asks. Those
    that it refuses are not sent."""

    @property
    def verification(self) -> Verify | None:
        """How its events are verified; None when they are not."""
        return (Verify() if self.verify else None) if isinstance(self.verify, bool) else self.verify


def active_rules(schedules: Sequence[Schedule | None], times_ns: Sequence[int]) -> npt.NDArray[np.bool_] | None:
    """Return whether rules with these schedules are active at F times of day -> (F, R); None where none has one."""
    if not any(schedules):
        return None
    return np.array([[one is None or one.is_active(now_ns) for one in schedules] for now_ns in times_ns])


class CoolDowns:
    """Decides which events of one stream are reported. `now_ns` is the clock of its rules."""

    def __init__(self) -> None:
        self._reported_ns: dict[str, int] = {}
        self._held: dict[tuple[str, str, int], None] = {}
        """Rule, kind and subject of what began unreported, and has not ended; the oldest first."""

    def lets_through(self, rule: str, kind: str, part: Part, subject: int, *, cooldown_ns: int, now_ns: int) -> bool:
        """Whether an event is reported; called for each event of a rule with a cool-down, in order."""
        key = (rule, kind, subject)
        if part is Part.END:
            return self._held.pop(key, key) is not None
        if not self.is_quiet(rule, cooldown_ns=cooldown_ns, now_ns=now_ns):
            self._reported_ns[rule] = now_ns
            self._held.pop(key, None)
            return True
        self.hold(rule, kind, part, subject)
        return False

    def is_quiet(self, rule: str, *, cooldown_ns: int, now_ns: int) -> bool:
        """Whether something new is not reported now."""
        last_ns = self._reported_ns.get(rule)
        return last_ns is not None and now_ns - last_ns < cooldown_ns

    def hold(self, rule: str, kind: str, part: Part, subject: int) -> None:
        """Note that an event is not reported: if something begins with it, its end is not reported either."""
        if part is Part.BEGIN:
            self._held[rule, kind, subject] = None
            if len(self._held) > _MOST_HELD:
                del self._held[next(iter(self._held))]

    def save(self) -> Saved:
        """Return its state."""
        return {"reported_ns": dict(self._reported_ns), "held": [list(one) for one in self._held]}

    def restore(self, saved: Saved) -> None:
        """Take over the state of an earlier process."""
        self._reported_ns = {str(rule): int(time) for rule, time in saved["reported_ns"].items()}
        self._held = {(str(rule), str(kind), int(subject)): None for rule, kind, subject in saved["held"]}


def with_severity(data: Mapping[str, Any], severity: Severity | None) -> Mapping[str, Any]:
    """Return an event's data with how grave it is, where that is known."""
    return data if severity is None else {**data, "severity": severity}
