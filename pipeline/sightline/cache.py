"""Folders of this user: the store of models, and what takes long to make and could be made again (compiled models,
facts about files).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TypeVar

VARIABLE = "SIGHTLINE_CACHE"
MODELS_VARIABLE = "SIGHTLINE_MODELS"


def store_folder() -> Path:
    """Return where the store of models is: `$SIGHTLINE_MODELS`, else `$XDG_DATA_HOME/sightline/models`, else
    `~/.local/share/sightline/models`. It need not exist yet.
    """
    if given := os.environ.get(MODELS_VARIABLE):
        return Path(given)
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".local" / "share") / "sightline" / "models"


def cache_folder() -> Path | None:
    """`$SIGHTLINE_CACHE`, else `$XDG_CACHE_HOME/sightline`, else `~/.cache/sightline`; it need not exist yet.

    None when the variable says `off`, and where there is no home folder.
    """
    said = os.environ.get(VARIABLE, "")
    if said.lower() == "off":
        return None
    if said:
        return Path(said)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (base if base.is_absolute() else Path.home() / ".cache") / "sightline"
    except RuntimeError:
        return None


T = TypeVar("T")


def kept(
    name: str, *, read: Callable[[bytes], T | None], make: Callable[[], T], write: Callable[[T], bytes | None]
) -> T:
    """Return what the cache folder keeps under a name (a path below it), else what `make` returns, which is then kept.

    `read` returns None for content that is of no use, and `write` for a value that is not worth keeping. Files appear
    whole (written aside and renamed). Trouble with the folder is ignored.
    """
    folder = cache_folder()
    if folder is None:
        return make()
    file = folder / name
    with suppress(OSError):
        found = read(file.read_bytes())
        if found is not None:
            return found
    made = make()
    content = write(made)
    if content is not None:
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with NamedTemporaryFile(dir=file.parent, prefix=file.name, suffix=".part", delete=False) as aside:
                aside.write(content)
            Path(aside.name).replace(file)
    return made
