"""Read the sources of a document, and of a sources file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from sightline.config.document import Entry, InvalidConfiguration, Key, LocatedProblem, Node, Place, Scalar, Table
from sightline.config.environment import Environment
from sightline.config.validation import Validator
from sightline.config.yaml_tree import parse, read_file
from sightline.errors import ConfigurationError
from sightline.graph.fields import is_file_name
from sightline.graph.outputs import safe_name
from sightline.graph.registry import Registry
from sightline.graph.source import SourceElement
from sightline.graph.wording import allowed, suggest

_STREAM_NAME = re.compile(r"[^\W_][\w .-]{0,63}")
_LONGEST_NAME = 64
_NOT_IN_NAMES = re.compile(r"[^\w .-]")


def name_problems(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """What is wrong with names of streams that are there together: the name, and what is wrong with it."""
    seen: dict[str, str] = {}
    for name in names:
        if not _STREAM_NAME.fullmatch(name):
            yield (
                name,
                "a stream's name holds letters, digits, blanks, . _ - and starts with a letter or digit; at most 64",
            )
        file_name = safe_name(name)
        if file_name in seen:
            yield name, f"means the same file name {file_name!r} as the stream {seen[file_name]!r}: rename one of them"
        seen.setdefault(file_name, name)


def split(name: str, source: SourceElement) -> dict[str, SourceElement]:
    """The streams of a source by name: itself, or one for each of its files (`clips-a`, `clips-b`) with a name that is
    allowed and not taken by another of them. Raises ConfigurationError when there is none.
    """
    parts = source.split()
    if parts is None:
        return {name: source}
    streams: dict[str, SourceElement] = {}
    taken: set[str] = set()
    for ending, part in parts.items():
        unnumbered = unique = _NOT_IN_NAMES.sub("_", f"{name}-{ending}")[:_LONGEST_NAME]
        number = 1
        while safe_name(unique) in taken:
            number += 1
            unique = f"{unnumbered[: _LONGEST_NAME - len(str(number)) - 1]}-{number}"
        taken.add(safe_name(unique))
        streams[unique] = part
    return streams


class UnreadSource(SourceElement):
    """Stands where a source has mistakes, so that the streams keep their names."""

    name: ClassVar[str] = "?"


class SourceParser:
    """Makes sources of nodes; what is wrong is noted in the validator's problems."""

    def __init__(self, registry: Registry, validator: Validator, *, base_folder: Path | None) -> None:
        self._registry = registry
        self._validator = validator
        self._base_folder = base_folder
        self.given_names: dict[str, str] = {}
        """The name in the document of each stream that `sources` returned: `clips` of `clips-a`."""

    def sources(self, node: Node, *, key: Key) -> dict[str, SourceElement]:
        """The sources of a mapping by the names of their streams; a wrong one becomes an `UnreadSource`."""
        if not isinstance(node, Table):
            if not (isinstance(node, Scalar) and node.value is None):
                self._problem(node.place, key, "must give each stream a name: {gate: gate.mp4}")
            return {}
        self._check_names(node, key)
        found: dict[str, SourceElement] = {}
        for given, entry in node.entries.items():
            source = self.source(entry.node, key=(*key, given), place=entry.key_place)
            for name, one in self.split(given, source, key=(*key, given), place=_place_of_uri(entry)).items():
                if name in found:
                    self._problem(entry.key_place, (*key, given), f"there are two streams {name!r}: rename one of them")
                found[name] = one
                self.given_names[name] = given
        return found

    def split(self, name: str, source: SourceElement, *, key: Key, place: Place) -> dict[str, SourceElement]:
        """The streams of a source by name; the source itself when that is wrong."""
        try:
            return split(name, source)
        except ConfigurationError as error:
            self._problem(place, (*key, "uri"), self._validator.hide(str(error)))
            return {name: UnreadSource()}

    def source(self, node: Node, *, key: Key, place: Place) -> SourceElement:
        """One source; `place` is where what is missing is noted."""
        if isinstance(node, Scalar) and isinstance(node.value, str) and node.value:
            node = Table(node.place, {"uri": Entry(node.place, node)})
        if not isinstance(node, Table):
            self._problem(place, key, f"must be a file, a URL, or a mapping with {self._starts()}")
            return UnreadSource()
        kind_and_options = self._kind(node, key, place)
        if kind_and_options is None:
            return UnreadSource()
        kind, options = kind_and_options
        return self._validator.model(kind, options, key=key, place=place) or UnreadSource()

    def _kind(self, node: Table, key: Key, place: Place) -> tuple[type[SourceElement], Table] | None:
        try:
            if "uri" in node.entries:
                return self._kind_of_uri(node, key)
            for name in node.entries:
                if name in self._registry.source_names:
                    return _as_kind(self._registry.source(name), node)
        except ConfigurationError as error:
            uri = node.entries["uri"].node if "uri" in node.entries else node
            certain = uri.variables if isinstance(uri, Scalar) else ()
            self._problem(place, key, self._validator.hide(str(error), certain=certain))
            return None
        near = next(
            (word for name in node.entries if (word := suggest(name, ["uri", *self._registry.source_names]))), ""
        )
        self._problem(place, key, f"needs {self._starts()}{near}")
        return None

    def _kind_of_uri(self, node: Table, key: Key) -> tuple[type[SourceElement], Table] | None:
        uri = node.entries["uri"].node
        if not isinstance(uri, Scalar) or not isinstance(uri.value, str) or not uri.value:
            self._problem(uri.place, (*key, "uri"), "must be a file or a URL, as a text")
            return None
        resolved = uri.value
        if self._base_folder is not None and is_file_name(resolved):
            resolved = str(self._base_folder / resolved)
        return self._registry.source_for(resolved), node

    def _starts(self) -> str:
        return f"`uri:`, or one of {allowed([f'`{name}:`' for name in self._registry.source_names])}"

    def _check_names(self, node: Table, key: Key) -> None:
        for name, message in name_problems(node.entries):
            self._problem(node.entries[name].key_place, (*key, name), message)

    def _problem(self, place: Place, key: Key, message: str) -> None:
        self._validator.problems.append(LocatedProblem(place, key, message))


