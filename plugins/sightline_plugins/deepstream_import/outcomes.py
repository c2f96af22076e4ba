"""What becomes of each key: the outcome, and what it means for results or what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sightline_plugins.deepstream_import.source_text import Place


class Outcome(StrEnum):
    """What becomes of a key."""

    TAKEN = "taken over"
    DIFFERENT = "taken over differently"
    NO_EFFECT = "without effect here"
    IMPOSSIBLE = "not possible"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KeyOutcome:
    """What becomes of one key. `value` is as in the file, without secrets; `text` says where it went or what to do."""

    outcome: Outcome
    place: Place
    section: str
    key: str
    value: str
    text: str


@dataclass(slots=True)
class Outcomes:
    """All that was found in all files, and the files that are missing."""

    found: list[KeyOutcome] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def add(self, outcome: KeyOutcome) -> None:
        """Add what becomes of a key."""
        self.found.append(outcome)

    def ordered(self) -> Sequence[KeyOutcome]:
        """Return the outcomes by file in the order in which files were read, and by line."""
        files = {place: number for number, place in enumerate(dict.fromkeys(one.place.file for one in self.found))}
        return sorted(self.found, key=lambda one: (files[one.place.file], one.place.line))

    def counts(self) -> Iterator[tuple[Outcome, int]]:
        """Yield how many keys have each outcome."""
        counted = Counter(one.outcome for one in self.found)
        yield from ((outcome, counted[outcome]) for outcome in Outcome)
