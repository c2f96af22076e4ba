"""The JSON Schema of a configuration, and the reference page of each element."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from sightline.errors import ConfigurationError
from sightline.graph.cluster import ClusterSettings
from sightline.graph.element import CHANGES_LIVE_KEY, Element
from sightline.graph.fields import PathRole, format_size, role_of
from sightline.graph.registry import Registry
from sightline.graph.source import SourceElement
from sightline.graph.telemetry import TelemetryOptions
from sightline.graph.tree import BatchOptions, OutboxOptions, Parallel, PipelineDescription, ProcessOptions, Tee
from sightline.graph.wording import ForgivingJsonSchema
from sightline.media.time import format_duration

Described: TypeAlias = type[Element] | type[SourceElement]
Schema: TypeAlias = Mapping[str, Any]

_FENCE = re.compile(r"```ya?ml\n(?P<example>.*?)```\n?", re.DOTALL)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s")
_LAST = ("id", "streams", "on_error", "realtime")
_UNITS = {"duration": format_duration, "size": format_size}
_DEEPEST = 3
_ROLES = {PathRole.INPUT: "file", PathRole.INPUT_URI: "file or URL", PathRole.OUTPUT: "output file"}


@dataclass(frozen=True, slots=True)
class OptionPage:
    """One option: its key (dotted below mappings), type with limits and unit, default (empty for none), meaning, and
    whether it changes while the pipeline runs, without the step being built anew.
    """

    key: str
    type: str
    default: str
    required: bool
    meaning: str
    changes_live: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Everything an element or source says of itself. `example` is YAML; `text` is what follows the purpose."""

    name: str
    purpose: str
    text: str
    example: str
    needs: tuple[str, ...]
    gives: tuple[str, ...]
    options: tuple[OptionPage, ...]


def page_of(described: Described) -> Page:
    """The page of an element or of a kind of source."""
    documented = inspect.cleandoc(described.__doc__ or "")
    fence = _FENCE.search(documented)
    text = _FENCE.sub("", documented).strip()
    purpose = purpose_of(described)
    element = described if issubclass(described, Element) else None
    return Page(
        name=described.name,
        purpose=purpose,
        text=text[len(_SENTENCE_END.split(text)[0]) :].strip(),
        example=fence["example"].rstrip() if fence else "",
        needs=tuple(sorted(element.needs)) if element else (),
        gives=tuple(sorted(element.gives)) if element else (),
        options=tuple(_options(described)),
    )


def purpose_of(described: Described) -> str:
    """The first sentence of the docstring, on one line."""
    text = inspect.cleandoc(described.__doc__ or "").split("\n\n")[0]
    return " ".join(_SENTENCE_END.split(text)[0].split())


def _options(described: type[BaseModel]) -> Iterator[OptionPage]:
    schema = described.model_json_schema(by_alias=True, schema_generator=ForgivingJsonSchema)
    roles = {field.alias or name: role_of(field) for name, field in described.model_fields.items()}
    for page in sorted(_rows(schema, schema.get("$defs", {}), "", 1), key=lambda row: row.key in _LAST):
        role = roles.get(page.key)
        if role is None:
            yield page
        else:
            named = page.type.replace("file" if "file" in page.type else "string", _ROLES[role], 1)
            yield replace(page, type=named)


def _rows(schema: Schema, definitions: Schema, prefix: str, depth: int) -> Iterator[OptionPage]:
    required = schema.get("required", ())
    for name, described in schema.get("properties", {}).items():
        if prefix and name in _LAST:
            continue  # of a step within a step, such as `video` in `tile`: they are those of the outer one
        yield _row(f"{prefix}{name}", described, definitions, required=name in required)
        yield from _rows_below(described, definitions, f"{prefix}{name}.", depth)
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping) and depth <= _DEEPEST:
        yield from _rows_below(others, definitions, f"{prefix}NAME.", depth)


def _rows_below(schema: Schema, definitions: Schema, prefix: str, depth: int) -> Iterator[OptionPage]:
    """Yield the options below one; they change live where that does."""
    rows = _inner_rows(schema, definitions, prefix, depth)
    yield from (replace(row, changes_live=True) for row in rows) if schema.get(CHANGES_LIVE_KEY) else rows


def _inner_rows(schema: Schema, definitions: Schema, prefix: str, depth: int) -> Iterator[OptionPage]:
    if depth > _DEEPEST:
        return
    for alternative in schema.get("anyOf", (schema,)):
        inner = _resolved(alternative, definitions)
        if "properties" in inner or isinstance(inner.get("additionalProperties"), Mapping):
            yield from _rows(inner, definitions, prefix, depth + 1)


