"""`sightline.proto` as the package `protobuf` knows it, read independently of our writer."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

SCALARS = {"double": 1, "int64": 3, "uint64": 4, "bool": 8, "string": 9, "bytes": 12}
MESSAGE, OPTIONAL, REPEATED = 11, 1, 3


def record_class() -> Any:
    """The class of the message `Record`."""
    file = descriptor_pb2.FileDescriptorProto(name="sightline.proto", package="sightline.v1", syntax="proto3")
    text = files("sightline_plugins.delivery").joinpath("sightline.proto").read_text()
    text = re.sub(r"//.*", "", text)
    for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.MULTILINE | re.DOTALL):
        _add_message(file.message_type.add(name=name), body)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("sightline.v1.Record"))


def _add_message(message: Any, body: str) -> None:
    for oneof, inside, statement in re.findall(r"oneof (\w+) \{(.*?)\}|([^;{}]+);", body, re.DOTALL):
        if oneof:
            message.oneof_decl.add(name=oneof)
            for part in inside.split(";")[:-1]:
                _add_field(message, part.split()).oneof_index = len(message.oneof_decl) - 1
        elif statement.strip():
            _add_field(message, statement.split())
    # What is optional is, in a descriptor, alone in a oneof of its own, behind the real ones.
    for field in message.field:
        if field.proto3_optional:
            message.oneof_decl.add(name=f"_{field.name}")
            field.oneof_index = len(message.oneof_decl) - 1


def _add_field(message: Any, words: list[str]) -> Any:
    label = words.pop(0) if words[0] in ("repeated", "optional") else ""
    kind = words.pop(0)
    if kind == "map<string,":
        value, (name, _, number) = words[0].rstrip(">"), words[1:]
        entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _typed(entry.field.add(name="key", number=1, label=OPTIONAL), "string")
        _typed(entry.field.add(name="value", number=2, label=OPTIONAL), value)
        field = message.field.add(name=name, number=int(number), label=REPEATED, type=MESSAGE)
        field.type_name = f".sightline.v1.{message.name}.{entry.name}"
        return field
    name, _, number = words
    field = message.field.add(name=name, number=int(number), label=REPEATED if label == "repeated" else OPTIONAL)
    field.proto3_optional = label == "optional"
    return _typed(field, kind)


def _typed(field: Any, kind: str) -> Any:
    field.type = SCALARS.get(kind, MESSAGE)
    if field.type == MESSAGE:
        field.type_name = f".sightline.v1.{kind}"
    return field
