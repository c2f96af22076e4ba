"""The base of everything that YAML or Python describes: immutable values that say in words what is wrong with them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from sightline.errors import ConfigurationError
from sightline.graph.documented import Documented
from sightline.graph.wording import (
    Error,
    Path,
    by_path,
    either,
    is_entry,
    meant_of,
    missing_option,
    unknown_option,
    wording,
)

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


class _WordedErrors(ModelMetaclass):
    """Values that are made in Python raise ConfigurationError, as YAML does, instead of pydantic's own error."""

    if not TYPE_CHECKING:

        def __call__(self, *args: Any, **options: Any) -> Any:
            if args:
                raise TypeError(f"{self.__name__} takes its options by name, such as {self.__name__}(id=...)")
            try:
                return super().__call__(**options)
            except ValidationError as error:
                found = error.errors(include_url=False, include_input=False)
                lines = [f"{self.__name__}: {line}" for line in mistakes(self, options, found)]
            raise ConfigurationError("\n".join(lines))


class Described(Documented, metaclass=_WordedErrors):
    """A part of a pipeline as a value: frozen, comparable, without unknown fields."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        populate_by_name=True,
        defer_build=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _take_values_of_python(cls, given: Any) -> Any:
        return as_yaml_holds(given)


def as_yaml_holds(value: Any) -> Any:
    """Return a value of Python as YAML would hold it: a path as a text, what NumPy holds as numbers and lists, also
    within lists and mappings. Everything else is returned as it is.
    """
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value) is dict:
        return {key: as_yaml_holds(entry) for key, entry in value.items()}
    if type(value) in (list, tuple):
        return type(value)(as_yaml_holds(entry) for entry in value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return value


def mistakes(model: type[BaseModel], options: Mapping[str, Any], errors: Sequence[Error]) -> Iterator[str]:
    """Yield a line for each mistake in options that were given in Python: its path, and what is wrong there."""
    for path, group in by_path(errors, lambda loc: _path_in(options, loc)).items():
        for error in group:
            if error["type"] == "extra_forbidden":
                yield _line(error["loc"], unknown_option(model, error["loc"]))
            elif error["type"] == "missing" and not is_entry(error):
                yield _line(error["loc"], missing_option(model, error["loc"]))
        if text := either(_message(error, options) for error in meant_of(group)):
            yield _line(path, text)


def _message(error: Error, options: Mapping[str, Any]) -> str:
    if error["type"] == "missing":
        entries = options
        for part in error["loc"][:-1]:
            entries = entries[part]
        return f"must have {error['loc'][-1] + 1} entries, not {len(entries)}"
    return wording(error["type"], error.get("ctx", {}), error["msg"])


def _path_in(options: Any, location: Path) -> Path:
    """Return the part of an error's location that leads to a value of the options."""
    path: list[str | int] = []
    for part in location:
        is_place = isinstance(options, Sequence) and isinstance(part, int) and part < len(options)
        if not (is_place or (isinstance(options, Mapping) and part in options)):
            break
        options = options[part]
        path.append(part)
    return tuple(path)


def _line(path: Path, text: str) -> str:
    return ": ".join(part for part in (".".join(map(str, path)), text) if part)
