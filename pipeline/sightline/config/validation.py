"""Validate options against an element's fields, and tell where in the file they are wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from sightline.config.document import Items, Key, LocatedProblem, Node, Place, Scalar, plain, replaced, walk
from sightline.config.environment import Environment
from sightline.graph.fields import BASE_FOLDER
from sightline.graph.wording import (
    Error,
    by_path,
    either,
    is_entry,
    meant_of,
    missing_option,
    suggest,
    unknown_option,
    wording,
)

_Model = TypeVar("_Model", bound=BaseModel)

_WANTS_TEXT = frozenset({"string_type", "path_type"})


class Validator:
    """Makes models of nodes; collects the problems. `base_folder` is what relative input paths start at."""

    def __init__(self, environment: Environment, *, base_folder: Path | None) -> None:
        self.problems: list[LocatedProblem] = []
        self.hide = environment.hide
        self._context = {BASE_FOLDER: base_folder}

    def model(self, model: type[_Model], node: Node, *, key: Key, place: Place) -> _Model | None:
        """The model that a node describes, or None when it has mistakes; `place` is where missing options are noted."""
        try:
            return model.model_validate(plain(node), context=self._context, by_alias=True, by_name=False)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
        as_text = _variables_as_text(node, errors)
        if as_text is not node:
            return self.model(model, as_text, key=key, place=place)
        for problem in self._problems(model, node, errors, place):
            self.problems.append(replace(problem, key=(*key, *problem.key)))
        return None

    def _problems(
        self, model: type[BaseModel], node: Node, errors: Sequence[Error], place: Place
    ) -> Iterator[LocatedProblem]:
        for path, group in by_path(errors, lambda loc: list(walk(node, loc))[-1][0]).items():
            _, value, key_place = list(walk(node, path))[-1]
            yield from self._options(model, path, group, key_place if path else place)
            yield from self._values(path, group, value)

    def _options(
        self, model: type[BaseModel], path: Key, group: Sequence[Error], place: Place
    ) -> Iterator[LocatedProblem]:
        for error in group:
            if error["type"] == "extra_forbidden":
                yield LocatedProblem(place, path, unknown_option(model, error["loc"]))
            elif error["type"] == "missing" and not is_entry(error):
                yield LocatedProblem(place, (*path, error["loc"][-1]), missing_option(model, error["loc"]))

    def _values(self, path: Key, group: Sequence[Error], value: Node) -> Iterator[LocatedProblem]:
        if text := either(self._message(error, value) for error in meant_of(group)):
            yield LocatedProblem(value.place, path, text)

    def _message(self, error: Error, value: Node) -> str:
        kind = error["type"]
        if isinstance(value, Scalar) and value.variables:
            return _about_variable(error, value.variables[0])
        if kind == "missing" and isinstance(value, Items):
            return f"must have {error['loc'][-1] + 1} entries, not {len(value.items)}"
        message = wording(kind, error.get("ctx", {}), error["msg"])
        if kind in ("literal_error", "enum") and isinstance(value, Scalar):
            words = message.removeprefix("must be ").replace(" or ", ", ").split(", ")
            return message + suggest(str(value.value), words)
        if kind == "string_type" and isinstance(value, Scalar) and value.value is not None:
            return f'{message}: put it in quotes, "{value.text}"'
        return self.hide(message)


def _about_variable(error: Error, variable: str) -> str:
    if error["type"] in ("value_error", "assertion_error"):
        return f"the value of ${{{variable}}} is not allowed here"
    return f"{wording(error['type'], error.get('ctx', {}), error['msg'])} (the value comes from ${{{variable}}})"


def _variables_as_text(node: Node, errors: Sequence[Error]) -> Node:
    """The tree with those values of variables taken as texts that were read as numbers where a text is wanted."""
    for error in errors:
        path, value, _ = list(walk(node, error["loc"]))[-1]
        if error["type"] not in _WANTS_TEXT or not isinstance(value, Scalar):
            continue
        if value.variables and not isinstance(value.value, str):
            node = replaced(node, path, replace(value, value=value.text))
    return node
