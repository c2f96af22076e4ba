"""YAML files, and plain data, to pipeline descriptions; every mistake at once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sightline.config.checks import problems_of
from sightline.config.environment import Environment
from sightline.config.nodes import Node, Plain, Scalar, Table, node_of
from sightline.config.overrides import TOP_LEVEL, Overrides
from sightline.config.problems import InvalidConfiguration, LocatedProblem, Place, allowed
from sightline.config.sources import SourceParser
from sightline.config.sources_file import StreamsRead, clashes, parse_streams
from sightline.config.steps import StepParser
from sightline.config.validation import Validator
from sightline.config.yaml_tree import parse, read_file
from sightline.devices import Device
from sightline.graph.outputs import Outputs
from sightline.graph.registry import Registry, suggest
from sightline.graph.tree import BatchOptions, PipelineDescription, SourcesFile, Step


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
    """Read a YAML file, check it, and return what it describes.

    `sources` holds `NAME=URI` texts that replace or add streams (paths relative to the working directory),
    `overrides` holds `key.path=value` texts whose values are YAML, `device` goes before the file's. Relative inputs
    start at the file's folder, outputs at `outputs`. Raises InvalidConfiguration with every mistake.
    """
    name = str(path)
    document = parse(read_file(Path(path), name=name), name=name)
    variables = Environment(os.environ if environment is None else environment)
    root = variables.fill(document.root or Scalar(Place(name), None))
    changes = Overrides(registry or Registry())
    changed = changes.apply(root, sources=sources, values=overrides, device=device)
    reader = _Reader(registry or Registry(), variables, base_folder=Path(path).absolute().parent)
    found = [*document.problems, *variables.problems, *changes.problems]
    return reader.description(changed, file=name, outputs=outputs or Outputs(), found=found)


def description_from(
    data: Mapping[str, object],
    *,
    base_folder: Path | None = None,
    outputs: Outputs | None = None,
    registry: Registry | None = None,
) -> PipelineDescription:
    """The description that plain data hold, in the form of the YAML file (`PipelineDescription.to_plain`).

    Data are taken as they are: nothing in them is replaced from the environment. Raises InvalidConfiguration.
    """
    reader = _Reader(registry or Registry(), Environment({}), base_folder=base_folder)
    return reader.description(node_of(data, place=Place()), file="", outputs=outputs or Outputs(), found=[])


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
) -> tuple[LocatedProblem, ...]:
    """Every mistake of a description made in Python; empty when it can run. In a pipeline that runs, streams may still
    come: then what is meant for streams that are not there is no mistake. `given` is the device that the program gives.
    """
    found = problems_of(
        description,
        registry=registry or Registry(),
        outputs=outputs or Outputs(),
        root=None,
        streams_may_come=streams_may_come,
        given=given,
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

    def description(
        self, root: Node, *, file: str, outputs: Outputs, found: Sequence[LocatedProblem]
    ) -> PipelineDescription:
        if not isinstance(root, Table):
            what = "is empty" if isinstance(root, Scalar) and root.value is None else "is no mapping"
            message = f"{what}: a configuration has the keys {', '.join(TOP_LEVEL)}"
            raise InvalidConfiguration([*found, LocatedProblem(Place(file), (), message)])
        streams = self._streams_of(root)
        description = self._parts(root, streams)
        if streams is not None:
            root = root.with_entry("sources", _joined(root, streams.table))
        checked = problems_of(
            description, registry=self._registry, outputs=outputs, root=root, hide=self._validator.hide
        )
        read = [problem for problem in self._validator.problems if not self._follows(problem)]
        reported = {problem.key for problem in (*found, *read)}
        unset = {problem.place for problem in self._variables.problems}
        late = [problem for problem in checked if problem.key not in reported and problem.place not in unset]
        problems = sorted((*found, *read, *late), key=lambda problem: problem.place)
        if problems:
            raise InvalidConfiguration(problems)
        return description

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
            return StreamsRead(path, Table(node.place), {}, ())
        self._validator.problems += read.problems
        if "sources" in root.entries:
            self._validator.problems += clashes(root.entries["sources"].node, read.table)
        return read

    def _parts(self, root: Table, streams: StreamsRead | None) -> PipelineDescription:
        for name, entry in root.entries.items():
            if name not in TOP_LEVEL:
                message = f"there is no such key{suggest(name, TOP_LEVEL) or '.'} Allowed: {allowed(TOP_LEVEL)}"
                self._validator.problems.append(LocatedProblem(entry.key_place, (name,), message))
        nodes = {name: entry.node for name, entry in root.entries.items()}
        nothing = Table(root.place)
        sources = SourceParser(self._registry, self._validator, base_folder=self._base_folder)
        own = sources.sources(nodes.get("sources", nothing), key=("sources",))
        others = {} if streams is None else {name: one for name, one in streams.sources.items() if name not in own}
        parts: dict[str, object] = {
            "sources": {**own, **others},
            "sources_file": None if streams is None else SourcesFile(path=streams.path, streams=tuple(others)),
            "steps": StepParser(self._registry, self._validator).steps(
                nodes.get("pipeline", Scalar(root.place, None)), key=("pipeline",)
            ),
        }
        batch = self._batch(nodes.get("batch", nothing))
        return PipelineDescription.model_validate({**self._head(nodes), **parts, "batch": batch})

    def _batch(self, node: Node) -> BatchOptions:
        if isinstance(node, Scalar) and node.value is None:
            return BatchOptions()
        return self._validator.model(BatchOptions, node, key=("batch",), place=node.place) or BatchOptions()

    def _head(self, nodes: Mapping[str, Node]) -> dict[str, Plain]:
        """Those of `name`, `device` and `keep_running` that are right; the others are noted."""
        right: dict[str, Plain] = {}
        for name in ("name", "device", "keep_running"):
            if name in nodes:
                only = Table(nodes[name].place, {}).with_entry(name, nodes[name])
                with_sources = only.with_entry("sources", Table(only.place))
                made = self._validator.model(PipelineDescription, with_sources, key=(), place=only.place)
                if made is not None:
                    right[name] = getattr(made, name)
        return right


def _joined(root: Table, others: Table) -> Table:
    """The sources of a pipeline with those of its sources file, which stand behind them."""
    own = root.entries["sources"].node if "sources" in root.entries else None
    table = own if isinstance(own, Table) else Table(root.place)
    return replace(table, entries={**others.entries, **table.entries})
