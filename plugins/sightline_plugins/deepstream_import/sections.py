"""A configuration as DeepStream means it: sections of keys with values, each with its place.

Key files, YAML, protobuf text and `gst-launch-1.0` lines all become these, so that what a key means is written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sightline_plugins.deepstream_import.source_text import Place


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value as text; the entries of a list have `;` between them.

    `given_as` are section and key in the file, where the file has other words for it; empty where it was concluded from
    others, and stands nowhere.
    """

    key: str
    value: str
    place: Place
    given_as: tuple[str, str] | tuple[()] | None = None


@dataclass(slots=True)
class Section:
    """A section; `replaced` are entries whose key comes again later, where the later one counts."""

    name: str
    place: Place
    entries: dict[str, Entry] = field(default_factory=dict)
    replaced: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Add an entry; one with the same key goes before it no more, as in GLib's key files."""
        if entry.key in self.entries:
            self.replaced.append(self.entries.pop(entry.key))
        self.entries[entry.key] = entry

    def values(self) -> dict[str, str]:
        """Return the values by key."""
        return {key: entry.value for key, entry in self.entries.items()}


@dataclass(slots=True)
class Configuration:
    """A file: its sections by name, in the order of the file, and the encoding that was assumed, if one was."""

    path: Path
    sections: dict[str, Section] = field(default_factory=dict)
    assumed_encoding: str | None = None

    def section(self, name: str, place: Place) -> Section:
        """Return the section of that name, a new one where there is none: one that comes twice is one."""
        return self.sections.setdefault(name, Section(name, place))

    def named(self, *names: str) -> Iterator[Section]:
        """Yield the sections of these names that are there."""
        yield from (self.sections[name] for name in names if name in self.sections)

    def numbered(self, prefix: str) -> Sequence[tuple[int, Section]]:
        """Return the sections `prefix0`, `prefix1` and so on with their numbers, in the order of these."""
        found = [
            (int(number), section)
            for name, section in self.sections.items()
            if name.startswith(prefix) and (number := name.removeprefix(prefix)).isdigit()
        ]
        return sorted(found, key=lambda pair: pair[0])

    def plain(self) -> Mapping[str, Mapping[str, str]]:
        """Return the values by section and key."""
        return {name: section.values() for name, section in self.sections.items()}
