"""The journal of the double: which calls were made, in which order, on which streams."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the driver.

    As text: `launch add on work`, `wait for other on work`, `copy 16 bytes to host on work` (`from host`, or neither).
    `stream` is the stream it was for, by its name in the journal, `stream 1003` without one, empty where there is none.
    """

    verb: str
    what: str = ""
    stream: str = ""

    def __str__(self) -> str:
        return " ".join(part for part in (self.verb, self.what, self.stream and f"on {self.stream}") if part)


class Journal:
    """The calls of a block (`driver.journaling`), in their order, from all threads.

    What a graph holds is noted when it is captured, between `begin_capture` and `end_capture`; a launch of the graph
    is one call. Calls that the driver refuses at once are not noted.
    """

    def __init__(self, names: Mapping[int, str]) -> None:
        self.calls: list[Call] = []
        self._names = {0: "memory", **names}

    @property
    def lines(self) -> list[str]:
        """The calls as text."""
        return [str(call) for call in self.calls]

    def of(self, *verbs: str) -> list[str]:
        """The calls of some verbs, as text."""
        return [str(call) for call in self.calls if call.verb in verbs]

    def note(self, verb: str, what: str, *, stream: int | None, other: int | None) -> None:
        """A call was made, for a stream, and about another."""
        told = what if other is None else f"for {self._name(other)}"
        self.calls.append(Call(verb, told, "" if stream is None else self._name(stream)))

    def _name(self, stream: int) -> str:
        return self._names.get(stream, f"stream {stream}")
