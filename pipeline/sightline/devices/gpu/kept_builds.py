"""Compiled kernels, kept between runs, each in a file that is named after everything that went into it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

from sightline.cache import cache_folder


def builds_folder() -> Path | None:
    """Where compiled kernels are kept: `kernels/` of the cache folder. None when nothing is."""
    folder = cache_folder()
    return None if folder is None else folder / "kernels"


def build_name(*facts: str, suffix: str) -> str:
    """The name of the file that belongs to these facts."""
    return hashlib.sha256("\0".join(facts).encode()).hexdigest() + suffix


def kept_build(name: str) -> bytes | None:
    """What is kept under that name, if anything is."""
    folder = builds_folder()
    if folder is None:
        return None
    try:
        return (folder / name).read_bytes() or None
    except OSError:
        return None


def keep_build(name: str, content: bytes) -> None:
    """Keep it, if there is a place to; the file appears whole. A folder that cannot be written to harms nothing."""
    folder = builds_folder()
    if folder is None:
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, aside = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(aside).replace(folder / name)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise
