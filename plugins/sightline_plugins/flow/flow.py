"""`flow`: attach the optical flow of successive frames, as a grid of vectors or at points."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sightline.graph import Capability, ChangesLive, Element, Operator, Site, Threading

GRID, POINTS = "vectors", "points"
"""Names of the tensors."""
DENSE_SIZE, SPARSE_SIZE = 320, 640


class Flow(Element):
    """Attach the optical flow of successive frames of each stream: how fast what is seen moves, and where to.

    Velocities are pixels of the source per second, so that they do not depend on the frame rate; x grows to the right,
    y downwards. Flow is what the image does: a camera that moves gives flow everywhere, and so do shadows and water.

    - `mode: dense` finds a vector for every pixel of the reduced image (Kroeger et al., "Fast Optical Flow using Dense
      Inverse Search", 2016) and attaches the mean of each cell of a grid that covers the frame: `vectors`, float32
      (rows, columns, 2). A cell is as near to `cell` pixels wide and high as the frame divides into.
    - `mode: sparse` follows corners (Shi and Tomasi, Lucas and Kanade) and back again, and attaches those that arrive
      where they were: `points`, float32 (N, 4) with x, y in pixels of this frame, and the velocity.

    The flow is a tensor of the frame: `frame.tensors["flow-1.vectors"]` in Python, and in JSON lines with
    `jsonl: {tensors: true}`. The first frame of a stream has none, nor has one after a gap of more than a second, time
    that went backwards, or a change of the frame's size. With `objects` each object gets the attributes `flow_x` and
    `flow_y`: the median of the vectors inside its box, absent where there are none. With `arrows`, `draw` shows where
    what moves will be in a fifth of a second.

    Vectors are exact to about a tenth of a pixel of the reduced image between two frames: a larger `size` costs more
    and sees smaller motion. Surfaces without texture, such as a road or a wall, show no motion of their own. Frames in
    a GPU's memory are reduced there, and flow is found on the CPU: only the brightness of the reduced image is copied.

    ```yaml
    - flow: {mode: dense, cell: 32, objects: true, arrows: true}
    ```
    """

    name: ClassVar[str] = "flow"
    scalar: ClassVar[str | None] = "mode"
    threading: ClassVar[Threading] = Threading.OWN

    mode: Literal["dense", "sparse"] = "dense"
    """A grid of vectors, or points that were followed."""
    cell: Annotated[int, Field(ge=4, le=1024)] = 32
    """How wide and high a cell of the grid is, in pixels of the source (`dense`)."""
    most: Annotated[int, Field(ge=1, le=5000)] = 500
    """How many points are followed at most (`sparse`)."""
    size: Annotated[int, Field(ge=64, le=4096)] | None = None
    """Longer side in pixels to which images are reduced; 320 (`dense`) or 640 (`sparse`) when not given. Smaller images
    stay as they are."""
    objects: bool = False
    """Give each object the velocity of what is inside its box, as attributes `flow_x` and `flow_y`."""
    arrows: ChangesLive[bool] = False
    """Let `draw` show the flow as arrows."""

    def required(self) -> frozenset[Capability]:
        """Return that objects are needed, if they get attributes."""
        return frozenset({Capability.OBJECTS}) if self.objects else frozenset()

    def build(self, site: Site) -> Operator:
        """Make the operator."""
        from sightline_plugins.flow.operator import FlowOperator

        return FlowOperator(self, step=site.element_id or self.name, gpu=site.gpu)
