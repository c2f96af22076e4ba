"""`draw`: put what was found into the image."""

from __future__ import annotations

from typing import ClassVar

from sightline.graph import Operator, Site
from sightline_plugins.draw.options import DrawOptions


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

    def build(self, site: Site) -> Operator:
        """Make the operator; OpenCV is imported here."""
        from sightline_plugins.draw.drawing import Drawing

        if site.gpu is None:
            return Drawing(self)
        from sightline_plugins.draw.device_easel import drawing_easel

        return Drawing(self, easel=drawing_easel(site.gpu))
