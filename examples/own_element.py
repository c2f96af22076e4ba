"""Use your own element beside those that ship with Sightline.

    python examples/own_element.py

An element is a description; it builds an operator, which does the work. As a class in your program it can be a step at
once. With an entry point it gets a name in YAML, a page in `sightline elements` and checks: docs/extend/element.md.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sightline import Batch, Element, Objects, Operator, Pipeline
from sightline.graph import Site
from sightline.media import Origin


class Bright(Element):
    """Find the bounding box of the pixels brighter than `level` in each frame."""

    name: ClassVar[str] = "bright"
    level: int = 200

    def build(self, site: Site) -> Operator:
        """Build the operator."""
        return BrightFinder(self.level, Origin(site.element_id, ("bright",)))


class BrightFinder(Operator):
    """Process batches; the first plane of a surface is the luma, here at full size."""

    def __init__(self, level: int, origin: Origin) -> None:
        self.level, self.origin = level, origin

    def process(self, batch: Batch) -> Batch:
        """Add one object for each frame that has bright pixels."""
        spots = [np.argwhere(frame.surface.planes[0] > self.level) for frame in batch.frames]
        rows = [row for row, spot in enumerate(spots) if len(spot)]
        found = Objects.from_columns(
            frame=rows,
            xyxy=[[*spots[row].min(axis=0)[::-1], *(spots[row].max(axis=0)[::-1] + 1)] for row in rows],
            confidence=np.ones(len(rows)),
            class_id=np.zeros(len(rows)),
            source=self.origin,
        )
        return batch.with_objects(Objects.concat([batch.objects, found]))


def main() -> None:
    """Print the box of a test frame with known pixels."""
    source = {"pattern": "moving", "size": [320, 180], "frames": 5}
    for frame in Pipeline(sources={"test": source}, steps=[Bright(level=180)]):
        for obj in frame.objects:
            print(frame.index, obj.label, obj.xyxy)


if __name__ == "__main__":
    main()
