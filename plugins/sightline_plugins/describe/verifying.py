"""Alarms that are held back until a model has confirmed them, or their time is over."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Condition
from typing import Any

from sightline.graph import AlarmCount, Clock, WaitLimit
from sightline.graph.rule_options import CoolDowns, RuleOptions, Verify
from sightline.media import Alarm, Batch, Event, Part, Stream
from sightline.media.events import Scalar
from sightline.media.time import format_time
from sightline_plugins.describe.facts import Moment

_OUTCOMES = ("confirmed", "refused", "unanswered")
_LONGEST_WAIT_SECONDS = 0.5
"""After how long a wait looks at the clock, which a test may set."""


@dataclass(slots=True, eq=False)
class HeldAlarm:
    """An event that is held back. `event.frame` is its row in the batch it came with, as long as `is_new`.

    `outcome` is None until it is decided: `confirmed`, `refused`, `unanswered`, or `follows` for one that is not asked
    about, since it ends something, or comes in a cool-down.
    """

    event: Event
    options: RuleOptions
    verify: Verify
    moment: Moment
    now_ns: int
    deadline_ns: int
    outcome: str | None = None
    answer: str = ""
    is_new: bool = True

    def data(self) -> dict[str, Scalar]:
        """What stands in the event that goes out."""
        data: dict[str, Scalar] = dict(self.event.data)
        if self.outcome in _OUTCOMES:
            data["verified"] = self.outcome
            if self.answer:
                data["answer"] = self.answer
        if not self.is_new:
            data |= {"happened_frame": self.moment.frame, "happened_pts_ns": self.moment.pts_ns}
            if self.moment.capture_ns is not None:
                data["happened_time"] = format_time(self.moment.capture_ns)
        return data


@dataclass(slots=True, eq=False)
class _Lane:
    """The alarms of one rule on one stream, which go out in their order."""

    held: deque[HeldAlarm] = field(default_factory=deque)
    cool_downs: CoolDowns = field(default_factory=CoolDowns)
    counts: Counter[str] = field(default_factory=Counter)


class Verifier:
    """Holds alarms of rules with `verify`. `decide` may be called from any thread, the rest from that of the operator.

    An alarm goes out behind those of its rule before it. A cool-down begins with an alarm that goes out, so that one
    that is refused silences nothing. The end of something goes out where its beginning did.
    """

    def __init__(self, step: str, *, clock: Clock, wait_limit: WaitLimit) -> None:
        self._step = step
        self._clock = clock
        self._wait_limit = wait_limit
        self._changed = Condition()
        self._lanes: dict[tuple[str, str], _Lane] = {}
        """By name of the stream, and step and rule."""

    def hold(self, batch: Batch) -> tuple[Batch, list[HeldAlarm]]:
        """Take the alarms out of a batch that this step verifies; return it without, and those to ask about."""
        wanted: list[HeldAlarm] = []
        left: list[tuple[Alarm, ...]] = []
        now_ns = self._clock.monotonic_ns()
        with self._changed:
            for row, alarms in enumerate(batch.columns.alarms):
                others = []
                for alarm in alarms:
                    options = alarm.options
                    if not (
                        isinstance(options, RuleOptions)
                        and (verify := options.verification) is not None
                        and verify.by in (None, self._step)
                    ):
                        others.append(alarm)
                        continue
                    event, moment = replace(alarm.event, frame=row), Moment.of(batch.frames[row])
                    held = HeldAlarm(event, options, verify, moment, alarm.now_ns, now_ns + verify.timeout)
                    if self._add(held):
                        wanted.append(held)
                left.append(tuple(others))
        return batch.with_columns(alarms=tuple(left)), wanted

    def decide(self, held: HeldAlarm, *, is_confirmed: bool | None, answer: str = "") -> None:
        """Take what the model says of an alarm; None when it says nothing. Later answers change nothing."""
        with self._changed:
            if held.outcome is None:
                held.outcome = "unanswered" if is_confirmed is None else "confirmed" if is_confirmed else "refused"
                held.answer = answer
                self._changed.notify_all()

    def is_waiting(self, batch: Batch) -> bool:
        """Whether alarms of the streams of a batch are not decided, and have time left."""
        return self._time_left_ns(batch) > 0

    def wait(self, batch: Batch) -> None:
        """Wait until all alarms of the streams of a batch are decided, or their time is over."""
        with self._changed:
            while (left_ns := self._time_left_ns(batch)) > 0:
                self._changed.wait(min(left_ns / 1e9, _LONGEST_WAIT_SECONDS))

    def release(self, batch: Batch) -> list[Event]:
        """Return the events that go out on the frames of a batch: on their own, or the first one of their stream."""
        first: dict[str, int] = {}
        for row, frame in enumerate(batch.frames):
            first.setdefault(frame.stream.name, row)
        out: list[Event] = []
        now_ns = self._clock.monotonic_ns()
        with self._changed:
            for (stream, _), lane in self._lanes.items():
                if stream in first and lane.held:
                    out += self._released(lane, first[stream], now_ns)
        return out

    def end(self, stream: Stream) -> None:
        """Note that a stream has ended: its time may begin anew."""
        for (name, _), lane in self._lanes.items():
            if name == stream.name:
                lane.cool_downs = CoolDowns()

    def take_unsent(self) -> dict[str, int]:
        """Forget the alarms that found no frame any more; return how many those are, by stream."""
        lost: Counter[str] = Counter()
        with self._changed:
            for (stream, _), lane in self._lanes.items():
                asked = [one for one in lane.held if one.outcome not in ("follows", "refused")]
                lane.counts["undelivered"] += len(asked)
                lost[stream] += len(asked)
                lane.held.clear()
        return {stream: count for stream, count in lost.items() if count}

    def totals(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return what was counted, by stream and rule; see `docs/guide/describe.md`."""
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for (stream, rule), lane in self._lanes.copy().items():
            found.setdefault(stream, {})[rule] = _rates(lane.counts)
        return found

    def counts(self) -> Iterator[AlarmCount]:
        """Yield how many alarms of each rule ended how."""
        for (stream, rule), lane in self._lanes.copy().items():
            for outcome in _OUTCOMES:
                yield AlarmCount(stream, rule, outcome, lane.counts[outcome])

    def _add(self, held: HeldAlarm) -> bool:
        """Let an alarm wait; return whether it is asked about."""
        event, options = held.event, held.options
        lane = self._lanes.setdefault((held.moment.stream, f"{event.step}.{event.rule}"), _Lane())
        lane.held.append(held)
        is_quiet = lane.cool_downs.is_quiet(event.rule, cooldown_ns=options.cooldown, now_ns=held.now_ns)
        if event.part is Part.END or (options.cooldown and is_quiet):
            held.outcome = "follows"
            return False
        lane.counts["alarms"] += 1
        return True

    def _time_left_ns(self, batch: Batch) -> int:
        streams = {frame.stream.name for frame in batch.frames}
        open_ones = [
            held.deadline_ns
            for (stream, _), lane in self._lanes.items()
            if stream in streams
            for held in lane.held
            if held.outcome is None
        ]
        return self._wait_limit.limited(max(open_ones)) - self._clock.monotonic_ns() if open_ones else 0

    def _released(self, lane: _Lane, row: int, now_ns: int) -> Iterator[Event]:
        held = lane.held
        while held and (held[0].outcome is not None or self._wait_limit.limited(held[0].deadline_ns) <= now_ns):
            one = held.popleft()
            if one.outcome is None:
                one.outcome = "unanswered"
            if one.outcome in _OUTCOMES:
                lane.counts[one.outcome] += 1
            if self._goes_out(lane, one):
                lane.counts["sent"] += one.outcome in _OUTCOMES
                yield replace(one.event, frame=one.event.frame if one.is_new else row, data=one.data())
        for one in held:
            one.is_new = False

    def _goes_out(self, lane: _Lane, one: HeldAlarm) -> bool:
        event, cooldown_ns = one.event, one.options.cooldown
        if one.outcome == "refused" or (one.outcome == "unanswered" and one.verify.otherwise == "hold"):
            lane.cool_downs.hold(event.rule, event.kind, event.part, event.subject)
            return False
        if not cooldown_ns and event.part is not Part.END:
            return True
        is_out = lane.cool_downs.lets_through(
            event.rule, event.kind, event.part, event.subject, cooldown_ns=cooldown_ns, now_ns=one.now_ns
        )
        lane.counts["in_cooldown"] += not is_out and event.part is not Part.END
        return is_out


def _rates(counts: Mapping[str, int]) -> dict[str, Any]:
    """Return counts with the share of false alarms: of those that were answered, and of those that were sent, among
    which it is taken to be the same for those without an answer.
    """
    shown: dict[str, Any] = {name: counts[name] for name in ("alarms", *_OUTCOMES, "sent")}
    shown |= {name: counts[name] for name in ("in_cooldown", "undelivered") if counts[name]}
    answered = counts["confirmed"] + counts["refused"]
    if answered:
        before = counts["refused"] / answered
        sent = counts["sent"]
        unanswered = min(max(sent - counts["confirmed"], 0), counts["unanswered"])
        shown["false_alarms_before"] = round(before, 3)
        shown["false_alarms_after"] = round(before * unanswered / sent, 3) if sent else 0.0
    return shown
