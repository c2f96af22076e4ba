"""JSON Schema of the YAML file, built from what is installed: editors complete and check with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from sightline.config.reference import ForgivingJsonSchema, purpose_of
from sightline.errors import ConfigurationError
from sightline.graph.element import Element
from sightline.graph.registry import Registry
from sightline.graph.source import SourceElement
from sightline.graph.tree import BatchOptions, Parallel, PipelineDescription, Tee

Schema = dict[str, Any]
_Described = TypeVar("_Described", Element, SourceElement)


def json_schema(registry: Registry) -> Schema:
    """The schema of a whole file. Elements that cannot be loaded are left out."""
    elements = _loaded(registry.element_names, registry.element)
    sources = _loaded(registry.source_names, registry.source)
    models: list[type[BaseModel]] = [*elements, *sources, BatchOptions]
    references, definitions = models_json_schema(
        [(model, "validation") for model in models], by_alias=True, schema_generator=ForgivingJsonSchema
    )
    of_model = {model: references[model, "validation"] for model in models}
    head = PipelineDescription.model_json_schema(by_alias=True, schema_generator=ForgivingJsonSchema)["properties"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sightline pipeline",
        "type": "object",
        "additionalProperties": False,
        "required": ["pipeline"],
        "anyOf": [{"required": [name]} for name in ("sources", "sources_file", "keep_running")],
        "properties": {
            "name": head["name"],
            "device": head["device"],
            "sources": {
                "description": "Streams by name.",
                "type": "object",
                "additionalProperties": {"$ref": "#/$defs/Source"},
            },
            "sources_file": {
                "type": "string",
                "minLength": 1,
                "description": "A YAML file with more streams by name, which come and go as it changes.",
            },
            "keep_running": head["keep_running"],
            "batch": of_model[BatchOptions],
            "pipeline": {"$ref": "#/$defs/Steps", "description": "What is done with each batch, in order."},
        },
        "$defs": {
            **definitions.get("$defs", {}),
            "Source": _source(sources, of_model),
            "Step": _step(elements, of_model),
            "Steps": {"type": "array", "items": {"$ref": "#/$defs/Step"}},
            "Branches": {"type": "object", "additionalProperties": {"$ref": "#/$defs/Steps"}, "minProperties": 1},
        },
    }


def _loaded(names: Sequence[str], load: Callable[[str], type[_Described]]) -> list[type[_Described]]:
    found: list[type[_Described]] = []
    for name in names:
        try:
            found.append(load(name))
        except ConfigurationError:
            continue
    return found


def _source(sources: list[type[SourceElement]], of_model: dict[type[BaseModel], Schema]) -> Schema:
    uri = {"type": "string", "minLength": 1, "description": "A file, folder, glob or URL."}
    return {"anyOf": [uri, *(of_model[source] for source in sources)]}


def _step(elements: list[type[Element]], of_model: dict[type[BaseModel], Schema]) -> Schema:
    options: Schema = {element.name: _options(element, of_model[element]) for element in elements}
    for structure in (Tee, Parallel):
        options[structure.name] = {"$ref": "#/$defs/Branches", "description": _first_line(structure)}
    mapping = {
        "type": "object",
        "properties": options,
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    bare = {"enum": [element.name for element in elements if not _has_required(element)]}
    return {"anyOf": [bare, mapping]}


def _options(element: type[Element], reference: Schema) -> Schema:
    alternatives: list[Schema] = [reference]
    if not _has_required(element):
        alternatives.append({"type": "null"})
    if element.scalar is not None:
        alternatives.append({"not": {"type": ["object", "null"]}})
    return {"description": purpose_of(element), "anyOf": alternatives}


def _has_required(element: type[Element]) -> bool:
    return any(field.is_required() for field in element.model_fields.values())


def _first_line(structure: type[BaseModel]) -> str:
    return (structure.__doc__ or "").strip().split("\n")[0]
