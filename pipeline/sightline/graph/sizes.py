"""Amounts of bytes as people write them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

_UNITS = {"B": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000, "TB": 1_000_000_000_000}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|[kK]B|MB|GB|TB)\s*")


def parse_size(value: object) -> int:
    """Bytes from a size as YAML holds it: `500MB`, `20GB`, or a number of bytes. Raises ValueError when it is none."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = _SIZE.fullmatch(str(value))
    if match is None:
        raise ValueError(f'{value!r} is not a size: write it like "500MB", "20GB", or as a number of bytes')
    return round(float(match[1]) * _UNITS[match[2].replace("K", "k")])


def format_size(size_bytes: int) -> str:
    """The shortest exact way to write a size, such as `20GB`."""
    for unit in ("TB", "GB", "MB", "kB"):
        if size_bytes and size_bytes % _UNITS[unit] == 0:
            return f"{size_bytes // _UNITS[unit]}{unit}"
    return f"{size_bytes}B"


Size = Annotated[
    int,
    BeforeValidator(parse_size),
    PlainSerializer(format_size, return_type=str),
    WithJsonSchema({"type": ["string", "integer"], "unit": "size", "examples": ["500MB", "20GB"]}),
]
"""A field that holds bytes and is written as a size in YAML ("20GB", or a number of bytes)."""
