"""Every value of a pipeline with its origin: the file, the environment, the command line, a card, or a default."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from sightline.config.checks import Hide, placed
from sightline.config.document import Key, Node, Place, Scalar, Table, leaves, walk
from sightline.config.load import load
from sightline.graph.chosen import ChoosesValues
from sightline.graph.element import Element
from sightline.graph.masked import masked_value
from sightline.graph.source import SourceElement
from sightline.graph.tree import PipelineDescription, identify
from sightline.redaction import redact

DEFAULT = "default"
_ELSEWHERE = ("sources", "sources_file", "steps", "batch", "outbox", "processes", "telemetry", "cluster")


@dataclass(frozen=True, slots=True)
class ExplainedValue:
    """The value of an option, as text, and where it comes from."""

    name: str
    value: str
    origin: str


@dataclass(frozen=True, slots=True)
class ExplainedPart:
    """A part of a pipeline (the pipeline itself, a stream, a step) and its values, in the order of the reference."""

    title: str
    values: tuple[ExplainedValue, ...]


def explain(
    path: Path, *, sources: Sequence[str] = (), overrides: Sequence[str] = (), device: str | None = None
) -> list[ExplainedPart]:
    """Return every value that a pipeline would run with. Arguments and errors are those of `load_description`.

    Values from the environment are shown as the names of their variables. Passwords in URLs are left out, and so are
    the values of options that hold secrets.
    """
    loaded = load(path, sources=sources, overrides=overrides, device=device)
    description, root = loaded.description, loaded.root
    parts = [ExplainedPart("pipeline", tuple(_pipeline(description, root, loaded.hide)))]
    for name, source in description.sources.items():
        node = _below(root, ("sources", name))
        parts.append(ExplainedPart(f"source {name}: {source.name}", tuple(_described(source, node, loaded.hide))))
    for (identity, _), (key, element) in zip(identify(description.steps), placed(description.steps), strict=True):
        title = identity if identity.startswith(element.name) else f"{identity}: {element.name}"
        where = " in " + ".".join(map(str, key[2:-2])) if len(key) > 3 else ""
        values = _described(element, _below(root, key), loaded.hide)
        parts.append(ExplainedPart(f"step {title}{where}", tuple(values)))
    return parts


def _below(root: Table, key: Key) -> Node | None:
    """Return the node at a key path, None where the file has nothing there (a step that is only a name)."""
    path, node, _ = list(walk(root, key))[-1]
    return node if len(path) == len(key) else None


def _pipeline(description: PipelineDescription, root: Table, hide: Hide) -> Iterator[ExplainedValue]:
    from sightline.devices import choose_device

    for name in type(description).model_fields:
        if name not in _ELSEWHERE:
            node = root.entries[name].node if name in root.entries else None
            yield _value(name, getattr(description, name), node, hide)
    choice = choose_device(description.device)
    yield ExplainedValue("runs on", str(choice), choice.reason)
    sections: list[tuple[str, BaseModel]] = [("batch", description.batch), ("outbox", description.outbox)]
    sections.append(("processes", description.processes))
    if description.telemetry is not None:
        sections.append(("telemetry", description.telemetry))
    if description.cluster is not None:
        sections.append(("cluster", description.cluster))
    for name, options in sections:
        given = root.entries[name].node if name in root.entries else None
        for value in _described(options, given, hide):
            yield ExplainedValue(f"{name}.{value.name}", value.value, value.origin)


def _described(part: Element | SourceElement | BaseModel, node: Node | None, hide: Hide) -> Iterator[ExplainedValue]:
    plain = part.model_dump(mode="json", by_alias=True)
    secret = {field.alias or name for name, field in type(part).model_fields.items() if not field.repr}
    plain |= {name: masked_value(plain[name]) for name in secret}
    given = _given(part, node)
    chosen = dict(part.chosen_values()) if isinstance(part, ChoosesValues) else {}
    names = [field.alias or name for name, field in type(part).model_fields.items()]
    of_all = set(SourceElement.model_fields if isinstance(part, SourceElement) else Element.model_fields)
    for name in sorted(dict.fromkeys([*names, *plain, *chosen]), key=lambda name: name in of_all):
        if name in given or name not in chosen:
            yield _value(name, plain.get(name), given.get(name), hide)
        else:
            yield ExplainedValue(name, _shown(chosen[name].value), chosen[name].origin)


def _given(part: BaseModel, node: Node | None) -> dict[str, Node]:
    """Return what the file gives for each option, also in its short forms: `jsonl: out.jsonl`, `gate: gate.mp4`."""
    if isinstance(node, Table):
        found = {name: entry.node for name, entry in node.entries.items()}
        if isinstance(part, SourceElement) and part.name in found and "uri" not in found:
            found.setdefault("uri", found[part.name])
        return found
    if node is None or (isinstance(node, Scalar) and node.value is None):
        return {}
    short = part.scalar if isinstance(part, Element) else "uri"
    return {} if short is None else {short: node}


def _value(name: str, value: Any, node: Node | None, hide: Hide) -> ExplainedValue:
    if node is None:
        return ExplainedValue(name, _shown(value), DEFAULT)
    scalars = list(leaves(node))
    variables = tuple(dict.fromkeys(variable for scalar in scalars for variable in scalar.variables))
    origins = _places([scalar.place for scalar in scalars] or [node.place])
    if variables:
        origins.append(f"environment {', '.join(variables)}")
    return ExplainedValue(name, hide(_shown(value), certain=variables), ", ".join(origins))


def _places(places: Sequence[Place]) -> list[str]:
    """Return the places of a value as texts; the lines of a file as a range, such as `street.yaml:4-6`."""
    files: dict[str, list[int]] = {}
    for place in places:
        files.setdefault(place.file, []).append(place.line)
    texts = []
    for file, lines in files.items():
        first, last = min(lines), max(lines)
        texts.append(f"{file}:{first}-{last}" if last > first else f"{file}:{first}" if first else file)
    return texts


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return redact(os.path.normpath(value) if value.startswith("/") else value)
    return redact(json.dumps(value, ensure_ascii=False, default=str))


def as_json(parts: Sequence[ExplainedPart]) -> list[dict[str, str]]:
    """Return the values as flat records: `part`, `option`, `value`, `origin`."""
    return [
        {"part": part.title, "option": value.name, "value": value.value, "origin": value.origin}
        for part in parts
        for value in part.values
    ]
