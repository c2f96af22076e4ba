"""Apply `--set` and `--source` to a document, and find steps by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sightline.config.document import (
    InvalidConfiguration,
    Items,
    Key,
    LocatedProblem,
    Node,
    Place,
    Scalar,
    Table,
    dotted,
    node_of,
    plain,
    replaced,
    walk,
)
from sightline.config.yaml_tree import parse
from sightline.errors import ConfigurationError
from sightline.graph.fields import STANDARD_STREAM, is_file_name
from sightline.graph.registry import Registry
from sightline.graph.wording import allowed, suggest

STRUCTURES = ("tee", "parallel")


def name_of(step: Node) -> str:
    """The name of the element that a step is; empty when it is no step."""
    if isinstance(step, Scalar):
        return str(step.value)
    if isinstance(step, Table) and len(step.entries) == 1:
        return next(iter(step.entries))
    return ""


def options_of(step: Node) -> Node:
    """What stands below a step's name; an empty table for a step that is only a name."""
    if isinstance(step, Table) and len(step.entries) == 1:
        return next(iter(step.entries.values())).node
    return Table(step.place)


def find_steps(steps: Items, word: str) -> list[Key]:
    """Where the steps of that id are, at any depth; without one, those of that name."""
    named = list(_numbered(steps))
    by_id = [where for where, _, identities in named if word in identities]
    return by_id or [where for where, name, _ in named if name == word]


def step_names(steps: Items) -> list[str]:
    """The names and ids that `find_steps` knows."""
    names = {word for _, name, identities in _numbered(steps) for word in (name, *identities)}
    return sorted(names)


def _numbered(steps: Items) -> Iterator[tuple[Key, str, tuple[str, ...]]]:
    """Each step below with where it is, its name, and its id: the one given, else its name and number."""
    counts: dict[str, int] = {}
    for where, step in _walk(steps, ()):
        name = name_of(step)
        counts[name] = counts.get(name, 0) + 1
        options = options_of(step)
        given = options.entries["id"].node if isinstance(options, Table) and "id" in options.entries else None
        identity = str(given.value) if isinstance(given, Scalar) else f"{name}-{counts[name]}"
        yield where, name, () if name in STRUCTURES else (identity,)


def _walk(steps: Items, where: Key) -> Iterator[tuple[Key, Node]]:
    for number, step in enumerate(steps.items):
        yield (*where, number), step
        name, options = name_of(step), options_of(step)
        if name in STRUCTURES and isinstance(options, Table):
            for branch, entry in options.entries.items():
                if isinstance(entry.node, Items):
                    yield from _walk(entry.node, (*where, number, name, branch))


TOP_LEVEL = (
    "name",
    "device",
    "sources",
    "sources_file",
    "keep_running",
    "overwrite",
    "batch",
    "outbox",
    "state",
    "processes",
    "telemetry",
    "cluster",
    "pipeline",
)


class _Wrong(Exception):
    """An override that cannot be applied; the text says why."""


class Overrides:
    """Applies overrides to a tree; what cannot be applied is noted in `problems`."""

    def __init__(self, registry: Registry) -> None:
        self.problems: list[LocatedProblem] = []
        self._registry = registry

    def apply(self, root: Node, *, sources: Sequence[str], values: Sequence[str], device: str | None = None) -> Node:
        """The tree with streams replaced or added (`NAME=URI`; `-` alone: the only stream reads standard input), then
        values set (`key.path=value`), in order, then the device.
        """
        if not isinstance(root, Table):
            return root
        for text in sources:
            root = self._attempt(root, text, "--source", "NAME=URI", _with_source)
        for text in values:
            root = self._attempt(root, text, "--set", "key.path=value", self._with_value)
        if device is not None:
            root = root.with_entry("device", Scalar(Place("--device"), device, device, quoted=True))
        return root

    def _attempt(
        self, root: Table, text: str, option: str, form: str, change: Callable[[Table, str, str, Place], Table]
    ) -> Table:
        path, equals, value = text.partition("=")
        place = Place(f"{option} {path}")
        try:
            if text == STANDARD_STREAM and option == "--source":
                path, equals, value = _only_stream(root), "=", text
            if not (equals and path):
                raise _Wrong(f"is written {option} {form}")
            return change(root, path, value, place)
        except _Wrong as error:
            self.problems.append(LocatedProblem(place, (), str(error)))
            return root

    def _with_value(self, root: Table, path: str, value: str, place: Place) -> Table:
        first, *rest = path.split(".")
        if first not in TOP_LEVEL:
            raise _Wrong(f"there is no key {first!r}{suggest(first, TOP_LEVEL) or f'; allowed: {allowed(TOP_LEVEL)}'}")
        node = _yaml_value(value, place)
        before = root.entries[first].node if first in root.entries else Table(place)
        if first == "pipeline" and rest:
            return root.with_entry(first, self._in_steps(before, rest, node, (first,)))
        return root.with_entry(first, _set(before, rest, node, (first,)))

    def _in_steps(self, steps: Node, path: Sequence[str], value: Node, done: Key) -> Node:
        if not isinstance(steps, Items):
            raise _Wrong(f"{dotted(done)} holds no list of steps")
        where = _find(steps, path, done)
        _, step, _ = list(walk(steps, where))[-1]
        rest = path[1:]
        if path[0].isdigit() and rest:
            if rest[0] != name_of(step):
                raise _Wrong(f"the step {dotted((*done, *where))} is {name_of(step)!r}, not {rest[0]!r}")
            rest = rest[1:]
        elif path[0].isdigit():
            return replaced(steps, where, value)
        return replaced(steps, where, self._in_step(step, rest, value, (*done, *where)))

    def _in_step(self, step: Node, path: Sequence[str], value: Node, done: Key) -> Node:
        name, options = name_of(step), options_of(step)
        done = (*done, name)
        if path and name in STRUCTURES:
            if not isinstance(options, Table) or path[0] not in options.entries:
                known = list(options.entries) if isinstance(options, Table) else []
                raise _Wrong(f"{dotted(done)} has no branch {path[0]!r}{suggest(path[0], known)}")
            branch = options.entries[path[0]].node
            below = self._in_steps(branch, path[1:], value, (*done, path[0])) if path[1:] else value
            return Table(step.place).with_entry(name, options.with_entry(path[0], below))
        if path and isinstance(options, Scalar) and options.value is not None:
            options = self._spelled_out(name, options)
        return Table(step.place).with_entry(name, _set(options, path, value, done))

    def _spelled_out(self, name: str, value: Scalar) -> Node:
        """`jsonl: out.jsonl` as `jsonl: {path: out.jsonl}`."""
        try:
            field = self._registry.element(name).scalar
        except ConfigurationError as error:
            raise _Wrong(str(error)) from error
        return Table(value.place).with_entry(field, value) if field is not None else value


