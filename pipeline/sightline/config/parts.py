"""Sources and steps as Python code gives them: values, or what YAML holds in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel

from sightline.config.environment import Environment
from sightline.config.nodes import node_of
from sightline.config.problems import InvalidConfiguration, Key, LocatedProblem, Place
from sightline.config.sources import SourceParser
from sightline.config.steps import StepParser
from sightline.config.validation import Validator
from sightline.graph.element import Element
from sightline.graph.registry import Registry
from sightline.graph.source import SourceElement
from sightline.graph.tree import Parallel, Step, Tee


def parts_from(sources: object, steps: object) -> tuple[dict[str, SourceElement], tuple[Step, ...]]:
    """The sources by name, and the steps, of a pipeline that is made in Python.

    Relative inputs start at the working directory. Raises InvalidConfiguration with every mistake.
    """
    reader = _Reader()
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
    reader = _Reader(registry)
    source = reader.source(value, ("sources", name))
    if source is None or reader.problems:
        raise InvalidConfiguration(reader.problems)
    return source


class _Reader:
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
        read = {name: self.source(value, ("sources", name)) for name, value in given.items()}
        return {name: source for name, source in read.items() if source is not None}

    def source(self, value: object, key: Key) -> SourceElement | None:
        if isinstance(value, SourceElement):
            return value
        if self._is_class(value, key):
            return None
        return self._sources.source(
            node_of(str(value) if isinstance(value, Path) else value, place=Place()), key=key, place=Place()
        )

    def steps(self, given: object) -> tuple[Step, ...]:
        if isinstance(given, str | Mapping | BaseModel) or not isinstance(given, Iterable):
            self._problem(("pipeline",), "must be a list of steps")
            return ()
        read = [self._step(value, ("pipeline", number)) for number, value in enumerate(given)]
        return tuple(step for step in read if step is not None)

    def _step(self, value: object, key: Key) -> Step | None:
        if isinstance(value, Element | Tee | Parallel):
            return value
        return None if self._is_class(value, key) else self._steps.step(node_of(value, place=Place()), key=key)

    def _is_class(self, value: object, key: Key) -> bool:
        if not isinstance(value, type):
            return False
        self._problem(key, f"{value.__name__} is a class: make a value of it, {value.__name__}(...)")
        return True

    def _problem(self, key: Key, message: str) -> None:
        self.problems.append(LocatedProblem(Place(), key, message))
