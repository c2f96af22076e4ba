"""What `draw` can be told."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sightline.graph import Element
from sightline.graph.fields import Fraction
from sightline.media.time import Duration


class DrawOptions(Element):
    """What is drawn, how large and in which colours."""

    boxes: bool = True
    """Draw the box of each object; an oriented one where it has corners, a thin one where it was found on another."""
    labels: bool = True
    """Write the name of its class on it."""
    ids: bool = True
    """Write the number of its track on it."""
    confidence: bool = True
    """Write how sure the model is on it."""
    masks: bool = True
    """Tint the pixels of objects that have a mask, and draw the mask's edge."""
    keypoints: bool = True
    """Draw keypoints and the lines that join them: bodies, hands, landmarks of faces."""
    keypoint_confidence: Fraction = 0.3
    """Keypoints below are not drawn, nor the lines to them."""
    attributes: bool | tuple[str, ...] = True
    """Write what was found out about the object below its label: colours, kinds, text; a list writes those named."""
    trail: Duration = 2_000_000_000
    """How far back the way of each track is drawn (middle of the bottom edge); 0s draws none."""
    rules: bool = True
    """Draw the lines and zones of rules, with their counts."""
    clock: bool = False
    """Write the time of day of the image in UTC, or its time in the stream where that is not known."""
    color: Literal["class", "track"] = "class"
    """What objects share a colour: those of a class, or those of a track."""
    thickness: Annotated[int, Field(ge=1, le=64)] | None = None
    """Width of lines in pixels; by the height of the image when not given (2 at 360p, 6 at 2160p)."""
    text_size: Annotated[int, Field(ge=6, le=400)] | None = None
    """Size of text in pixels; by the height of the image when not given (12 at 360p, 50 at 2160p)."""
