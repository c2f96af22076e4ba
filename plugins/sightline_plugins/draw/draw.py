"""`draw`: put what was found into the picture."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sightline.graph import Element, Operator, Site
from sightline.media.time import Duration


class Draw(Element):
    """Draw boxes, labels, tracks, lines, zones and their counts into the picture, for `video`, `snapshots` and people.

    It draws straight on the planes of the decoded picture (YUV, grey or RGB) and converts nothing, which costs a
    fraction of a millisecond a frame. Other branches are not touched: a picture that somebody else still holds is
    copied first, one that has nothing to draw passes as it is. Line width and text size follow the height of the
    picture, so that 360p and 4K look alike.

    Edges of boxes lie on even pixels, where 4:2:0 chroma has its edges; a box can so be one pixel larger than the
    object's. `pixelate` hides objects for good in everything after this step (the records keep their boxes).

    ```yaml
    - draw: {color: track, trail: 3s, clock: true}
    ```
    """

    name: ClassVar[str] = "draw"

    boxes: bool = True
    """Draw the box of each object."""
    labels: bool = True
    """Write the name of its class on it."""
    ids: bool = True
    """Write the number of its track on it."""
    confidence: bool = True
    """Write how sure the model is on it."""
    trail: Duration = 2_000_000_000
    """How far back the way of each track is drawn (middle of the bottom edge); 0s draws none."""
    rules: bool = True
    """Draw the lines and zones of rules, with their counts."""
    clock: bool = False
    """Write the time of day of the picture in UTC, or its time in the stream where that is not known."""
    color: Literal["class", "track"] = "class"
    """What objects share a colour: those of a class, or those of a track."""
    thickness: Annotated[int, Field(ge=1, le=64)] | None = None
    """Width of lines in pixels; by the height of the picture when not given (2 at 360p, 6 at 2160p)."""
    text_size: Annotated[int, Field(ge=6, le=400)] | None = None
    """Size of text in pixels; by the height of the picture when not given (12 at 360p, 50 at 2160p)."""
    pixelate: tuple[str, ...] = ()
    """Classes whose objects are made unrecognisable, such as `[face, plate]`."""

    def build(self, site: Site) -> Operator:
        """Make the operator; OpenCV is imported here."""
        from sightline_plugins.draw.drawing import Drawing

        del site
        return Drawing(self)
