"""Where a model is served: `grpc://HOST:PORT/NAME[/VERSION]` or `http://HOST:PORT/NAME[/VERSION]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, StringConstraints

from sightline.graph.fields import InputPath, is_url

_FORM = r"^(grpc|http)://([^/?#@\s]+:\d{1,5})/([^/?#\s]+)(?:/(\d+))?$"
_HOW = "a served model is written grpc://HOST:PORT/NAME or http://HOST:PORT/NAME, then perhaps /VERSION"


def _told(value: object) -> object:
    if isinstance(value, str) and is_url(value) and re.match(_FORM, value) is None:
        raise ValueError(_HOW)
    return value


ModelSource = Annotated[InputPath | Annotated[str, StringConstraints(pattern=_FORM)], BeforeValidator(_told)]
"""An ONNX file as `InputPath` takes it, or the address of a served model, which stays a `str`."""


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
