"""The data that flows: surfaces, frames, batches, objects, events. No threads, no I/O, nothing that runs."""

from sightline.media.batch import Batch, FrameView
from sightline.media.color import ColorMatrix, ColorRange
from sightline.media.events import Alarm, Arrows, Event, Graphic, HeatLayer, Overlay, Part, Tensor
from sightline.media.frame import Altered, Frame, Stream, TimeSource
from sightline.media.objects import Objects, ObjectView, Origin
from sightline.media.shapes import Mask, Skeleton
from sightline.media.surface import Memory, PixelFormat, Surface
from sightline.media.views import Views

__all__ = [
    "Alarm",
    "Altered",
    "Arrows",
    "Batch",
    "ColorMatrix",
    "ColorRange",
    "Event",
    "Frame",
    "FrameView",
    "Graphic",
    "HeatLayer",
    "Mask",
    "Memory",
    "ObjectView",
    "Objects",
    "Origin",
    "Overlay",
    "Part",
    "PixelFormat",
    "Skeleton",
    "Stream",
    "Surface",
    "Tensor",
    "TimeSource",
    "Views",
]
