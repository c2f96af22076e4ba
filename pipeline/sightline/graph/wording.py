"""Word what pydantic finds wrong with options, as one sentence about each value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from sightline.graph.documented import field_docs

Error = Mapping[str, Any]
"""One error of `ValidationError.errors()`."""
Path = tuple[str | int, ...]

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

_WRONG_KIND = frozenset(name for name in _FIXED if name.endswith("_type")) | {"none_required"}
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


class ForgivingJsonSchema(GenerateJsonSchema):
    """JSON Schema in which what JSON cannot hold (a function, a class) is left open instead of refused."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def handle_invalid_for_json_schema(self, schema: core_schema.CoreSchema, error_info: str) -> JsonSchemaValue:
        """An empty schema."""
        del schema, error_info
        return {}


_OPTIONS_OF_ALL = ("id", "streams", "on_error", "realtime")


_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "agnostic_nms": ("class_agnostic",),
    "backend": ("engine",),
    "class_names": ("labels",),
    "conf_threshold": ("confidence",),
    "conf_thres": ("confidence",),
    "filename": ("path", "uri"),
    "fp16": ("precision",),
    "frame_skip": ("every", "stride"),
    "half": ("precision",),
    "imgsz": ("size",),
    "input_size": ("size",),
    "iou_thres": ("nms",),
    "iou_threshold": ("nms",),
    "latency": ("buffer",),
    "location": ("uri", "path"),
    "max_age": ("max_lost",),
    "names": ("labels",),
    "output": ("path",),
    "protocol": ("transport",),
    "providers": ("engine",),
    "rtsp_transport": ("transport",),
    "score_threshold": ("confidence",),
    "source": ("uri",),
    "src": ("uri",),
    "thresh": ("confidence", "threshold"),
    "threshold": ("confidence",),
    "track_buffer": ("max_lost",),
    "url": ("uri",),
    "vid_stride": ("every", "stride"),
    "weights": ("model",),
}
"""What Ultralytics, OpenCV, GStreamer and others call options, and what they are called here, the likeliest first."""
_OF_PIPELINE = ("batch", "device", "processes", "telemetry")
_LEAST_PREFIX = 3


def suggest(word: str, known: Iterable[str]) -> str:
    """The end of an error message: the nearest right word, when there is one that begins with the word, or one near it
    or a part of it.
    """
    words = list(known)
    begun = [one for one in words if len(word) >= _LEAST_PREFIX and one.startswith(word)]
    near = [min(begun, key=len)] if begun else difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    for part in () if near else re.findall(r"[^\W_]{4,}", word):  # `line_crossing` is near `lines`
        near = near or difflib.get_close_matches(part, words, n=1, cutoff=0.8)
    return f"; did you mean {near[0]!r}?" if near else ""


def allowed(words: Sequence[str], *, most: int = 24) -> str:
    """A list of the words that would be right, cut when it is long."""
    shown = ", ".join(words[:most])
    return f"{shown}, ..." if len(words) > most else shown


def unknown_option(model: type[BaseModel], path: Sequence[str | int]) -> str:
    """What is said of an option, the last part of that path of fields, which the model does not have."""
    known = option_names(model, path[:-1])
    return f"there is no such option{meant_option(str(path[-1]), known)} Allowed: {allowed(known)}"


def meant_option(word: str, known: Sequence[str]) -> str:
    """What to write in place of an option that nobody knows, as the end of a sentence."""
    meant = next((name for name in _ELSEWHERE.get(word.lower(), ()) if name in known), None)
    if meant is not None:
        return f"; here it is {meant!r}."
    if word in _OF_PIPELINE:
        return f": {word!r} is set for the whole pipeline, beside its sources."
    return suggest(word, known) or "."


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


def missing_option(model: type[BaseModel], path: Sequence[str | int]) -> str:
    """What is said of the option at that path of fields when it is required and not given."""
    for found in _models_at(model, path[:-1]):
        for name, field in found.model_fields.items():
            text = field.description or field_docs(found).get(name)
            if path[-1] in (name, field.alias) and text:
                return f"is required: {_first_sentence(text)}"
    return "is required"


def _models_at(model: type[BaseModel], path: Sequence[str | int]) -> list[type[BaseModel]]:
    models = [model]
    for part in path:
        models = [inner for outer in models for inner in _inside(outer, part)] or models
    return models


def _first_sentence(text: str) -> str:
    sentence = " ".join(text.split()).split(". ")[0].rstrip(".")
    return sentence[:1].lower() + sentence[1:] if sentence[1:2].islower() else sentence


def by_path(errors: Sequence[Error], path_of: Callable[[Path], Path]) -> dict[Path, list[Error]]:
    """Errors by the value that they are about: `path_of` cuts from an error's location what names no value of the data
    (the alternatives of a union). Values are left out of which it is only said that they are of another kind, or that
    too few entries of a list are right, while an error inside them says what is wrong.
    """
    found: dict[Path, list[Error]] = {}
    for error in errors:
        found.setdefault(path_of(error["loc"]), []).append(error)
    return {path: group for path, group in found.items() if not _is_other_alternative(path, group, found)}


def meant_of(group: Sequence[Error]) -> list[Error]:
    """Those errors about a value that say what is wrong with it: unknown and missing options are told apart."""
    wrong = [error for error in group if error["type"] not in ("extra_forbidden", "missing")]
    wrong += [error for error in group if error["type"] == "missing" and is_entry(error)][-1:]
    return [error for error in wrong if error["type"] not in _WRONG_KIND] or wrong


def either(messages: Iterable[str]) -> str:
    """One sentence of several about one value; empty without any."""
    # Sorted, because the order of a union depends on which module wrote it first.
    unique = sorted(set(messages))
    return "".join([*unique[:1], *(f", or {other.removeprefix('must be ')}" for other in unique[1:])])


def is_entry(error: Error) -> bool:
    """Whether what is missing is an entry of a list of fixed length."""
    return bool(error["loc"]) and isinstance(error["loc"][-1], int)


def _is_other_alternative(path: Path, group: Sequence[Error], found: Mapping[Path, object]) -> bool:
    deeper = any(len(other) > len(path) and other[: len(path)] == path for other in found)
    return deeper and all(error["type"] in _WRONG_KIND or error["type"] == "too_short" for error in group)
