"""Field types that elements share: paths that know what they are relative to, names, fractions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints, ValidationInfo

BASE_FOLDER = "base_folder"
"""Key of the validation context that holds the folder inputs are relative to."""

_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+://")


def is_url(text: str) -> bool:
    """Whether the text starts with a URL scheme."""
    return _SCHEME.match(text) is not None


def _below_base(path: Path, info: ValidationInfo) -> Path:
    context: dict[str, Any] = info.context or {}
    base = context.get(BASE_FOLDER)
    return path if base is None else Path(base) / path


def _url_or_below_base(uri: str, info: ValidationInfo) -> str:
    return uri if is_url(uri) else str(_below_base(Path(uri), info))


InputPath = Annotated[Path, AfterValidator(_below_base)]
"""A file that is read: relative to the YAML file, or to the working directory when there is none."""

InputUri = Annotated[str, StringConstraints(min_length=1), AfterValidator(_url_or_below_base)]
"""A URL, or a file as `InputPath` takes it."""

OutputPath = Annotated[str, StringConstraints(min_length=1)]
"""A file that is written: relative to the working directory; `{stream}` stands for the stream's name."""

Fraction = Annotated[float, Field(ge=0, le=1)]
"""A number from 0 to 1."""
