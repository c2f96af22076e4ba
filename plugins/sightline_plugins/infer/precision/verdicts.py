"""What was measured once, kept in the cache folder: `auto` decides alike at every start, and at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from sightline.cache import cache_folder
from sightline_plugins.engines.cache import key_digest


def measured_once(
    key: Mapping[str, Any], *, count: int, measure: Callable[[], Sequence[float]], for_processor: bool = True
) -> Sequence[float]:
    """The `count` times that belong to a key: those of before, else they are measured now and kept.

    Those `for_processor` count for processors like this machine's alone. Trouble with the folder harms nothing.
    """
    folder = cache_folder()
    if folder is None:
        return measure()
    file = folder / "precision" / f"{key_digest(key, for_processor=for_processor)}.json"
    known = _read(file, count=count)
    if known is not None:
        return known
    measured = measure()
    _write(file, measured)
    return measured


def _read(file: Path, *, count: int) -> list[float] | None:
    """What was measured; None when nothing was, or the file is damaged."""
    try:
        known = msgspec.json.decode(file.read_bytes(), type=list[float])
    except (OSError, msgspec.DecodeError):
        return None
    return known if len(known) == count and all(one > 0 for one in known) else None


def _write(file: Path, measured: Sequence[float]) -> None:
    """Keep what was measured; where that is not possible it is measured again."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        aside = file.with_suffix(".part")
        aside.write_bytes(msgspec.json.encode(list(measured)))
        aside.replace(file)