def _row(key: str, schema: Schema, definitions: Schema, *, required: bool) -> OptionPage:
    default = schema.get("default")
    written = _UNITS.get(str(schema.get("unit")))
    if written is not None and isinstance(default, int):
        default = written(default)
    shown = "" if default is None else default if isinstance(default, str) else json.dumps(default)
    meaning = " ".join(str(schema.get("description", "")).split())
    return OptionPage(key, type_text(schema, definitions), shown, required, meaning, bool(schema.get(CHANGES_LIVE_KEY)))


def type_text(schema: Schema, definitions: Schema) -> str:
    """A JSON Schema type in a few words: `number 0..1`, `letterbox | stretch`, `list of strings`."""
    schema = _resolved(schema, definitions)
    if "anyOf" in schema or "oneOf" in schema:
        alternatives = schema.get("anyOf") or schema.get("oneOf") or ()
        words = [type_text(one, definitions) for one in alternatives if one.get("type") != "null"]
        return (
            " | ".join(sorted(set(words))) or "nothing"
        )  # the order of a union depends on which module wrote it first
    if "enum" in schema or "const" in schema:
        return " | ".join(str(word) for word in schema.get("enum", [schema.get("const")]))
    if "unit" in schema:
        return str(schema["unit"])
    kind = schema.get("type")
    if kind == "array":
        return _list_text(schema, definitions)
    if kind == "object":
        others = schema.get("additionalProperties")
        below = type_text(others, definitions) if isinstance(others, Mapping) else "options"
        return "options" if "properties" in schema else f"NAME: {below}"
    if schema.get("format") == "path":
        return "file"
    names = {"integer": "integer", "number": "number", "boolean": "true | false", "string": "string"}
    return names.get(str(kind), "anything") + _limits(schema)


def _list_text(schema: Schema, definitions: Schema) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(type_text(item, definitions) for item in schema['prefixItems'])}]"
    return f"list of {type_text(schema.get('items', {}), definitions)}"


def _limits(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f" {low:g}..{high:g}"
    signs = (("minimum", ">="), ("exclusiveMinimum", ">"), ("maximum", "<="), ("exclusiveMaximum", "<"))
    return "".join(f" {sign} {schema[name]:g}" for name, sign in signs if schema.get(name) is not None)


def _resolved(schema: Schema, definitions: Schema) -> Schema:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    return {**definitions[str(reference).rpartition("/")[2]], **{k: v for k, v in schema.items() if k != "$ref"}}


SCHEMA_FILE = "sightline.schema.json"
"""The name of the schema beside pipelines that commands write."""
SCHEMA_LINE = f"# yaml-language-server: $schema={SCHEMA_FILE}\n"
"""The first line of these pipelines, by which editors find it."""
SchemaSchema = dict[str, Any]
_Described = TypeVar("_Described", Element, SourceElement)


def json_schema(registry: Registry) -> SchemaSchema:
    """The schema of a whole file. Elements that cannot be loaded are left out."""
    elements = _loaded(registry.element_names, registry.element)
    sources = _loaded(registry.source_names, registry.source)
    options = (BatchOptions, OutboxOptions, ProcessOptions, TelemetryOptions, ClusterSettings)
    models: list[type[BaseModel]] = [*elements, *sources, *options]
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
            "overwrite": head["overwrite"],
            "batch": of_model[BatchOptions],
            "outbox": of_model[OutboxOptions],
            "state": head["state"],
            "processes": {
                "description": "In how many processes it runs: a number, `auto`, or options.",
                "anyOf": [{"type": "integer", "minimum": 1}, {"const": "auto"}, of_model[ProcessOptions]],
            },
            "telemetry": of_model[TelemetryOptions],
            "cluster": of_model[ClusterSettings],
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


def _source(sources: list[type[SourceElement]], of_model: dict[type[BaseModel], SchemaSchema]) -> SchemaSchema:
    uri = {"type": "string", "minLength": 1, "description": "A file, folder, glob or URL."}
    return {"anyOf": [uri, *(of_model[source] for source in sources)]}


def _step(elements: list[type[Element]], of_model: dict[type[BaseModel], SchemaSchema]) -> SchemaSchema:
    options: SchemaSchema = {element.name: _options_schema(element, of_model[element]) for element in elements}
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


def _options_schema(element: type[Element], reference: SchemaSchema) -> SchemaSchema:
    alternatives: list[SchemaSchema] = [reference]
    if not _has_required(element):
        alternatives.append({"type": "null"})
    if element.scalar is not None:
        alternatives.append({"not": {"type": ["object", "null"]}})
    return {"description": purpose_of(element), "anyOf": alternatives}


def _has_required(element: type[Element]) -> bool:
    return any(field.is_required() for field in element.model_fields.values())


def _first_line(structure: type[BaseModel]) -> str:
    return (structure.__doc__ or "").strip().split("\n")[0]
