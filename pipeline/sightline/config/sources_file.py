"""The sources file: streams by name in a YAML file of their own, which may change while the pipeline runs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sightline.config.environment import Environment
from sightline.config.nodes import Node, Scalar, Table
from sightline.config.problems import InvalidConfiguration, Key, LocatedProblem, Place
from sightline.config.sources import SourceParser
from sightline.config.validation import Validator
from sightline.config.yaml_tree import parse, read_file
from sightline.graph.outputs import safe_name
from sightline.graph.registry import Registry
from sightline.graph.source import SourceElement

_KEY: Key = ("sources",)


@dataclass(frozen=True, slots=True)
class StreamsRead:
    """What a sources file holds: its tree, the sources by name, and every mistake."""

    path: Path
    table: Table
    sources: Mapping[str, SourceElement]
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
    sources = SourceParser(registry, validator, base_folder=path.absolute().parent).sources(root, key=_KEY)
    table = root if isinstance(root, Table) else Table(root.place)
    unset = variables.problems[told:]
    places = {problem.place for problem in unset}
    own = [problem for problem in validator.problems if problem.place not in places]
    return StreamsRead(
        path, table, sources, sorted((*document.problems, *unset, *own), key=lambda problem: problem.place)
    )


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
