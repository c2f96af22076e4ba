"""Non-maximum suppression: the one place that does it. Pure: arrays in, arrays out."""

from sightline_plugins.nms.greedy import suppress, suppress_oriented
from sightline_plugins.nms.methods import Kept, thin_out
from sightline_plugins.nms.options import MAX_CANDIDATES, Decay, Method, NmsOptions
from sightline_plugins.nms.seams import merge_parts

__all__ = [
    "MAX_CANDIDATES",
    "Decay",
    "Kept",
    "Method",
    "NmsOptions",
    "merge_parts",
    "suppress",
    "suppress_oriented",
    "thin_out",
]
