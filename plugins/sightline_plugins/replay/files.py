"""Reading recordings: one file or the parts of a rotated one, compressed or not."""

from __future__ import annotations

import glob
import zlib
from contextlib import suppress
from pathlib import Path

from sightline.errors import ConfigurationError
from sightline_plugins.sinks.compression import ENDINGS, PART, zstd_module

_GZIP_BITS = 16 + zlib.MAX_WBITS
_GZIP, _ZSTD = ENDINGS["gzip"], ENDINGS["zstd"]
FileState = tuple[Path, int, int, int]
"""A file, its number in the file system, its size in bytes and when it changed last, in nanoseconds."""


def matching_files(path: Path) -> list[Path]:
    """Return the file itself, or in the order of their names those that a pattern (`gate-*.jsonl*`) matches.

    Files that are only being compressed are not among these.
    """
    if not glob.has_magic(str(path)) or path.exists():
        return [path]
    found = [Path(name) for name in glob.glob(str(path))]  # noqa: PTH207
    return sorted(file for file in found if file.suffix != PART and file.is_file())


def state_of_files(path: Path) -> tuple[FileState, ...]:
    """Return the state of the files that `path` stands for, or of those in a folder; of missing files, none."""
    files = sorted(path.iterdir()) if path.is_dir() else matching_files(path)
    states: list[FileState] = []
    for file in files:
        with suppress(OSError):
            found = file.stat()
            states.append((file, found.st_ino, found.st_size, found.st_mtime_ns))
    return tuple(states)


def plain_name(path: Path) -> Path:
    """Return the name that a file has without compression."""
    return path.with_suffix("") if path.suffix.lower() in (_GZIP, _ZSTD) else path


def read_data(path: Path) -> bytes:
    """Return what a file holds, uncompressed. Of a truncated one, return what is there.

    Raises OSError, ConfigurationError for a damaged file, MissingExtra without the package for Zstandard.
    """
    data = path.read_bytes()
    suffix = path.suffix.lower()
    try:
        if suffix == _GZIP:
            return _ungzip(data)
        if suffix == _ZSTD:
            return _unzstd(data)
    except ValueError as error:
        raise ConfigurationError(f"the recording {path} cannot be read: {error}") from error
    return data


def _ungzip(data: bytes) -> bytes:
    parts: list[bytes] = []
    while data:
        decoder = zlib.decompressobj(_GZIP_BITS)
        try:
            parts.append(decoder.decompress(data))
        except zlib.error as error:
            raise ValueError(f"it is damaged: {error}") from error
        data = decoder.unused_data
    return b"".join(parts)


def _unzstd(data: bytes) -> bytes:
    zstd = zstd_module()
    parts: list[bytes] = []
    while data:
        decoder = zstd.ZstdDecompressor()
        try:
            parts.append(decoder.decompress(data))
        except zstd.ZstdError as error:
            raise ValueError(f"it is damaged: {error}") from error
        data = decoder.unused_data
    return b"".join(parts)
