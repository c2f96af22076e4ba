"""Values of a YAML document with their places, and problems that name those places."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sightline.errors import ConfigurationError
from sightline.graph.described import as_yaml_holds
from sightline.graph.wording import allowed, suggest
from sightline.redaction import redact, shortened

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
        return shortened(": ".join(part for part in parts if part))


class InvalidConfiguration(ConfigurationError):
    """A description holds mistakes; `problems` are all of them, in the order of their places."""

    def __init__(self, problems: Iterable[LocatedProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


def dotted(key: Key) -> str:
    """A key path as people read it: `pipeline.0.detect.confidence`."""
    return ".".join(str(part).replace("\n", "\\n") for part in key)


def unknown(what: str, word: str, known: Sequence[str]) -> str:
    """The message for a word that nothing knows, with the nearest right one, or all of them when none is near."""
    near = suggest(word, known)
    return f"there is no {what} {word!r}{near}" if near else f"there is no {what} {word!r}; known: {allowed(known)}"


Value = str | int | float | bool | None
Plain = Value | list["Plain"] | dict[str, "Plain"]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value. `text` is what stands in the file, `quoted` whether it does so in quotes.

    `variables` names the environment variables that its value holds: it must never be shown.
    """

    place: Place
    value: Value
    text: str = ""
    quoted: bool = False
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Items:
    """A list of values."""

    place: Place
    items: tuple[Node, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """One value of a table, with the place of its key."""

    key_place: Place
    node: Node


@dataclass(frozen=True, slots=True)
class Table:
    """Values by key, in the order of the file."""

    place: Place
    entries: Mapping[str, Entry] = field(default_factory=dict)

    def with_entry(self, name: str, node: Node) -> Table:
        """This table with another value, or one more, under `name`."""
        before = self.entries.get(name)
        entry = Entry(before.key_place if before else node.place, node)
        return replace(self, entries={**self.entries, name: entry})


Node = Scalar | Items | Table

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEAN = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_LONGEST_NUMBER = 100


def value_of(text: str) -> Value:
    """What an unquoted text means, by the core schema of YAML 1.2 (section 10.3.2); so `yes` and `12:30` are texts."""
    if text in _NULL:
        return None
    if text in _BOOLEAN:
        return _BOOLEAN[text]
    if len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    if _FLOAT.fullmatch(text):
        return float(text)
    return text


def plain(node: Node) -> Plain:
    """The tree as plain data."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    return {name: plain(entry.node) for name, entry in node.entries.items()}


def node_of(data: object, *, place: Place) -> Node:
    """Plain data as a tree, all of it at one place; see `as_yaml_holds`. Raises TypeError for what YAML cannot hold."""
    data = as_yaml_holds(data)
    if isinstance(data, Mapping):
        return Table(place, {str(key): Entry(place, node_of(value, place=place)) for key, value in data.items()})
    if isinstance(data, list | tuple):
        return Items(place, tuple(node_of(item, place=place) for item in data))
    if data is None or isinstance(data, str | int | float | bool):
        return Scalar(place, data, text=str(data), quoted=isinstance(data, str))
    raise TypeError(f"a configuration holds texts, numbers, lists and mappings, not {type(data).__name__}")


def walk(node: Node, key: Key) -> Iterator[tuple[Key, Node, Place]]:
    """The nodes on the way down a key path, as far as it exists: the path so far, the node, the place of its key.

    Parts of the path that the tree does not have are passed over, because validators add parts of their own
    (the member of a union, the name of a field that collects the other keys).
    """
    path: Key = ()
    yield path, node, node.place
    for part in key:
        if isinstance(node, Table) and str(part) in node.entries:
            entry = node.entries[str(part)]
            node, place = entry.node, entry.key_place
        elif isinstance(node, Items) and isinstance(part, int) and 0 <= part < len(node.items):
            node = node.items[part]
            place = node.place
        else:
            continue
        path = (*path, part)
        yield path, node, place


def leaves(node: Node) -> Iterator[Scalar]:
    """Yield every single value of a tree."""
    if isinstance(node, Scalar):
        yield node
    elif isinstance(node, Items):
        for item in node.items:
            yield from leaves(item)
    else:
        for entry in node.entries.values():
            yield from leaves(entry.node)


def replaced(node: Node, path: Key, new: Node) -> Node:
    """The tree with another node at a path that exists in it."""
    if not path:
        return new
    first, rest = path[0], path[1:]
    if isinstance(node, Table):
        return node.with_entry(str(first), replaced(node.entries[str(first)].node, rest, new))
    if isinstance(node, Items):
        return replace(node, items=tuple(replaced(n, rest, new) if i == first else n for i, n in enumerate(node.items)))
    return new
