"""Options that several kinds of source share, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sightline_plugins.decode.orientation import Orientation

Rotation = Literal["auto", 0, 90, 180, 270]


def asked_orientation(rotate: Rotation) -> Orientation | None:
    """Which way up images are to be with that `rotate` option; None: as their metadata says."""
    from sightline_plugins.decode.orientation import orientation_from_degrees

    return None if rotate == "auto" else orientation_from_degrees(rotate)


def passes_of(loop: bool | int) -> int | None:
    """How often an input is read with that `loop` option; None for ever."""
    if isinstance(loop, bool):
        return None if loop else 1
    return loop
