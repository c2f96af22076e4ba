"""Where a model is: a file, a name of the catalogue or of the store, or an address where it is served.

A model of the store is `store:NAME` or `store:NAME@VERSION`. An address is `grpc://HOST:PORT/NAME[/VERSION]` or `http://HOST:PORT/NAME[/VERSION]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, StringConstraints, ValidationInfo

from sightline.errors import ConfigurationError, ModelError
from sightline.graph.fields import BASE_FOLDER, InputPath, Reach, is_there, is_url
from sightline.graph.wording import suggest
from sightline_plugins.store.record import ENCODER_TASK, SCHEME

_FORM = r"^(grpc|http)://([^/?#@\s]+:\d{1,5})/([^/?#\s]+)(?:/(\d+))?$"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
"""What names in the catalogue look like: no dot and no slash, so no path of an ONNX file is one."""
_HOW = "a served model is written grpc://HOST:PORT/NAME or http://HOST:PORT/NAME, then perhaps /VERSION"


def file_of_name(text: str, *, base: Path | None = None) -> Path | None:
    """Return the file of a model that is named: `store:plates@2`, or `yolox-nano` of the catalogue; None for a path.

    A file of that name, relative to `base`, goes before the catalogue. Raises ValueError for a model that is not on
    this machine, with the command that brings it, for one that is damaged, and for a name that is nearly one of the
    catalogue.
    """
    if text.startswith(SCHEME):
        return _stored(text)
    if _NAME.fullmatch(text) is None or is_there((base or Path()) / text):
        return None
    from sightline_plugins.catalogue import entry_names, pulled

    names = entry_names()
    if text in names:
        path = pulled(text)
        if path is None:
            raise ValueError(f"{text} is in the catalogue, but not on this machine: run `sightline models pull {text}`")
        return path
    near = suggest(text, names)
    if near:
        raise ValueError(f"there is no file {text!r}, and no model of that name in the catalogue{near}")
    return None


def _stored(text: str) -> Path:
    from sightline_plugins.store import Store

    try:
        stored = Store().usable(text)
        if stored.record.task == ENCODER_TASK:
            raise ModelError(f"{stored.reference} is a pair of encoders: it is used with `{stored.record.usage}`")
        return stored.model
    except (ConfigurationError, ModelError) as error:
        raise ValueError(str(error)) from error


def _found(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    if is_url(value):
        if re.match(_FORM, value) is None:
            raise ValueError(_HOW)
        return value
    return file_of_name(value, base=(info.context or {}).get(BASE_FOLDER)) or value


ModelSource = Annotated[
    InputPath | Annotated[str, StringConstraints(pattern=_FORM)], BeforeValidator(_found), Reach.MODEL
]
"""An ONNX file as `InputPath` takes it, a name of the catalogue or of the store, which becomes the path of its file, or
the address of a served model, which stays a `str`."""


@dataclass(frozen=True, slots=True)
class Address:
    """The parts of an address. `version` is empty where the server chooses."""

    protocol: Literal["grpc", "http"]
    server: str
    name: str
    version: str

    def __str__(self) -> str:
        return "/".join((f"{self.protocol}://{self.server}", self.name, *([self.version] if self.version else [])))


def address_of(model: str | Path | bytes) -> Address | None:
    """The address that `model` is; None for a file. Raises ValueError for another URL."""
    if not isinstance(model, str) or not is_url(model):
        return None
    found = re.match(_FORM, model)
    if found is None:
        raise ValueError(_HOW)
    return Address("grpc" if found[1] == "grpc" else "http", found[2], found[3], found[4] or "")
