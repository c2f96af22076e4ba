"""Entry points of all installed packages, read once for each path that modules are imported from."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from typing import cast


def installed(group: str) -> EntryPoints:
    """Return the entry points of a group. Nothing is imported.

    The first call reads the metadata of every installed package; later calls are free while `sys.path` is the same.
    """
    return _of_group(group, tuple(sys.path))


@lru_cache(maxsize=64)
def _of_group(group: str, path: tuple[str, ...]) -> EntryPoints:
    return _all_installed(path).select(group=group)


@lru_cache(maxsize=1)
def _all_installed(path: tuple[str, ...]) -> EntryPoints:
    del path
    return cast("EntryPoints", entry_points())
