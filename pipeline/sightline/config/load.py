"""Load a pipeline description from a document."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar, cast

from pydantic import BaseModel

from sightline.config.checks import Hide, problems_of
from sightline.config.document import (
    InvalidConfiguration,
    Items,
    Key,
    LocatedProblem,
    Node,
    Place,
    Plain,
    Scalar,
    Table,
    node_of,
)
from sightline.config.environment import Environment
from sightline.config.overrides import TOP_LEVEL, Overrides
from sightline.config.sources import SourceParser, StreamsRead, clashes, parse_streams, split
from sightline.config.steps import StepParser
from sightline.config.validation import Validator
from sightline.config.yaml_tree import parse, read_file
from sightline.devices import Device
from sightline.errors import ConfigurationError
from sightline.graph.cluster import ClusterSettings
from sightline.graph.element import Element
from sightline.graph.outputs import Outputs
from sightline.graph.registry import Registry
from sightline.graph.source import SourceElement
from sightline.graph.telemetry import TelemetryOptions
from sightline.graph.tree import (
    BatchOptions,
    OutboxOptions,
    Parallel,
    PipelineDescription,
    ProcessOptions,
    SourcesFile,
    Step,
    Tee,
)
from sightline.graph.wording import allowed, suggest

_Model = TypeVar("_Model", bound=BaseModel)


def read_document(model: type[_Model], path: Path) -> _Model:
    """The model that a YAML file describes; an empty file is one with all defaults. Raises InvalidConfiguration.

    Several steps may ask for the same file, so what a text describes is kept: do not change it.
    """
    name = str(path)
    return cast("_Model", _described(model, read_file(path, name=name), name=name))


@lru_cache(maxsize=16)
def _described(model: type[BaseModel], text: str, *, name: str) -> BaseModel:
    document = parse(text, name=name)
    start = Place(name, 1, 1)
    root = document.root or Table(start)
    if isinstance(root, Scalar) and root.value is None:
        root = Table(start)
    validator = Validator(Environment({}), base_folder=None)
    made = validator.model(model, root, key=(), place=start)
    problems = sorted((*document.problems, *validator.problems), key=lambda problem: problem.place)
    if made is None or problems:
        raise InvalidConfiguration(problems)
    return made


@dataclass(frozen=True, slots=True)
class LoadedDescription:
    """A description with the tree that gives the place of each value, in which sources stand by the names of their
    streams, what takes values of the environment out of texts, and the name in the file of each stream.
    """

    description: PipelineDescription
    root: Table
    hide: Hide
    given_names: Mapping[str, str]


def load_description(
    path: str | Path,
    *,
    sources: Sequence[str] = (),
    overrides: Sequence[str] = (),
    device: str | None = None,
    outputs: Outputs | None = None,
    registry: Registry | None = None,
    environment: Mapping[str, str] | None = None,
) -> PipelineDescription:
    """Read a YAML file, check it, and return what it describes: the description that `load` returns."""
    loaded = load(
        path,
        sources=sources,
        overrides=overrides,
        device=device,
        outputs=outputs,
        registry=registry,
        environment=environment,
    )
    return loaded.description


def load(
    path: str | Path,
    *,
    text: str | None = None,
    sources: Sequence[str] = (),
    overrides: Sequence[str] = (),
    device: str | None = None,
    outputs: Outputs | None = None,
    registry: Registry | None = None,
    environment: Mapping[str, str] | None = None,
) -> LoadedDescription:
    """Read a YAML file and check it; or check what its `text` would be.

    `sources` holds `NAME=URI` texts that replace or add streams (paths relative to the working directory),
    `overrides` holds `key.path=value` texts whose values are YAML, `device` goes before the file's. Relative inputs
    start at the file's folder, outputs at `outputs`. Raises InvalidConfiguration with every mistake.
    """
    name = str(path)
    document = parse(read_file(Path(path), name=name) if text is None else text, name=name)
    variables = Environment(os.environ if environment is None else environment)
    root = variables.fill(document.root or Scalar(Place(name), None))
    changes = Overrides(registry or Registry())
    changed = changes.apply(_counted(root), sources=sources, values=overrides, device=device)
    reader = _Reader(registry or Registry(), variables, base_folder=Path(path).absolute().parent)
    found = [*document.problems, *variables.problems, *changes.problems]
    outputs = outputs or Outputs()
    outputs.protect(Path(path), "the configuration")
    return reader.read(changed, file=name, outputs=outputs, found=found)


def description_from(
    data: Mapping[str, object] | Node,
    *,
    base_folder: Path | None = None,
    outputs: Outputs | None = None,
    registry: Registry | None = None,
    checked: bool = True,
) -> PipelineDescription:
    """The description that plain data hold, in the form of the YAML file (`PipelineDescription.to_plain`), or the tree
    of a YAML text, whose places problems then name.

    Data are taken as they are: nothing in them is replaced from the environment. Without `checked`, elements do not
    check themselves, which imports functions and asks name services: for data that must be judged first. Raises
    InvalidConfiguration.
    """
    reader = _Reader(registry or Registry(), Environment({}), base_folder=base_folder)
    root = data if isinstance(data, Scalar | Items | Table) else node_of(data, place=Place())
    return reader.read(root, file=root.place.file, outputs=outputs or Outputs(), found=[], checked=checked).description


def parse_steps(
    data: Sequence[object], *, registry: Registry | None = None, base_folder: Path | None = None
) -> tuple[Step, ...]:
    """Steps as YAML holds them, as plain data. Raises InvalidConfiguration."""
    validator = Validator(Environment({}), base_folder=base_folder)
    steps = StepParser(registry or Registry(), validator).steps(node_of(data, place=Place()), key=("pipeline",))
    if validator.problems:
        raise InvalidConfiguration(validator.problems)
    return steps


def check_description(
    description: PipelineDescription,
    *,
    outputs: Outputs | None = None,
    registry: Registry | None = None,
    streams_may_come: bool = False,
    given: Device | None = None,
    is_checked: Callable[[str, Element], bool] = lambda _, __: False,
) -> tuple[LocatedProblem, ...]:
    """Every mistake of a description made in Python; empty when it can run. In a pipeline that runs, streams may still
    come: then what is meant for streams that are not there is no mistake. `given` is the device that the program gives.
    Steps that `is_checked` knows, by id, run already as they are: they do not look at their models and files again.
    """
    found = problems_of(
        description,
        registry=registry or Registry(),
        outputs=outputs or Outputs(),
        root=None,
        streams_may_come=streams_may_come,
        given=given,
        is_checked=is_checked,
    )
    return tuple(found)


class _Reader:
    """One pass over a tree: parts to models, then the checks of the whole."""

    def __init__(self, registry: Registry, variables: Environment, *, base_folder: Path | None) -> None:
        self._registry = registry
        self._validator = Validator(variables, base_folder=base_folder)
        self._variables = variables
        self._base_folder = base_folder
        self._unset = {problem.place for problem in variables.problems}
        self._unset_keys = {problem.key for problem in variables.problems}

    def read(
        self, root: Node, *, file: str, outputs: Outputs, found: Sequence[LocatedProblem], checked: bool = True
    ) -> LoadedDescription:
        if not isinstance(root, Table):
            what = "is empty" if isinstance(root, Scalar) and root.value is None else "is no mapping"
            message = f"{what}: a configuration has the keys {', '.join(TOP_LEVEL)}"
            raise InvalidConfiguration([*found, LocatedProblem(Place(file), (), message)])
        streams = self._streams_of(root)
        description, given_names = self._parts(root, streams)
        root = root.with_entry("sources", _by_stream(_joined(root, streams), given_names))
        own = (
            problems_of(description, registry=self._registry, outputs=outputs, root=root, hide=self._validator.hide)
            if checked
            else ()
        )
        read = [problem for problem in self._validator.problems if not self._follows(problem)]
        reported = {problem.key for problem in (*found, *read)}
        unset = {problem.place for problem in self._variables.problems}
        late = [problem for problem in own if problem.key not in reported and problem.place not in unset]
        problems = sorted((*found, *read, *late), key=lambda problem: problem.place)
        if problems:
            raise InvalidConfiguration(problems)
        return LoadedDescription(description, root, self._validator.hide, given_names)

    def _follows(self, problem: LocatedProblem) -> bool:
        """Whether a mistake may only be there because a variable is not set: a URI tells which options there are."""
        unread = {key[:2] for key in self._unset_keys if key[:1] == ("sources",) and key[2:] in ((), ("uri",))}
        return problem.place in self._unset or problem.key[:2] in unread

    def _streams_of(self, root: Table) -> StreamsRead | None:
        """What the sources file holds, when one is named; its mistakes are noted."""
        entry = root.entries.get("sources_file")
        if entry is None:
            return None
        node = entry.node
        if not (isinstance(node, Scalar) and isinstance(node.value, str) and node.value):
            message = "must name a YAML file with streams by name"
            self._validator.problems.append(LocatedProblem(entry.key_place, ("sources_file",), message))
            return None
        path = (self._base_folder or Path()) / Path(node.value).expanduser()
        try:
            read = parse_streams(path, registry=self._registry, variables=self._variables)
        except InvalidConfiguration as error:
            self._validator.problems += error.problems
            return StreamsRead(path, Table(node.place), {}, {}, ())
        self._validator.problems += read.problems
        if "sources" in root.entries:
            self._validator.problems += clashes(root.entries["sources"].node, read.table)
        return read

    def _parts(self, root: Table, streams: StreamsRead | None) -> tuple[PipelineDescription, Mapping[str, str]]:
        """The description, and the name in the document of each of its streams."""
        for name, entry in root.entries.items():
            if name not in TOP_LEVEL:
                message = f"there is no such key{suggest(name, TOP_LEVEL) or '.'} Allowed: {allowed(TOP_LEVEL)}"
                self._validator.problems.append(LocatedProblem(entry.key_place, (name,), message))
        nodes = {name: entry.node for name, entry in cast("Table", _counted(root)).entries.items()}
        nothing = Table(root.place)
        sources = SourceParser(self._registry, self._validator, base_folder=self._base_folder)
        own = sources.sources(nodes.get("sources", nothing), key=("sources",))
        others = {} if streams is None else self._others(streams, own=own, given=set(sources.given_names.values()))
        parts: dict[str, object] = {
            "sources": {**own, **others},
            "sources_file": None if streams is None else SourcesFile(path=streams.path, streams=tuple(others)),
            "steps": StepParser(self._registry, self._validator).steps(
                nodes.get("pipeline", Scalar(root.place, None)), key=("pipeline",)
            ),
        }
        options = {
            "batch": self._section(BatchOptions, "batch", nodes.get("batch", nothing)),
            "outbox": self._section(OutboxOptions, "outbox", nodes.get("outbox", nothing)),
            "processes": self._section(ProcessOptions, "processes", nodes.get("processes", nothing)),
            "telemetry": self._section(TelemetryOptions, "telemetry", nodes["telemetry"])
            if "telemetry" in nodes
            else None,
            "cluster": self._section(ClusterSettings, "cluster", nodes["cluster"]) if "cluster" in nodes else None,
        }
        description = PipelineDescription.model_validate({**self._head(nodes), **parts, **options})
        return description, {**(streams.given_names if streams else {}), **sources.given_names}

    def _others(
        self, streams: StreamsRead, *, own: Mapping[str, SourceElement], given: Collection[str]
    ) -> dict[str, SourceElement]:
        """The streams of a sources file but those in whose place others are given."""
        others = {name: one for name, one in streams.sources.items() if streams.given_names[name] not in given}
        for name in own:
            if name in others:
                place = streams.table.entries[streams.given_names[name]].key_place
                message = f"there are two streams {name!r}: rename one of them"
                self._validator.problems.append(LocatedProblem(place, ("sources", name), message))
        return others

    def _section(self, model: type[_Model], key: str, node: Node) -> _Model:
        """Options of the whole pipeline that stand under a key of their own; the defaults where they are wrong."""
        if isinstance(node, Scalar) and node.value is None:
            return model()
        return self._validator.model(model, node, key=(key,), place=node.place) or model()

    def _head(self, nodes: Mapping[str, Node]) -> dict[str, Plain]:
        """Those options of the whole pipeline that are right; the others are noted."""
        right: dict[str, Plain] = {}
        for name in ("name", "device", "keep_running", "overwrite", "state"):
            if name in nodes:
                only = Table(nodes[name].place, {}).with_entry(name, nodes[name])
                with_sources = only.with_entry("sources", Table(only.place))
                made = self._validator.model(PipelineDescription, with_sources, key=(), place=only.place)
                if made is not None:
                    right[name] = getattr(made, name)
        return right


def _counted(root: Node) -> Node:
    """The tree with the options that `processes: 4` stands for."""
    if not isinstance(root, Table) or "processes" not in root.entries:
        return root
    node = root.entries["processes"].node
    if not isinstance(node, Scalar) or node.value is None:
        return root
    return root.with_entry("processes", Table(node.place).with_entry("count", node))


def _joined(root: Table, others: StreamsRead | None) -> Table:
    """The sources of a pipeline with those of its sources file, which stand behind them."""
    own = root.entries["sources"].node if "sources" in root.entries else None
    table = own if isinstance(own, Table) else Table(root.place)
    return table if others is None else replace(table, entries={**others.table.entries, **table.entries})


def _by_stream(table: Table, given_names: Mapping[str, str]) -> Table:
    """Sources by the names of their streams, of which several may come from one entry."""
    return replace(table, entries={name: table.entries[given] for name, given in given_names.items()})


def parts_from(sources: object, steps: object) -> tuple[dict[str, SourceElement], tuple[Step, ...]]:
    """The sources by name, and the steps, of a pipeline that is made in Python.

    Relative inputs start at the working directory. Raises InvalidConfiguration with every mistake.
    """
    reader = _PartsReader()
    parts = reader.sources(sources), reader.steps(steps)
    if reader.problems:
        raise InvalidConfiguration(reader.problems)
    return parts


def source_from(
    value: str | Path | Mapping[str, object] | SourceElement, *, registry: Registry | None = None, name: str = "source"
) -> SourceElement:
    """One source as Python code gives it: a URI or path, a mapping as in YAML, or a source element.

    Relative paths start at the working directory. Raises InvalidConfiguration.
    """
    reader = _PartsReader(registry)
    source = reader.source(value, ("sources", name))
    if source is None or reader.problems:
        raise InvalidConfiguration(reader.problems)
    streams = split(name, source)
    if name not in streams:
        raise ConfigurationError(
            f"{name!r} would be {len(streams)} streams, one for each file: add each file by itself"
        )
    return source


class _PartsReader:
    """Reads parts; what is wrong is noted in `problems`."""

    def __init__(self, registry: Registry | None = None) -> None:
        registry = registry or Registry()
        validator = Validator(Environment({}), base_folder=None)
        self.problems = validator.problems
        self._sources = SourceParser(registry, validator, base_folder=None)
        self._steps = StepParser(registry, validator)

    def sources(self, given: object) -> dict[str, SourceElement]:
        if not isinstance(given, Mapping):
            self._problem(("sources",), 'must give each stream a name: {"gate": "gate.mp4"}')
            return {}
        found: dict[str, SourceElement] = {}
        for given_name, value in given.items():
            key = ("sources", given_name)
            source = self.source(value, key)
            streams = {} if source is None else self._sources.split(given_name, source, key=key, place=Place())
            for name in streams:
                if name in found:
                    self._problem(key, f"there are two streams {name!r}: rename one of them")
            found.update(streams)
        return found

    def source(self, value: object, key: Key) -> SourceElement | None:
        if isinstance(value, SourceElement):
            return value
        if self._is_class(value, key):
            return None
        node = self._node(value, key)
        return None if node is None else self._sources.source(node, key=key, place=Place())

    def steps(self, given: object) -> tuple[Step, ...]:
        if isinstance(given, str | Mapping | BaseModel) or not isinstance(given, Iterable):
            self._problem(("pipeline",), "must be a list of steps")
            return ()
        read = [self._step(value, ("pipeline", number)) for number, value in enumerate(given)]
        return tuple(step for step in read if step is not None)

    def _step(self, value: object, key: Key) -> Step | None:
        if isinstance(value, Element | Tee | Parallel):
            return value
        if self._is_class(value, key):
            return None
        if callable(value):
            self._problem(key, 'a function is no step: name it, as in Apply(function="my_module:my_function")')
            return None
        node = self._node(value, key)
        return None if node is None else self._steps.step(node, key=key)

    def _node(self, value: object, key: Key) -> Node | None:
        try:
            return node_of(value, place=Place())
        except TypeError as error:
            self._problem(key, str(error))
            return None

    def _is_class(self, value: object, key: Key) -> bool:
        if not isinstance(value, type):
            return False
        self._problem(key, f"{value.__name__} is a class: make a value of it, {value.__name__}(...)")
        return True

    def _problem(self, key: Key, message: str) -> None:
        self.problems.append(LocatedProblem(Place(), key, message))
