"""`combine`: events that follow from other events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from sightline.graph.element import Capability
from sightline.graph.rule import Points, Rule, RuleEvent, StreamRule
from sightline.graph.rule_options import RuleOptions
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media import Event, Part
from sightline.media.frame import NANOSECONDS
from sightline.media.time import Duration
from sightline_plugins.rules import expression as tree
from sightline_plugins.rules.event_memory import Memory, memory_of

_MOST_KINDS = 10_000


def _check(text: str) -> str:
    tree.parse(text)
    return text


class Combination(RuleOptions):
    """One event that follows from others."""

    when: Annotated[str, AfterValidator(_check)]
    """What has to be so, such as `zones.gate.enter and not zones.guard.enter`."""
    within: Annotated[Duration, Field(gt=0)] = 10_000_000_000
    """How long an event that has no end counts as being so, how long `count` looks back, and how long a sequence may
    take from each event to the next; where the expression gives no duration of its own."""
    same_track: bool = False
    """The events of a sequence have to be of the same object."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        if isinstance(value, str):
            return {"when": value}
        if isinstance(value, Mapping | BaseModel):
            return value
        raise ValueError("is neither an expression, such as `zones.gate.enter and zones.dog.enter`, nor an option")

    @model_validator(mode="after")
    def _same_track_of_a_sequence(self) -> Self:
        if self.same_track and not any(isinstance(leaf, tree.Sequence) for leaf in tree.leaves(tree.parse(self.when))):
            raise ValueError("same_track is for sequences: write `when` with `then`, or leave it out")
        return self


class Combine(Rule):
    """Report events that follow from those of the steps before: sequences, things at the same time, numbers, and what
    does not happen meanwhile.

    An event is named as everywhere: `step.rule`, or `step.rule.detail` (`zones.gate.enter`, `lines.road.in`,
    `absence.desk.absent`). Something that lasts, such as a stay in a zone, is so from its beginning to its end;
    any other event for `within` from its frame on. Events are joined by `and`, `or`, `not` and brackets.
    `A then B` is so when B happens after A, `within` at most later; with `same_track` to the same object.
    `count(A) >= 5` compares how often A happened `within` the time before. A duration of its own stands behind:
    `lines.gate.in then lines.door.in within 30s`.

    A rule that is one event or one sequence reports a moment each time, with the `seconds` that it took. Any other one
    is reported when it becomes so (`state: begun`), and when it no longer is (`state: ended`, with `seconds`). Each
    stream has its own.

    ```yaml
    - lines: {gate: {from: [0.1, 0.6], to: [0.9, 0.6]}}
    - zones:
        exit: {polygon: [[0.6, 0.2], [0.9, 0.2], [0.9, 0.9], [0.6, 0.9]]}
        hall: {polygon: [[0.1, 0.2], [0.5, 0.2], [0.5, 0.9], [0.1, 0.9]]}
    - combine:
        tailgating: {when: count(lines.gate.in) >= 2 within 3s, severity: high}
        backwards: {when: zones.exit.enter then zones.hall.enter, within: 20s, same_track: true}
        alone: zones.hall.enter and not zones.exit.enter
    ```
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Combination] = Field(init=False)

    name: ClassVar[str] = "combine"
    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.EVENTS})
    others_change_live: ClassVar[bool] = True

    @model_validator(mode="after")
    def _has_any(self) -> Self:
        if not self.__pydantic_extra__:
            raise ValueError("no rule is given: write NAME: {when: EXPRESSION}")
        return self

    @property
    def combinations(self) -> Mapping[str, Combination]:
        """The rules by name."""
        return self.__pydantic_extra__

    def rule_names(self) -> Iterable[str]:
        """Return the names of the rules."""
        return self.__pydantic_extra__

    def rule_options(self) -> Mapping[str, RuleOptions]:
        """Return the rules."""
        return self.__pydantic_extra__

    def wanted_rules(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Yield the events that each expression names."""
        for name, one in self.__pydantic_extra__.items():
            for event in dict.fromkeys(tree.names(tree.parse(one.when))):
                yield (name, "when"), event

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        """Make the state of a stream."""
        return StreamCombine(self, earlier.tally if isinstance(earlier, StreamCombine) else {})


