"""Validate options against an element's fields, and word what is wrong."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ValidationError

from sightline.config.document import Items, Key, LocatedProblem, Node, Place, Scalar, allowed, plain, replaced, walk
from sightline.config.environment import Environment
from sightline.config.schema import ForgivingJsonSchema
from sightline.graph.fields import BASE_FOLDER
from sightline.graph.registry import suggest

_FIXED = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "bytes_type": "must be a text",
    "callable_type": "must be a function, and can only be given in Python",
    "dict_type": "must be a mapping of keys to values",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "frozen_set_type": "must be a list",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is too large",
    "int_type": "must be a whole number",
    "iterable_type": "must be a list",
    "list_type": "must be a list",
    "mapping_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of options",
    "model_type": "must be a mapping of options",
    "none_required": "must be left empty",
    "path_type": "must be the name of a file",
    "set_type": "must be a list",
    "string_type": "must be a text",
    "string_unicode": "must be a text",
    "tuple_type": "must be a list",
}

WRONG_KIND = frozenset(name for name in _FIXED if name.endswith("_type")) | {"none_required"}
"""Errors that only say that another kind of value is wanted: of several alternatives, those not meant."""

_CLASS_PATTERN = re.compile(r"\^\[(?P<characters>[^\]]+)\](?:\{1,(?P<most>\d+)\}|[+])\$")
_RANGES = {"A-Z": "", "a-z": "", "0-9": "digits"}


def wording(kind: str, context: Mapping[str, Any], text: str) -> str:
    """One error of pydantic, given by its type, context and message, as the end of a sentence about the value."""
    if kind in _FIXED:
        return _FIXED[kind]
    if kind in _BY_CONTEXT:
        return _BY_CONTEXT[kind](context)
    if kind in ("value_error", "assertion_error"):
        return text.split(", ", 1)[-1]
    return text.replace("Input should be", "must be").replace("Input", "the value")


def _least_length(context: Mapping[str, Any]) -> str:
    least = context["min_length"]
    return "must not be empty" if least == 1 else f"must have at least {least} entries, not {context['actual_length']}"


def _least_characters(context: Mapping[str, Any]) -> str:
    least = context["min_length"]
    return "must not be empty" if least == 1 else f"must have at least {least} characters"


def _expected(context: Mapping[str, Any]) -> str:
    words = [word.strip().strip("'") for word in re.split(r", | or ", str(context["expected"]))]
    return "must be " + (words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}")


def _pattern(context: Mapping[str, Any]) -> str:
    simple = _CLASS_PATTERN.fullmatch(str(context["pattern"]))
    if simple is None:
        return f"must match {context['pattern']}"
    rest = simple["characters"]
    for letters in ("A-Za-z", "a-z", "A-Z"):
        rest = rest.replace(letters, "", 1) if letters in rest else rest
    has_digits = "0-9" in rest
    signs = " ".join(rest.replace("0-9", ""))
    parts = ["letters", *(["digits"] if has_digits else []), *([signs] if signs else [])]
    most = f", at most {simple['most']} of them" if simple["most"] else ""
    return f"may hold only {', '.join(parts[:-1])} and {parts[-1]}{most}" if len(parts) > 1 else f"only {parts[0]}"


_BY_CONTEXT: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "enum": _expected,
    "greater_than": lambda context: f"must be more than {context['gt']:g}",
    "greater_than_equal": lambda context: f"must be at least {context['ge']:g}",
    "is_instance_of": lambda context: f"must be a {context['class']}, and can only be given in Python",
    "less_than": lambda context: f"must be less than {context['lt']:g}",
    "less_than_equal": lambda context: f"must be at most {context['le']:g}",
    "literal_error": _expected,
    "multiple_of": lambda context: f"must be a multiple of {context['multiple_of']}",
    "string_pattern_mismatch": _pattern,
    "string_too_long": lambda context: f"must have at most {context['max_length']} characters",
    "string_too_short": _least_characters,
    "too_long": lambda context: f"must have at most {context['max_length']} entries, not {context['actual_length']}",
    "too_short": _least_length,
}


_Model = TypeVar("_Model", bound=BaseModel)
_Error = Mapping[str, Any]

_WANTS_TEXT = frozenset({"string_type", "path_type"})
_OPTIONS_OF_ALL = ("id", "streams", "on_error", "realtime")


class Validator:
    """Makes models of nodes; collects the problems. `base_folder` is what relative input paths start at."""

    def __init__(self, environment: Environment, *, base_folder: Path | None) -> None:
        self.problems: list[LocatedProblem] = []
        self.hide = environment.hide
        self._context = {BASE_FOLDER: base_folder}

    def model(self, model: type[_Model], node: Node, *, key: Key, place: Place) -> _Model | None:
        """The model that a node describes, or None when it has mistakes; `place` is where missing options are noted."""
        try:
            return model.model_validate(plain(node), context=self._context)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
        as_text = _variables_as_text(node, errors)
        if as_text is not node:
            return self.model(model, as_text, key=key, place=place)
        for problem in self._problems(model, node, errors, place):
            self.problems.append(replace(problem, key=(*key, *problem.key)))
        return None

    def _problems(
        self, model: type[BaseModel], node: Node, errors: Sequence[_Error], place: Place
    ) -> Iterator[LocatedProblem]:
        by_path: dict[Key, list[_Error]] = {}
        for error in errors:
            by_path.setdefault(list(walk(node, error["loc"]))[-1][0], []).append(error)
        for path, group in by_path.items():
            if _is_other_alternative(path, group, by_path):
                continue
            _, value, key_place = list(walk(node, path))[-1]
            yield from self._options(model, path, group, key_place if path else place)
            yield from self._values(path, group, value)

    def _options(
        self, model: type[BaseModel], path: Key, group: Sequence[_Error], place: Place
    ) -> Iterator[LocatedProblem]:
        for error in group:
            if error["type"] == "extra_forbidden":
                known = option_names(model, error["loc"][:-1])
                near = suggest(str(error["loc"][-1]), known)
                yield LocatedProblem(place, path, f"there is no such option{near or '.'} Allowed: {allowed(known)}")
            elif error["type"] == "missing" and not _is_entry(error):
                yield LocatedProblem(place, (*path, error["loc"][-1]), _required(model, error["loc"]))

    def _values(self, path: Key, group: Sequence[_Error], value: Node) -> Iterator[LocatedProblem]:
        wrong = [error for error in group if error["type"] not in ("extra_forbidden", "missing")]
        wrong += [error for error in group if error["type"] == "missing" and _is_entry(error)][-1:]
        meant = [error for error in wrong if error["type"] not in WRONG_KIND] or wrong
        # Sorted, because the order of a union depends on which module wrote it first.
        messages = sorted({self._message(error, value) for error in meant})
        if messages:
            first, *others = messages
            text = first + "".join(f", or {other.removeprefix('must be ')}" for other in others)
            yield LocatedProblem(value.place, path, text)

    def _message(self, error: _Error, value: Node) -> str:
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


def option_names(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The options that a model, or a model inside it at that path of fields, knows; those of all elements last."""
    models = _models_at(model, path)
    names = dict.fromkeys(name for found in models for name in _names(found))
    return sorted(names, key=lambda name: name in _OPTIONS_OF_ALL)


