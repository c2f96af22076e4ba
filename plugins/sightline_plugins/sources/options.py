"""Options that several kinds of source share, and what they mean."""

from __future__ import annotations

from typing import Literal

Rotation = Literal["auto", 0, 90, 180, 270]

DEFAULT_MAX_PIXELS = 8192 * 4320


def clockwise_degrees(rotation: Rotation) -> int | None:
    """The turn asked for; None for the one that the metadata says."""
    return None if rotation == "auto" else rotation


def passes_of(loop: bool | int) -> int | None:
    """How often an input is read with that `loop` option; None for ever."""
    if isinstance(loop, bool):
        return None if loop else 1
    return loop
