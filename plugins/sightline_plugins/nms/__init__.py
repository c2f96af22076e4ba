"""Non-maximum suppression: the one place that does it. Pure: arrays in, arrays out."""

from __future__ import annotations

from sightline_plugins.nms.cpu import (
    MAX_CANDIDATES,
    Decay,
    Kept,
    Method,
    NmsOptions,
    suppress,
    suppress_by_method,
    suppress_oriented,
)
from sightline_plugins.nms.seams import merge_parts

__all__ = [
    "MAX_CANDIDATES",
    "Decay",
    "Kept",
    "Method",
    "NmsOptions",
    "merge_parts",
    "suppress",
    "suppress_by_method",
    "suppress_oriented",
]
