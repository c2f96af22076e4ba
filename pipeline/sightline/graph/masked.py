"""Descriptions as people may see them: without passwords, tokens and what else options hold that is secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from sightline.graph.element import Element
from sightline.graph.fields import is_url, options_of
from sightline.graph.tree import PipelineDescription, Step
from sightline.redaction import redact

MASK = "***"


def masked(part: BaseModel) -> dict[str, Any]:
    """Return the options that were given to a source, a step or a part of one, as plain data.

    Values of options that hold secrets (fields with `repr=False`) are `***`; of URLs only the credentials are.
    """
    plain = part.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for key, field, value in options_of(part):
        if key in plain:
            is_shown = field is None or field.repr
            plain[key] = _masked(value, plain[key]) if is_shown else masked_value(plain[key])
    return {key: _redacted(value) for key, value in plain.items()}


def masked_pipeline(description: PipelineDescription) -> dict[str, Any]:
    """Return a description as plain data in the form of the YAML file, every source and step `masked`."""
    shown = description.to_plain()
    shown["sources"] = {name: plain | masked(description.sources[name]) for name, plain in shown["sources"].items()}
    shown["pipeline"] = _masked_steps(description.steps)
    return shown


def _masked_steps(steps: tuple[Step, ...]) -> list[Any]:
    return [
        _masked_element(step)
        if isinstance(step, Element)
        else {step.name: {name: _masked_steps(branch) for name, branch in step.branches.items()}}
        for step in steps
    ]


def _masked_element(element: Element) -> str | dict[str, Any]:
    options = masked(element)
    return {element.name: options} if options else element.name


def masked_value(value: Any) -> Any:
    """Return what may be shown of an option that holds secrets: its keys, and its URLs, in which credentials are left
    for `redact`.
    """
    if isinstance(value, dict):
        return {name: masked_value(one) for name, one in value.items()}
    if isinstance(value, list):
        return [masked_value(one) for one in value]
    return value if value is None or is_url(str(value)) else MASK


def _masked(value: object, plain: Any) -> Any:
    """Return plain data of a value in which parts have secrets of their own."""
    if isinstance(value, BaseModel):
        return masked(value)
    if isinstance(value, Mapping) and isinstance(plain, dict):
        return {key: _masked(value.get(key), one) for key, one in plain.items()}
    if isinstance(value, tuple | list) and isinstance(plain, list) and len(value) == len(plain):
        return [_masked(*pair) for pair in zip(value, plain, strict=True)]
    return plain


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {redact(key): _redacted(one) for key, one in value.items()}
    return [_redacted(one) for one in value] if isinstance(value, list) else value