def _only_stream(root: Table) -> str:
    """The name of the stream that `--source -` means."""
    sources = root.entries["sources"].node if "sources" in root.entries else None
    names = list(sources.entries) if isinstance(sources, Table) else []
    if len(names) != 1:
        what = f"there are {len(names)} streams" if names else "there is no stream"
        raise _Wrong(f"{what}, so that standard input needs a name: --source NAME=-")
    return names[0]


def _with_source(root: Table, name: str, uri: str, place: Place) -> Table:
    if not uri:
        raise _Wrong("is written --source NAME=URI")
    absolute = str(Path(uri).expanduser().absolute()) if is_file_name(uri) else uri
    before = root.entries["sources"].node if "sources" in root.entries else Table(place)
    table = before if isinstance(before, Table) else Table(place)
    return root.with_entry("sources", table.with_entry(name, Scalar(place, absolute, absolute, quoted=True)))


def _find(steps: Items, path: Sequence[str], done: Key) -> Key:
    word = path[0]
    if word.isdigit():
        return (_index(word, len(steps.items), done),)
    found = find_steps(steps, word)
    if len(found) == 1:
        return found[0]
    if found:
        places = allowed([dotted((*done, *where)) for where in found])
        raise _Wrong(f"there are {len(found)} steps {word!r}: give one of {places}, or the step's id")
    known = step_names(steps)
    raise _Wrong(f"there is no step {word!r}{suggest(word, known) or f'; steps: {allowed(known)}'}")


def _index(word: str, count: int, done: Key) -> int:
    if not word.isdigit() or int(word) >= count:
        raise _Wrong(f"{dotted(done)} has {count} entries, numbered from 0: there is none {word!r}")
    return int(word)


def _set(node: Node, path: Sequence[str], value: Node, done: Key) -> Node:
    """Set a value below tables and lists; tables that are not there yet are made."""
    if not path:
        return value
    if isinstance(node, Items):
        number = _index(path[0], len(node.items), done)
        return replaced(node, (number,), _set(node.items[number], path[1:], value, (*done, number)))
    if isinstance(node, Scalar):
        node = _opened(node, done)
    name, rest = _longest_key(node, path)
    if done == ("sources",) and rest and name not in node.entries:
        known = list(node.entries)
        raise _Wrong(f"there is no stream {name!r}{suggest(name, known) or f'; streams: {allowed(known)}'}")
    before = node.entries[name].node if name in node.entries else Table(value.place)
    return node.with_entry(name, _set(before, rest, value, (*done, name)))


def _opened(node: Scalar, done: Key) -> Table:
    """A single value as a table: nothing at all, or the URI of a source."""
    if node.value is None:
        return Table(node.place)
    if len(done) == 2 and done[0] == "sources":
        return Table(node.place).with_entry("uri", node)
    raise _Wrong(f"{dotted(done)} is a single value: there is nothing below it to set")


def _longest_key(table: Table, path: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The key that the path starts with; keys may hold dots themselves."""
    for length in range(len(path), 0, -1):
        name = ".".join(path[:length])
        if name in table.entries:
            return name, path[length:]
    return path[0], path[1:]


def _yaml_value(text: str, place: Place) -> Node:
    if text == STANDARD_STREAM:  # for YAML a list with an empty entry
        return Scalar(place, text, text, quoted=True)
    try:
        document = parse(text, name=place.file)
    except InvalidConfiguration as error:
        raise _Wrong("; ".join(problem.message for problem in error.problems)) from error
    if document.problems:
        raise _Wrong(document.problems[0].message)
    if document.root is None or (isinstance(document.root, Scalar) and document.root.value is None):
        return Scalar(place, None)
    if isinstance(document.root, Scalar):
        return replace(document.root, place=place)
    return node_of(plain(document.root), place=place)
