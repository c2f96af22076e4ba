"""A section read by a table that explains each of its keys; what becomes of the keys is reported when it is closed.

A table maps keys to rules. A key that ends in `*` stands for all that begin so (`bbox-border-color0`). What a rule says
holds unless the reader of the section notes something else for its value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sightline.graph.wording import suggest
from sightline.redaction import redact
from sightline_plugins.deepstream_import.outcomes import KeyOutcome, Outcome, Outcomes
from sightline_plugins.deepstream_import.sections import Entry, Section
from sightline_plugins.deepstream_import.source_text import Place

_SHOWN = 80
_ITEM = re.compile(r"\d+\.")
"""The beginning of a key of an item of a list."""
_ACCOUNT = re.compile(r"[^\s/@;]+:[^\s/@;]*@")
"""User and password before a host, without the scheme that would make a URL of it."""
_SECRET = ("password", "tlt-model-key", "secret", "token", "username", "sas", "connection-string")


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of a key. `off` are values that switch it off, which then has no effect."""

    outcome: Outcome
    text: str
    off: tuple[str, ...] = ()


Table = Mapping[str, Rule]


def takes(text: str) -> Rule:
    """Return the rule of a key that is taken over as it is."""
    return Rule(Outcome.TAKEN, text)


def differs(text: str, *, off: tuple[str, ...] = ()) -> Rule:
    """Return the rule of a key that is taken over, with other results."""
    return Rule(Outcome.DIFFERENT, text, off)


def ignores(text: str) -> Rule:
    """Return the rule of a key that changes no results here."""
    return Rule(Outcome.NO_EFFECT, text)


def refuses(text: str, *, off: tuple[str, ...] = ("0", "", "-1")) -> Rule:
    """Return the rule of a key that has no counterpart; the text says what to do instead."""
    return Rule(Outcome.IMPOSSIBLE, text, off)


def rule_of(table: Table, key: str) -> Rule | None:
    """Return the rule of a key: its own, or that of the longest beginning that fits."""
    if key in table:
        return table[key]
    if (item := _ITEM.match(key)) and key[item.end() :] in table:
        return table[key[item.end() :]]
    fitting = [name for name in table if name.endswith("*") and key.startswith(name[:-1])]
    return table[max(fitting, key=len)] if fitting else None


def is_secret(key: str) -> bool:
    """Whether the value of a key is never shown."""
    return any(word in key.lower() for word in _SECRET)


@dataclass(slots=True)
class Settings:
    """A section that is being read."""

    section: Section
    table: Table
    outcomes: Outcomes
    _notes: dict[str, Rule] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.section.name

    @property
    def is_enabled(self) -> bool:
        """Whether the section is switched on; one that has no `enable` is."""
        return self.flag("enable", default=True)

    def __contains__(self, key: str) -> bool:
        return key in self.section.entries and bool(self.section.entries[key].value)

    def text(self, key: str, default: str = "") -> str:
        """Return a value as text, without quotes around it; the default where it is missing or empty."""
        self.used.add(key)
        entry = self.section.entries.get(key)
        return default if entry is None else entry.value.strip("\"'") or default

    def number(self, key: str, default: float) -> float:
        """Return a number. Raises ConfigurationError naming file and line."""
        found = self.numbers(key)
        return found[0] if found else default

    def whole(self, key: str, default: int) -> int:
        """Return a whole number. Raises ConfigurationError naming file and line."""
        found = self.number(key, default)
        if found != int(found):
            raise self.error(key, "a whole number is expected")
        return int(found)

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return whether a key is switched on."""
        return self.whole(key, int(default)) != 0

    def numbers(self, key: str) -> tuple[float, ...]:
        """Return the numbers of a list. Raises ConfigurationError naming file and line."""
        parts = [part.strip() for part in self.text(key).replace(",", ";").split(";") if part.strip()]
        try:
            found = tuple(float(part) for part in parts)
        except ValueError:
            raise self.error(key, "numbers are expected, with ; between them") from None
        if not all(math.isfinite(one) for one in found):
            raise self.error(key, "finite numbers are expected")
        return found

    def ids(self, key: str) -> tuple[int, ...]:
        """Return a list of whole numbers, empty where the only one is -1, which stands for all."""
        found = tuple(int(one) for one in self.numbers(key))
        return () if found in ((-1,), ()) else found

    def place(self, key: str) -> Place:
        """Return where a key stands; the section where it does not."""
        entry = self.section.entries.get(key)
        return self.section.place if entry is None else entry.place

    def error(self, key: str, message: str) -> Exception:
        """Return the error of a wrong value."""
        return self.place(key).error(f"[{self.name}] {key}={_shown(self.section.entries[key])}: {message}")

    def note(self, key: str, outcome: Outcome, text: str) -> None:
        """Say what becomes of a key in this file, instead of what its table says."""
        self.used.add(key)
        self._notes[key] = Rule(outcome, text)

    def close(self, *, because: str | None = None, but: Collection[str] = ()) -> None:
        """Report what became of each key, but of some. With `because`, the section has no effect, for that reason."""
        for entry in self.section.replaced:
            self._report(entry, Rule(Outcome.NO_EFFECT, f"{entry.key} comes again below, and the later one counts"))
        for key, entry in self.section.entries.items():
            if key in but:
                continue
            rule = self._notes.get(key) or rule_of(self.table, key)
            if rule is None:
                self._report(entry, Rule(Outcome.UNKNOWN, _unknown(key, self.table)))
            elif because is not None:
                self._report(entry, Rule(Outcome.NO_EFFECT, because))
            elif entry.value in rule.off and key not in self._notes:
                self._report(entry, Rule(Outcome.NO_EFFECT, "switched off"))
            else:
                self._report(entry, rule)

    def _report(self, entry: Entry, rule: Rule) -> None:
        if entry.given_as == ():
            return
        section, key = entry.given_as or (self.name, entry.key)
        self.outcomes.add(KeyOutcome(rule.outcome, entry.place, section, key, _shown(entry), rule.text))


def report_unknown_section(section: Section, known: Sequence[str], outcomes: Outcomes) -> None:
    """Report a section that means nothing to DeepStream, with its keys."""
    near = suggest(section.name, known)
    text = f"[{section.name}] is no section of such a file{near}"
    entries = list(section.entries.values()) or [Entry("", "", section.place)]
    for entry in (*section.replaced, *entries):
        place = entry.place
        outcomes.add(KeyOutcome(Outcome.UNKNOWN, place, section.name, entry.key, _shown(entry), text))


def _unknown(key: str, table: Table) -> str:
    near = suggest(key, [name.rstrip("*") for name in table])
    return f"no such key is known{near}" if near else "no such key is known, and none is near it"


def _shown(entry: Entry) -> str:
    if is_secret(entry.key):
        return "***"
    value = _ACCOUNT.sub("***@", redact(entry.value))
    if entry.key.endswith("conn-str"):  # host;port, and perhaps user;password
        value = ";".join([*value.split(";")[:2], *(["***"] if value.count(";") > 1 else [])])
    return value if len(value) <= _SHOWN else f"{value[: _SHOWN - 3]}..."
