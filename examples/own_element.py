"""An element of your own, used beside those that ship with Sightline.

    python examples/own_element.py

An element is a description; what it builds does the work. As a class in your program it can be put among the steps at
once. With an entry point it gets a name in YAML, a page in `sightline elements` and checks: docs/extend/element.md.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sightline import Batch, Element, Objects, Operator, Pipeline
from sightline.graph import Site
from sightline.media import Origin


class Bright(Element):
    """Finds the bounding box of what is brighter than `level` in each image."""

    name: ClassVar[str] = "bright"
    level: int = 200

    def build(self, site: Site) -> Operator:
        """Make the operator."""
        return BrightFinder(self.level, Origin(site.element_id, ("bright",)))


class BrightFinder(Operator):
    """Works on batches; the first plane of a surface holds the brightness, here at full size."""

    def __init__(self, level: int, origin: Origin) -> None:
        self.level, self.origin = level, origin

    def process(self, batch: Batch) -> Batch:
        """Add one object for each image that has anything bright."""
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
    """Follow the box of a test image with known pixels."""
    source = {"pattern": "moving", "size": [320, 180], "frames": 5}
    for frame in Pipeline(sources={"test": source}, steps=[Bright(level=180)]):
        for thing in frame.objects:
            print(frame.index, thing.label, thing.xyxy)


if __name__ == "__main__":
    main()
