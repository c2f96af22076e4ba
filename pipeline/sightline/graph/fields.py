"""Types of fields that elements share: paths, URLs, sizes, patterns of stream names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    StringConstraints,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

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


@dataclass(frozen=True, slots=True)
class Shape:
    """Metadata of a text option whose form a regular expression describes, which editors get; errors say `text`,
    such as "must be step.rule".
    """

    pattern: str
    text: str

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "pattern": f"^(?:{self.pattern})$"}

    def _check(self, value: str) -> str:
        if re.fullmatch(self.pattern, value) is None:
            raise ValueError(f"{self.text}, not {value!r}")
        return value


def matching(patterns: Sequence[str] | None, streams: Iterable[str]) -> tuple[str, ...]:
    """The streams that one of the names or globs means, in their order; all of them when there are no patterns."""
    if patterns is None:
        return tuple(streams)
    return tuple(name for name in streams if any(fnmatchcase(name, pattern) for pattern in patterns))


BASE_FOLDER = "base_folder"
"""Key of the validation context that holds the folder inputs are relative to."""


class PathRole(Enum):
    """What a path in a field is for, so that checks can look at all of them alike."""

    INPUT = "a file that is read"
    INPUT_URI = "a URL, or a file that is read"
    OUTPUT = "a file that is written"


class Reach(Enum):
    """What a value has effects on beside files and servers, so that it can be refused where it is not trusted."""

    CODE = "code that is loaded and run: a Python function, a library, a command"
    LISTENS = "an address at which the pipeline waits for connections"
    MODEL = "a model that is loaded"


def is_there(path: Path) -> bool:
    """Whether something lies at a path; nothing does where no file can have that name (too long)."""
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return True


def is_folder(path: Path) -> bool:
    """Whether a folder lies at a path, as carefully."""
    return is_there(path) and path.is_dir()


_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


def is_url(text: str) -> bool:
    """Whether the text starts with a URL scheme."""
    return _SCHEME.match(text) is not None


STANDARD_STREAM = "-"
"""What stands for standard input where an input is named, and for standard output where an output is."""


def is_file_name(uri: str) -> bool:
    """Whether an input is named by the path of a file: it is no URL, and not standard input."""
    return uri != STANDARD_STREAM and not is_url(uri)


_WITHOUT_HOST = ("udp", "rtp", "tcp", "srt", "postgresql", "postgres")
"""Schemes whose URLs may leave out the host: all interfaces, or a socket in the file system."""
_HOST_AND_PORT = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::(\d{1,9}))?")
_HIGHEST_PORT = 65535


def checked_url(url: str) -> str:
    """The URL itself. Raises ValueError when its host is missing or its port is none."""
    scheme, _, rest = url.partition("://")
    if not is_url(url):  # the text is not shown: it may hold a password
        raise ValueError("an address is written SCHEME://HOST:PORT/PATH, and this one does not begin with SCHEME://")
    if scheme.lower() == "file":
        return url
    found = _HOST_AND_PORT.fullmatch(re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2])
    if found is None or (found[2] and not 1 <= int(found[2]) <= _HIGHEST_PORT):
        raise ValueError(
            f"an address is written {scheme}://HOST:PORT/PATH, with a port from 1 to {_HIGHEST_PORT}; "
            "in a password / is written %2F, ? %3F and # %23"
        )
    if not found[1] and scheme.lower() not in _WITHOUT_HOST:
        raise ValueError(f"the address has no host: write {scheme}://HOST/PATH")
    return url


def _below_base(path: Path, info: ValidationInfo) -> Path:
    context: dict[str, Any] = info.context or {}
    base = context.get(BASE_FOLDER)
    return path if base is None else Path(base) / path


def _url_or_below_base(uri: str, info: ValidationInfo) -> str:
    if is_file_name(uri):
        return str(_below_base(Path(uri), info))
    return checked_url(uri) if is_url(uri) else uri


InputPath = Annotated[Path, AfterValidator(_below_base), PathRole.INPUT]
"""A file that is read: relative to the YAML file, or to the working directory when there is none."""

InputUri = Annotated[str, StringConstraints(min_length=1), AfterValidator(_url_or_below_base), PathRole.INPUT_URI]
"""A URL, a file as `InputPath` takes it, or `-` for standard input."""

OutputPath = Annotated[str, StringConstraints(min_length=1), PathRole.OUTPUT]
"""A file that is written: relative to the working directory; `{stream}` stands for the stream's name."""

Fraction = Annotated[float, Field(ge=0, le=1)]
"""A number from 0 to 1."""


def paths_of(model: BaseModel) -> Iterator[tuple[tuple[str, ...], PathRole, str]]:
    """The paths in the fields of a model, also in those of models in it: YAML keys, what it is for, and the path; lists
    of paths give one each.
    """
    for name, key, role in _roles(type(model)):
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from (((key, *below), inner, path) for below, inner, path in paths_of(value))
        elif role is not None and value is not None:
            for path in value if isinstance(value, tuple | list) else (value,):
                if isinstance(path, Path if role is PathRole.INPUT else str):
                    yield (key,), role, str(path)


def models_of(model: BaseModel) -> Iterator[Path]:
    """The files in the fields of a model that hold a network, also in those of models in it."""
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from models_of(value)
        elif reach_of(field) is Reach.MODEL and isinstance(value, Path):
            yield value


@lru_cache(maxsize=512)
def _roles(model: type[BaseModel]) -> tuple[tuple[str, str, PathRole | None], ...]:
    """Name, YAML key and role of each field. A model's class is complete before there is a model of it."""
    return tuple((name, field.alias or name, role_of(field)) for name, field in model.model_fields.items())


def options_of(model: BaseModel) -> Iterator[tuple[str, FieldInfo | None, object]]:
    """Yield YAML key, field and value of each option; without field those whose names the user chose, such as rules."""
    for name, field in type(model).model_fields.items():
        yield field.alias or name, field, getattr(model, name)
    for name, value in (model.model_extra or {}).items():
        yield name, None, value


def role_of(field: FieldInfo) -> PathRole | None:
    """What the path in a field is for; None when the field holds none."""
    return next((mark for mark in _marks(field.metadata, field.annotation) if isinstance(mark, PathRole)), None)


def reach_of(field: FieldInfo) -> Reach | None:
    """What the value of a field has effects on; None for most."""
    return next((mark for mark in _marks(field.metadata, field.annotation) if isinstance(mark, Reach)), None)


def _marks(metadata: Iterable[object], annotation: object) -> Iterator[object]:
    """Everything that annotations say of a type and, behind that, of its parts."""
    yield from metadata
    for part in get_args(annotation):
        yield from _marks(getattr(part, "__metadata__", ()), part)
