"""The form in which images are handed to an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ImageForm:
    """The form in which pre-processing hands images over; the engine folds the rest into the graph.

    The network sees ``(image - mean) * scale``, channel by channel, in the layout and element type that it was
    exported with. So pre-processing may hand over ``uint8`` rows as they come, with ``scale=(1 / 255,)``, and the
    layout change, the conversion and the normalisation cost (nearly) nothing.

    ``mean`` and ``scale`` have one value, or one for each channel in the order of the image's channels.
    ``size_wh`` fixes the image's size for a model whose height and width are dynamic; models of a fixed size
    refuse another one. Channel order (RGB or BGR) is never changed.
    """

    layout: Literal["nhwc", "nchw"] = "nhwc"
    dtype: Literal["uint8", "float32"] = "uint8"
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    size_wh: tuple[int, int] | None = None
