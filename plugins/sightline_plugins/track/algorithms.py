"""The installed trackers as `track` offers them: the options of the one that is named, and a schema of all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError, ValidationError, core_schema

from sightline.graph import Element
from sightline.graph.registry import Extensions
from sightline.graph.tracker import TrackerOptions
from sightline.graph.wording import meant_option, suggest
from sightline.media.time import format_duration

TRACKERS: Mapping[str, type[TrackerOptions]] = Extensions(
    "sightline.trackers",
    accepts=lambda found: isinstance(found, type) and issubclass(found, TrackerOptions),
    kind="tracker",
)
"""Options of all installed trackers, by the name of the algorithm."""


def tracker_options(
    algorithm: str, given: Mapping[str, Any], *, info: ValidationInfo, element: type[Element]
) -> TrackerOptions:
    """Return the options of a tracker from the keys given beside those of the element itself.

    Raises ValidationError, with every mistake at its key.
    """
    if algorithm not in TRACKERS:
        raise ValidationError.from_exception_data("track", [_unknown_algorithm(algorithm)])
    options = TRACKERS[algorithm]
    try:
        return options.model_validate(dict(given), context=info.context)
    except ValidationError as raised:
        own = [key for key in element.model_fields if key not in Element.model_fields]
        known = [*own, *options.model_fields, *Element.model_fields]
        mistakes = [_reworded(error, algorithm, known) for error in raised.errors(include_url=False)]
    raise ValidationError.from_exception_data("track", mistakes)


def _unknown_algorithm(name: str) -> InitErrorDetails:
    near = suggest(name, TRACKERS) or "."
    text = f"there is no tracker {name!r}{near} Installed: {', '.join(TRACKERS)}"
    return InitErrorDetails(type=_error("unknown_tracker", text), loc=("algorithm",), input=name)


def _reworded(error: ErrorDetails, algorithm: str, known: list[str]) -> InitErrorDetails:
    """Return an error as it is, except that of an unknown key: it names the trackers that have it, or the known keys.

    Without this, the keys of all trackers would be offered.
    """
    place, kind = error["loc"], error["type"]
    if kind == "extra_forbidden" and len(place) == 1:
        return InitErrorDetails(type=_unknown_option(str(place[0]), algorithm, known), loc=place, input=error["input"])
    if kind in get_args(core_schema.ErrorType):
        return InitErrorDetails(type=kind, loc=place, input=error["input"], ctx=error.get("ctx", {}))
    return InitErrorDetails(type=_error(kind, error["msg"]), loc=place, input=error["input"])


def _unknown_option(key: str, algorithm: str, known: list[str]) -> PydanticCustomError:
    others = [name for name, options in TRACKERS.items() if key in options.model_fields]
    text = f"there is no such option{meant_option(key, known)} Allowed: {', '.join(known)}"
    if others:
        text = f"is an option of {', '.join(others)}, not of {algorithm}. Allowed: {', '.join(known)}"
    return _error("unknown_tracker_option", text)


def _error(kind: str, text: str) -> PydanticCustomError:
    return PydanticCustomError(kind, "{text}", {"text": text})


def merged_schema(handler: GetJsonSchemaHandler) -> dict[str, JsonSchemaValue]:
    """Return the options of all trackers by key; where trackers differ, the description says which means what."""
    found: dict[str, dict[str, JsonSchemaValue]] = {}
    for name, options in TRACKERS.items():
        described = options.__get_pydantic_json_schema__(options.__pydantic_core_schema__, handler)
        part = handler.resolve_ref_schema(described)
        for key, schema in part["properties"].items():
            found.setdefault(key, {})[name] = schema
    return {key: _merged(schemas) for key, schemas in found.items()}


def _merged(schemas: Mapping[str, JsonSchemaValue]) -> JsonSchemaValue:
    first = next(iter(schemas.values()))
    if len(schemas) == len(TRACKERS) and all(schema == first for schema in schemas.values()):
        return first
    described = _grouped(schemas, "description")
    texts = [f"{_names(names)}: {text}" for text, names in described]
    defaults = _grouped(schemas, "default")
    if len(defaults) > 1:
        texts.append(f"Default: {', '.join(f'{_shown(value, first)} ({_names(names)})' for value, names in defaults)}.")
    return first | {"description": " ".join(texts)}


def _grouped(schemas: Mapping[str, JsonSchemaValue], part: str) -> list[tuple[Any, list[str]]]:
    """Return the different values of a part of these schemas, each with the trackers that have it."""
    values: list[tuple[Any, list[str]]] = []
    for name, schema in schemas.items():
        names = next((names for value, names in values if value == schema.get(part)), None)
        if names is None:
            values.append((schema.get(part), names := []))
        names.append(name)
    return values


def _names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _shown(default: Any, schema: JsonSchemaValue) -> str:
    return format_duration(default) if schema.get("unit") == "duration" else str(default)
