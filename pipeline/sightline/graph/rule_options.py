"""Options of every named rule, whatever it looks for: when it is active, how often it reports, how grave it is.

The rule itself knows nothing of cool-downs and severity: they are put on its events here. A schedule it has to obey,
because what happens outside of it is not counted either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sightline.graph.described import Described
from sightline.graph.schedule import Schedule
from sightline.graph.state import Saved
from sightline.media import Part
from sightline.media.time import Duration

Severity = Literal["info", "low", "medium", "high", "critical"]
_MOST_HELD = 10_000


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
        last_ns = self._reported_ns.get(rule)
        if last_ns is None or now_ns - last_ns >= cooldown_ns:
            self._reported_ns[rule] = now_ns
            self._held.pop(key, None)
            return True
        if part is Part.BEGIN:
            self._held[key] = None
            if len(self._held) > _MOST_HELD:
                del self._held[next(iter(self._held))]
        return False

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
