"""Folding: what is said again and again is said once, and then how often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sightline.graph.messages import Message, MessageKind

WINDOW_SECONDS = 10.0

_Key = tuple[MessageKind, str, str | None, str | None]


@dataclass(slots=True)
class _Said:
    message: Message
    at_seconds: float
    repeats: int = 0


@dataclass(slots=True)
class Folding:
    """Decides what is said now: messages, each with how often it came since it was said last (0: it is said the first
    time). The order is that in which they came last, so that the last line is how things are.

    A message that was said less than ten seconds ago is counted instead: a stream that comes and goes every second
    takes two lines in ten seconds, and not ten.
    """

    _said: dict[_Key, _Said] = field(default_factory=dict)

    def take(self, message: Message, *, now_seconds: float) -> list[tuple[Message, int]]:
        """What is to be said because of a message."""
        key = (message.kind, message.text, message.stream, message.element)
        before = self._said.pop(key, None)
        if before is not None and now_seconds - before.at_seconds < WINDOW_SECONDS:
            before.repeats += 1
            self._said[key] = before
            return []
        times = before.repeats + 1 if before is not None and before.repeats else 0
        told = [*self._counted(list(self._said.values()), now_seconds), (message, times)]
        self._said[key] = _Said(message, now_seconds)
        return told

    def due(self, *, now_seconds: float) -> list[tuple[Message, int]]:
        """What is to be said because time has passed."""
        old = {key: one for key, one in self._said.items() if now_seconds - one.at_seconds >= WINDOW_SECONDS}
        told = list(self._counted(list(old.values()), now_seconds))
        for key, one in old.items():
            if one.at_seconds < now_seconds:
                del self._said[key]
        return told

    def rest(self) -> list[tuple[Message, int]]:
        """What is to be said because nothing more will come."""
        return list(self._counted(list(self._said.values()), 0.0))

    def _counted(self, said: list[_Said], now_seconds: float) -> Iterator[tuple[Message, int]]:
        for one in said:
            if one.repeats:
                yield one.message, one.repeats
                one.at_seconds, one.repeats = now_seconds, 0
