"""`draw`: draws boxes, tracks, labels and rules into frames."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sightline.graph import ChangesLive, Element, Operator, Site
from sightline.graph.fields import Fraction
from sightline.media.time import Duration


class DrawOptions(Element):
    """What is drawn, how large and in which colours."""

    boxes: ChangesLive[bool] = True
    """Draw the box of each object; an oriented one where it has corners, a thin one where it was found on another."""
    labels: ChangesLive[bool] = True
    """Write the name of its class on it."""
    ids: ChangesLive[bool] = True
    """Write the number of its track on it."""
    confidence: ChangesLive[bool] = True
    """Write how sure the model is on it."""
    masks: ChangesLive[bool] = True
    """Tint the pixels of objects that have a mask, and draw the mask's edge."""
    keypoints: ChangesLive[bool] = True
    """Draw keypoints and the lines that join them: bodies, hands, landmarks of faces."""
    keypoint_confidence: ChangesLive[Fraction] = 0.3
    """Keypoints below are not drawn, nor the lines to them."""
    attributes: ChangesLive[bool | tuple[str, ...]] = True
    """Write what was found out about the object below its label: colours, kinds, text; a list writes those named."""
    trail: ChangesLive[Duration] = 2_000_000_000
    """How far back the way of each track is drawn (middle of the bottom edge); 0s draws none."""
    rules: ChangesLive[bool] = True
    """Draw the lines and zones of rules, with their counts."""
    graphics: ChangesLive[bool] = True
    """Draw heat maps, and the arrows of `flow`."""
    clock: ChangesLive[bool] = False
    """Write the time of day of the image in UTC, or its time in the stream where that is not known."""
    color: ChangesLive[Literal["class", "track"]] = "class"
    """What objects share a colour: those of a class, or those of a track."""
    thickness: ChangesLive[Annotated[int, Field(ge=1, le=64)] | None] = None
    """Width of lines in pixels; by the height of the image when not given (2 at 360p, 6 at 2160p)."""
    text_size: ChangesLive[Annotated[int, Field(ge=6, le=400)] | None] = None
    """Size of text in pixels; by the height of the image when not given (12 at 360p, 50 at 2160p)."""


class Draw(DrawOptions):
    """Draw what was found into the image, for `video`, `snapshots` and people: boxes (also oriented ones), masks,
    skeletons and landmarks, labels with attributes and text, the ways of tracks, lines, zones and their counts.

    It draws straight on the planes of the decoded image (YUV, grey or RGB) and converts nothing, which costs a
    fraction of a millisecond a frame. Other branches are not touched: an image that somebody else still holds is
    copied first, one that has nothing to draw passes as it is. Line width and text size follow the height of the
    image, so that 360p and 4K look alike. In a GPU's memory it draws the same pixels, all of a batch at once.

    Edges of boxes lie on even pixels, where 4:2:0 chroma has its edges; a box can so be one pixel larger than the
    object's. What was found on another object (a plate on a car) has thinner lines and smaller text, below it.

    ```yaml
    - draw: {color: track, trail: 3s, clock: true}
    ```
    """

    name: ClassVar[str] = "draw"
    changes_images: ClassVar[bool] = True
    draws_only: ClassVar[bool] = True

    def build(self, site: Site) -> Operator:
        """Make the operator; OpenCV is imported here."""
        from sightline_plugins.draw.drawing import Drawing

        if site.gpu is None:
            return Drawing(self)
        from sightline_plugins.draw.cuda import drawing_canvases

        return Drawing(self, canvases=drawing_canvases(site.gpu))