def _names(model: type[BaseModel]) -> Iterator[str]:
    """Yield the options of a model: its fields, and those that its schema adds (a tracker's, for `track`)."""
    yield from (field.alias or name for name, field in model.model_fields.items())
    if model.model_config.get("extra") == "allow":
        yield from model.model_json_schema(schema_generator=ForgivingJsonSchema).get("properties", ())


def _inside(model: type[BaseModel], part: str | int) -> list[type[BaseModel]]:
    for name, field in model.model_fields.items():
        if part in (name, field.alias):
            return _models_in(field.annotation)
    if model.model_config.get("extra") == "allow" and isinstance(part, str):
        return _models_in(get_type_hints(model).get("__pydantic_extra__")) or [model]
    return [model]


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def _required(model: type[BaseModel], path: Sequence[str | int]) -> str:
    for found in _models_at(model, path[:-1]):
        for name, field in found.model_fields.items():
            if path[-1] in (name, field.alias) and field.description:
                return f"is required: {_first_sentence(field.description)}"
    return "is required"


def _models_at(model: type[BaseModel], path: Sequence[str | int]) -> list[type[BaseModel]]:
    models = [model]
    for part in path:
        models = [inner for outer in models for inner in _inside(outer, part)] or models
    return models


def _is_entry(error: _Error) -> bool:
    """Whether what is missing is an entry of a list of fixed length."""
    return bool(error["loc"]) and isinstance(error["loc"][-1], int)


def _first_sentence(text: str) -> str:
    sentence = " ".join(text.split()).split(". ")[0].rstrip(".")
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def _about_variable(error: _Error, variable: str) -> str:
    if error["type"] in ("value_error", "assertion_error"):
        return f"the value of ${{{variable}}} is not allowed here"
    return f"{wording(error['type'], error.get('ctx', {}), error['msg'])} (the value comes from ${{{variable}}})"


def _is_other_alternative(path: Key, group: Sequence[_Error], by_path: Mapping[Key, object]) -> bool:
    """Whether these errors only say that the value is not of another kind, or that too few entries of a list are
    right, while a deeper one says what is wrong.
    """
    deeper = any(len(other) > len(path) and other[: len(path)] == path for other in by_path)
    return deeper and all(error["type"] in WRONG_KIND or error["type"] == "too_short" for error in group)


def _variables_as_text(node: Node, errors: Sequence[_Error]) -> Node:
    """The tree with those values of variables taken as texts that were read as numbers where a text is wanted."""
    for error in errors:
        path, value, _ = list(walk(node, error["loc"]))[-1]
        if error["type"] not in _WANTS_TEXT or not isinstance(value, Scalar):
            continue
        if value.variables and not isinstance(value.value, str):
            node = replaced(node, path, replace(value, value=value.text))
    return node
