"""Where Sightline keeps what it could make again, such as compiled models."""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "SIGHTLINE_CACHE"


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
