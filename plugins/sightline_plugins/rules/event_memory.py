"""What an expression over events has to remember of the past: what goes on, what was lately, how far sequences are.

One memory for each leaf of the expression. Times are nanoseconds by the clock of the rules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence as Listed

from sightline.graph.state import Saved
from sightline.media import Event, Part
from sightline_plugins.rules.expression import COMPARISONS, MOST_COUNTED, CountOf, EventIs, Leaf, Sequence
from sightline_plugins.rules.names import is_of_rule, is_of_step

_MOST_SUBJECTS = 10_000


class Memory(ABC):
    """The memory of one leaf on one stream."""

    @abstractmethod
    def concerns(self, event: Event) -> bool:
        """Whether an event may change it: by the step, rule, kind, part, direction and state alone."""

    @abstractmethod
    def take(self, event: Event, now_ns: int) -> int | None:
        """Take the next event. Return since when what it completes was under way; None when it completes nothing."""

    @abstractmethod
    def is_true(self, now_ns: int) -> bool:
        """Whether the leaf holds."""

    @abstractmethod
    def save(self) -> Saved:
        """Return what it remembers."""

    @abstractmethod
    def restore(self, saved: Saved) -> None:
        """Go on with it."""


def memory_of(leaf: Leaf, *, within_ns: int, same_track: bool) -> Memory:
    """Return an empty memory for a leaf; `within_ns` holds where it says nothing else."""
    match leaf:
        case EventIs():
            return _Lasting(leaf, within_ns)
        case CountOf():
            return _Counted(leaf, within_ns)
        case Sequence():
            return _Steps(leaf, within_ns, same_track=same_track)


def _begins(event: Event, name: str) -> bool:
    """Whether an event is what a name means: a moment, a beginning, or the end that the name asks for."""
    if not is_of_rule(event, name):
        return False
    return event.part is not Part.END or name.split(".", 1)[1] != event.rule


class _Lasting(Memory):
    """True while something lasts, or for some time after a moment."""

    def __init__(self, leaf: EventIs, within_ns: int) -> None:
        self._name = leaf.name
        self._within_ns = within_ns if leaf.within_ns is None else leaf.within_ns
        self._under_way: dict[tuple[str, str, str, int], None] = {}
        self._last_ns: int | None = None

    def concerns(self, event: Event) -> bool:
        if event.part is Part.END:
            rest = self._name.split(".", 1)[1]
            return is_of_step(event, self._name) and (rest == event.rule or rest.startswith(f"{event.rule}."))
        return is_of_rule(event, self._name)

    def take(self, event: Event, now_ns: int) -> int | None:
        key = (event.step, event.kind, event.rule, event.subject)
        if event.part is Part.END:
            self._under_way.pop(key, None)
        if not _begins(event, self._name):
            return None
        if event.part is Part.BEGIN:
            self._under_way[key] = None
            if len(self._under_way) > _MOST_SUBJECTS:
                del self._under_way[next(iter(self._under_way))]
        else:
            self._last_ns = now_ns
        return now_ns

    def is_true(self, now_ns: int) -> bool:
        return bool(self._under_way) or (self._last_ns is not None and now_ns - self._last_ns < self._within_ns)

    def save(self) -> Saved:
        return {"under_way": [list(one) for one in self._under_way], "last_ns": self._last_ns}

    def restore(self, saved: Saved) -> None:
        self._under_way = {
            (str(step), str(kind), str(rule), int(subject)): None for step, kind, rule, subject in saved["under_way"]
        }
        self._last_ns = saved["last_ns"]


class _Counted(Memory):
    """Compares how many there were lately."""

    def __init__(self, leaf: CountOf, within_ns: int) -> None:
        self._leaf = leaf
        self._within_ns = within_ns if leaf.within_ns is None else leaf.within_ns
        self._times_ns: deque[int] = deque(maxlen=MOST_COUNTED + 1)

    def concerns(self, event: Event) -> bool:
        return is_of_rule(event, self._leaf.name)

    def take(self, event: Event, now_ns: int) -> int | None:
        if _begins(event, self._leaf.name):
            self._times_ns.append(now_ns)
        return None

    def is_true(self, now_ns: int) -> bool:
        while self._times_ns and now_ns - self._times_ns[0] >= self._within_ns:
            self._times_ns.popleft()
        return COMPARISONS[self._leaf.comparison](len(self._times_ns), self._leaf.number)

    def save(self) -> Saved:
        return {"times_ns": list(self._times_ns)}

    def restore(self, saved: Saved) -> None:
        self._times_ns = deque(map(int, saved["times_ns"]), maxlen=MOST_COUNTED + 1)


class _Steps(Memory):
    """How far each subject has come in a sequence; what it completes begins anew."""

    def __init__(self, leaf: Sequence, within_ns: int, *, same_track: bool) -> None:
        self._parts = leaf.parts
        self._within_ns = within_ns if leaf.within_ns is None else leaf.within_ns
        self._same_track = same_track
        self._done: dict[int, list[tuple[int, int]]] = {}
        """By track (-1 for all): when each part of the sequence was seen last, and when the first one was for it; the
        subject that moved last is at the end."""
        self._last_ns: int | None = None

    def concerns(self, event: Event) -> bool:
        return any(is_of_rule(event, name) for part in self._parts for name in part)

    def take(self, event: Event, now_ns: int) -> int | None:
        track_id = event.data.get("track_id", -1) if self._same_track else -1
        if self._same_track and not (isinstance(track_id, int) and track_id >= 0):
            return None
        subject = int(track_id)
        done = self._done.get(subject, [])
        for number in reversed(range(min(len(done) + 1, len(self._parts)))):
            if not any(_begins(event, name) for name in self._parts[number]):
                continue
            if number and now_ns - done[number - 1][0] > self._within_ns:
                continue
            began_ns = done[number - 1][1] if number else now_ns
            if number + 1 == len(self._parts):
                self._done.pop(subject, None)
                self._last_ns = now_ns
                return began_ns
            self._done.pop(subject, None)
            self._done[subject] = [*done[:number], (now_ns, began_ns), *done[number + 1 :]]
            if len(self._done) > _MOST_SUBJECTS:
                del self._done[next(iter(self._done))]
            return None
        return None

    def is_true(self, now_ns: int) -> bool:
        return self._last_ns is not None and now_ns - self._last_ns < self._within_ns

    def save(self) -> Saved:
        done = [[subject, [list(one) for one in times]] for subject, times in self._done.items()]
        return {"done": done, "last_ns": self._last_ns}

    def restore(self, saved: Saved) -> None:
        self._done = {int(subject): [_pair(one) for one in times] for subject, times in saved["done"]}
        self._last_ns = saved["last_ns"]


def _pair(times: Listed[int]) -> tuple[int, int]:
    seen_ns, began_ns = times
    return int(seen_ns), int(began_ns)