def _place_of_uri(source: Entry) -> Place:
    """Where the input of a source is named."""
    node = source.node
    if isinstance(node, Table):
        return node.entries["uri"].node.place if "uri" in node.entries else source.key_place
    return node.place


def _as_kind(kind: type[SourceElement], node: Table) -> tuple[type[SourceElement], Table]:
    """The options as the kind knows them: `images: folder` means `uri` where the kind has no field of its own name."""
    names = {field.alias or name for name, field in kind.model_fields.items()}
    if kind.name in names or "uri" not in names:
        return kind, node
    entries = {("uri" if name == kind.name else name): entry for name, entry in node.entries.items()}
    return kind, replace(node, entries=entries)


_KEY: Key = ("sources",)


@dataclass(frozen=True, slots=True)
class StreamsRead:
    """What a sources file holds: its tree, the sources by the names of their streams, the name in the tree of each
    stream, and every mistake.
    """

    path: Path
    table: Table
    sources: Mapping[str, SourceElement]
    given_names: Mapping[str, str]
    problems: Sequence[LocatedProblem]


def read_streams(
    path: Path, *, registry: Registry | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, SourceElement]:
    """The sources of a sources file by name. Raises InvalidConfiguration with every mistake."""
    variables = Environment(os.environ if environment is None else environment)
    read = parse_streams(path, registry=registry or Registry(), variables=variables)
    if read.problems:
        raise InvalidConfiguration(read.problems)
    return dict(read.sources)


def parse_streams(path: Path, *, registry: Registry, variables: Environment) -> StreamsRead:
    """Read a sources file; relative inputs start at its folder. Raises InvalidConfiguration when it cannot be read."""
    name = str(path)
    document = parse(read_file(path, name=name), name=name)
    told = len(variables.problems)
    root = variables.fill(document.root or Table(Place(name, 1, 1)), key=_KEY)
    if isinstance(root, Scalar) and root.value is None:
        root = Table(root.place)
    validator = Validator(variables, base_folder=path.absolute().parent)
    parser = SourceParser(registry, validator, base_folder=path.absolute().parent)
    sources = parser.sources(root, key=_KEY)
    table = root if isinstance(root, Table) else Table(root.place)
    unset = variables.problems[told:]
    places = {problem.place for problem in unset}
    own = [problem for problem in validator.problems if problem.place not in places]
    problems = sorted((*document.problems, *unset, *own), key=lambda problem: problem.place)
    return StreamsRead(path, table, sources, parser.given_names, problems)


def clashes(own: Node, others: Table) -> list[LocatedProblem]:
    """What is wrong with names of a sources file beside those of the pipeline's own sources. Sources that do not come
    from a file, but from the command line or from Python, stand in the place of others.
    """
    if not isinstance(own, Table):
        return []
    by_file_name = {safe_name(name): name for name in own.entries}
    found = []
    for name, entry in others.entries.items():
        other = by_file_name.get(safe_name(name))
        if other is None or (other == name and not own.entries[other].node.place.line):
            continue
        where = own.entries[other].key_place
        text = f"the stream {other!r} at {where} has the same name, or means the same file: rename one of them"
        found.append(LocatedProblem(entry.key_place, (*_KEY, name), text))
    return found