@dataclass(slots=True, eq=False)
class _Watched:
    """One rule on one stream: its expression, what its leaves remember, and since when it is so."""

    options: Combination
    expression: tree.Expression
    memories: dict[tree.Leaf, Memory]
    since_ns: int | None = None

    @classmethod
    def of(cls, options: Combination) -> _Watched:
        expression = tree.parse(options.when)
        return cls(
            options,
            expression,
            {
                leaf: memory_of(leaf, within_ns=options.within, same_track=options.same_track)
                for leaf in tree.leaves(expression)
            },
        )

    @property
    def is_moment(self) -> bool:
        """Whether it happens with an event, instead of lasting."""
        return isinstance(self.expression, tree.EventIs | tree.Sequence)

    @property
    def identity(self) -> tuple[object, ...]:
        return self.options.when, self.options.within, self.options.same_track

    def update(
        self, events: Sequence[tuple[Event, tree.Leaf]], now_ns: int, *, active: bool
    ) -> Iterator[tuple[Part, dict[str, Any]]]:
        """Take the events of a frame, each with a leaf that it concerns; yield what follows from them."""
        for event, leaf in events:
            if not active and not isinstance(leaf, tree.EventIs):
                continue
            began_ns = self.memories[leaf].take(event, now_ns)
            if began_ns is not None and leaf == self.expression and active:
                yield Part.MOMENT, _about(event, now_ns - began_ns)
        if self.is_moment:
            return
        is_so = active and self._is_so(self.expression, now_ns)
        if is_so and self.since_ns is None:
            self.since_ns = now_ns
            yield Part.BEGIN, {"state": "begun"}
        elif not is_so and self.since_ns is not None:
            seconds = round((now_ns - self.since_ns) / NANOSECONDS, 3)
            self.since_ns = None
            yield Part.END, {"state": "ended", "seconds": seconds}

    def _is_so(self, expression: tree.Expression, now_ns: int) -> bool:
        match expression:
            case tree.Not(of):
                return not self._is_so(of, now_ns)
            case tree.All(of):
                return all(self._is_so(one, now_ns) for one in of)
            case tree.Any(of):
                return any(self._is_so(one, now_ns) for one in of)
            case _:
                return self.memories[expression].is_true(now_ns)


class StreamCombine(StreamRule):
    """The rules of one stream."""

    def __init__(self, options: Combine, tally: Mapping[str, int]) -> None:
        self._watched = {name: _Watched.of(one) for name, one in options.combinations.items()}
        self.tally: dict[str, int] = {**dict.fromkeys(self._watched, 0), **tally}
        """How often each rule was so; also rules that are gone."""
        self._leaves: dict[tuple[object, ...], list[tuple[str, tree.Leaf]]] = {}
        """What events of one kind concern: the names of rules, with a leaf of each."""

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Return no outline: it is nowhere in the frame."""
        del size_wh
        return {}

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield what follows from the events of each frame."""
        for frame, (now_ns, events) in enumerate(zip(tracks.pts_ns.tolist(), tracks.events, strict=True)):
            found = []
            concerned: dict[str, list[tuple[Event, tree.Leaf]]] = {}
            for event in events:
                for name, leaf in self._concerned(event):
                    concerned.setdefault(name, []).append((event, leaf))
            for number, (name, watched) in enumerate(self._watched.items()):
                own = concerned.get(name, ())
                if not own and watched.is_moment:
                    continue
                is_active = tracks.active is None or bool(tracks.active[frame, number])
                for part, data in watched.update(own, now_ns, active=is_active):
                    self.tally[name] += part is not Part.END
                    found.append(RuleEvent("combined", name, data, part))
            yield found

    def change(self, rule: Combine) -> None:
        """Take over other rules; those that are as before go on, the others begin anew. Counts go on by name."""
        before = self._watched
        self._leaves.clear()
        self._watched = {name: _Watched.of(one) for name, one in rule.combinations.items()}
        for name, watched in self._watched.items():
            if name in before and before[name].identity == watched.identity:
                watched.memories, watched.since_ns = before[name].memories, before[name].since_ns
            self.tally.setdefault(name, 0)

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how often each rule was so."""
        return {name: {"times": self.tally[name]} for name in self._watched}

    def totals(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the same for the report, also of rules that are gone."""
        return {name: {"times": count} for name, count in self.tally.items()}

    def save(self) -> Saved:
        """Return the counts, and what is remembered of the past."""
        rules = {
            name: {
                "identity": repr(one.identity),
                "memories": [memory.save() for memory in one.memories.values()],
                "since_ns": one.since_ns,
            }
            for name, one in self._watched.items()
        }
        return {"tally": dict(self.tally), "rules": rules}

    def restore(self, saved: Saved) -> None:
        """Go on with them; rules that are not as before begin anew."""
        for name, one in saved["rules"].items():
            watched = self._watched.get(name)
            if watched is None or repr(watched.identity) != one["identity"]:
                continue
            for memory, own in zip(watched.memories.values(), one["memories"], strict=True):
                memory.restore(own)
            watched.since_ns = one["since_ns"]
        self.tally |= {str(name): int(count) for name, count in saved["tally"].items()}

    def end(self) -> None:
        """Forget the events."""
        self._watched = {name: _Watched.of(one.options) for name, one in self._watched.items()}

    def _concerned(self, event: Event) -> list[tuple[str, tree.Leaf]]:
        """Return the leaves that an event concerns, each with the name of its rule, in their order."""
        data = event.data
        key = event.step, event.rule, event.kind, event.part, data.get("direction"), data.get("state")
        if (found := self._leaves.get(key)) is None:
            if len(self._leaves) >= _MOST_KINDS:
                self._leaves.clear()
            found = self._leaves[key] = [
                (name, leaf)
                for name, watched in self._watched.items()
                for leaf, memory in watched.memories.items()
                if memory.concerns(event)
            ]
        return found


def _about(event: Event, took_ns: int) -> dict[str, Any]:
    data: dict[str, Any] = {"seconds": round(took_ns / NANOSECONDS, 3)}
    if "track_id" in event.data:
        data["track_id"] = event.data["track_id"]
    return data
