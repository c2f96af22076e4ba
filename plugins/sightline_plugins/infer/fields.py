"""Field types that model cards and model elements share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from sightline.graph.described import Described
from sightline.graph.fields import Shape
from sightline.media.objects import STRUCTURES


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _one_or_three(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(values) not in (1, 3):
        raise ValueError(f"give one value, or three (one for each channel), not {len(values)}")
    return values


def _free(name: str) -> str:
    if name in _TAKEN:
        raise ValueError(f"{name!r} is a column of every table of objects: choose another name for the attribute")
    return name


_TAKEN = STRUCTURES | {"frame", "xyxy", "confidence", "class_id", "track_id", "parent", "origin", "label"}

AttributeName = Annotated[
    str,
    Shape(r"[A-Za-z][A-Za-z0-9_-]{0,63}", "must begin with a letter, and hold letters, digits, - and _ (at most 64)"),
    AfterValidator(_free),
]
"""Name of an attribute of objects."""
AttributeLabels = Annotated[Mapping[AttributeName, tuple[str, ...]], Field(min_length=1)]
"""Labels by attribute, for a classifier with several outputs."""
Edge = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]
"""Two keypoints that a line connects, by number from 0."""
Fit = Literal["letterbox", "stretch", "expand", "cover", "height", "native"]
Align = Literal["center", "top_left"]
Crop = Annotated[float, Field(gt=0, le=1)]
Multiple = Annotated[int, Field(ge=1, le=512)]
Resize = Literal["bilinear", "area", "nearest", "antialias"]
Convert = Literal["network", "image"]
ChannelOrder = Literal["rgb", "bgr", "gray"]
Level = Annotated[int, Field(ge=0, le=255)]
Positive = Annotated[float, Field(gt=0)]
FrameCount = Annotated[int, Field(ge=1, le=1000)]
PixelCount = Annotated[int, Field(ge=8, le=8192)]

Means = Annotated[tuple[float, ...], BeforeValidator(_as_tuple), AfterValidator(_one_or_three)]
"""One value, or one per channel."""
Scales = Annotated[tuple[Positive, ...], BeforeValidator(_as_tuple), AfterValidator(_one_or_three)]
"""One value above 0, or one per channel."""
Levels = Annotated[tuple[Level, ...], BeforeValidator(_as_tuple), AfterValidator(_one_or_three)]
"""One level from 0 to 255, or one per channel."""


class NmsFields(Described):
    """The method of non-maximum suppression and its settings; None where nothing is set."""

    method: Literal["hard", "soft", "fusion", "none"] | None = None
    """What happens to boxes that overlap: `hard` drops the less confident, `soft` lowers its confidence, `fusion`
    merges both, `none` keeps both. Default: that of the head's family, `hard` or `none`."""
    decay: Literal["gaussian", "linear"] | None = None
    """How `soft` lowers confidence: by a Gaussian of the overlap, or above `iou` in proportion to the overlap. Default:
    `gaussian`."""
    sigma: Annotated[float, Field(gt=0, le=10)] | None = None
    """Width of the Gaussian: smaller values lower confidence more. Default: 0.5."""
