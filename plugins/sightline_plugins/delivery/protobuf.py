"""A writer of Protocol Buffers for `sightline.proto`, whose numbers it reads from that file.

Our own because the package `protobuf` would have to be of the version that generated its code, and other packages in
the same environment ask for others. A test has the package decode what this writes.
The wire format is that of protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_WIRE = {"int64": _VARINT, "uint64": _VARINT, "bool": _VARINT, "double": _FIXED64}
_MESSAGE = re.compile(r"message (\w+) \{")
_FIELD = re.compile(r"(?:(repeated|optional) )?(?:map<string, (\w+)>|(\w+)) (\w+) = (\d+);")


class Field(NamedTuple):
    """One field of a message: its number, type, and whether it holds several values, perhaps by name."""

    number: int
    type: str
    is_repeated: bool
    is_map: bool


@lru_cache(maxsize=1)
def messages() -> Mapping[str, Mapping[str, Field]]:
    """The messages of `sightline.proto` with their fields by name."""
    found: dict[str, dict[str, Field]] = {}
    own: dict[str, Field] = {}
    for line in files("sightline_plugins.delivery").joinpath("sightline.proto").read_text("utf-8").splitlines():
        if message := _MESSAGE.match(line):
            own = found[message[1]] = {}
        elif field := _FIELD.fullmatch(line.strip()):
            label, of_map, of_field, name, number = field.groups()
            own[name] = Field(int(number), of_map or of_field, label == "repeated", of_map is not None)
    return found


def write(message: str, values: Mapping[str, Any]) -> bytes:
    """Encode the values of a message by the names of its fields; None is left out. Raises KeyError for other names."""
    fields = messages()[message]
    return b"".join(part for name, value in values.items() if value is not None for part in _parts(fields[name], value))


def _parts(field: Field, value: Any) -> Iterable[bytes]:
    if field.is_map:
        for key, one in value.items():
            entry = _tagged(1, "string", key) + _tagged(2, field.type, one)
            yield _tagged(field.number, "bytes", entry)
    elif field.is_repeated and field.type in _WIRE:
        yield _tagged(field.number, "bytes", b"".join(_scalar(field.type, _number(one)) for one in value))
    else:
        for one in value if field.is_repeated else (value,):
            yield _tagged(field.number, field.type, one)


def _tagged(number: int, of_type: str, value: Any) -> bytes:
    wire = _WIRE.get(of_type, _BYTES)
    tag = _varint(number << 3 | wire)
    if wire != _BYTES:
        return tag + _scalar(of_type, value)
    data: bytes
    if of_type == "string":
        data = value.encode()
    else:
        data = value if of_type == "bytes" else write(of_type, _as_message(of_type, value))
    return b"%b%b%b" % (tag, _varint(len(data)), data)


def _as_message(of_type: str, value: Any) -> Mapping[str, Any]:
    """The fields of a message: those given, or for messages that only wrap something the one that holds it."""
    if of_type == "Value":
        return {_kind_of_value(value): value}
    if messages()[of_type].keys() == {"values"}:
        return {"values": value or ()}
    fields: Mapping[str, Any] = value
    return fields


def _kind_of_value(value: object) -> str:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "text" if isinstance(value, str) else "texts"


def _scalar(of_type: str, value: Any) -> bytes:
    return struct.pack("<d", value) if of_type == "double" else _varint(int(value) & 0xFFFF_FFFF_FFFF_FFFF)


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)
