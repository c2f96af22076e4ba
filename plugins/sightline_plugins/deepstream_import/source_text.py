"""Read a configuration file as text, whatever its encoding, and name the place of each value in it.

DeepStream reads UTF-8. Files that were edited on Windows also come as UTF-16 or with a byte order mark, and older ones
in Latin-1. All of them are read; Latin-1 is reported, because it is assumed and not known.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path

from sightline.errors import ConfigurationError

MAX_BYTES = 1_000_000
"""Largest configuration that is read; those of a thousand cameras have a fifth of it."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""Byte order marks; those of UTF-32 go before those of UTF-16, with which they begin."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line of a file, from 1; 0 is the file as a whole."""

    file: Path
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else str(self.file)

    def error(self, message: str) -> ConfigurationError:
        """Return the error of a mistake that stands here."""
        return ConfigurationError(f"{self}: {message}")


def is_file(path: Path) -> bool:
    """Return whether a file is there that can be read; a name that no file system takes is none."""
    try:
        return path.is_file()
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class SourceText:
    """The text of a file; `encoding` is the one that was assumed where the file does not tell it, else None."""

    path: Path
    text: str
    assumed_encoding: str | None = None


def read_source_text(path: Path) -> SourceText:
    """Return the text of a file. Raises ConfigurationError for one that is missing, too large, or no text."""
    try:
        if path.is_dir():
            raise ConfigurationError(f"{path} is a folder: give the configuration file in it")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ConfigurationError(
                f"{path} has {size} bytes: configurations of up to {MAX_BYTES} are read. Is it a model or a video?"
            )
        data = path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    return _decoded(path, data)


def _decoded(path: Path, data: bytes) -> SourceText:
    mark = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)
    try:
        if mark is not None:
            return SourceText(path, data.decode(mark))
        if b"\0" in data:
            raise ConfigurationError(f"{path} is no text: a configuration of DeepStream is expected")
        return SourceText(path, data.decode("utf-8"))
    except UnicodeDecodeError as error:
        if mark is not None:
            raise ConfigurationError(
                f"{path} begins as {mark.upper()} and is no such text: save it as UTF-8"
            ) from error
        return SourceText(path, data.decode("latin-1"), assumed_encoding="Latin-1")
