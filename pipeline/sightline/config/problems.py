"""Mistakes in a configuration: what, where, what is allowed, and the nearest right word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sightline.errors import ConfigurationError
from sightline.graph.registry import suggest
from sightline.redaction import redact

Key = tuple[str | int, ...]
"""The path of a value: names of keys and numbers of list entries, from the top."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a value stands: its file with line and column, both from 1, or the option of the command line it came
    from (line 0). Empty for a description made in Python.
    """

    file: str = ""
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class LocatedProblem:
    """One mistake: `place` in the file, `key` path of the value, and what is wrong and what to do."""

    place: Place
    key: Key
    message: str

    def __str__(self) -> str:
        parts = (str(self.place), dotted(self.key), redact(self.message))
        return ": ".join(part for part in parts if part)


class InvalidConfiguration(ConfigurationError):
    """A description holds mistakes; `problems` are all of them, in the order of their places."""

    def __init__(self, problems: Iterable[LocatedProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def dotted(key: Key) -> str:
    """A key path as people read it: `pipeline.0.detect.confidence`."""
    return ".".join(str(part) for part in key)


def allowed(words: Sequence[str], *, most: int = 24) -> str:
    """A list of the words that would be right, cut when it is long."""
    shown = ", ".join(words[:most])
    return f"{shown}, ..." if len(words) > most else shown


def unknown(what: str, word: str, known: Sequence[str]) -> str:
    """The message for a word that nothing knows, with the nearest right one, or all of them when none is near."""
    near = suggest(word, known)
    return f"there is no {what} {word!r}{near}" if near else f"there is no {what} {word!r}; known: {allowed(known)}"
