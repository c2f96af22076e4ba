"""Decode heads on a CUDA device: one kernel for all heads that make boxes of a dense output.

What is read from where is told by the heads themselves (`infer/heads`): `plan_decoding` lets them look at empty outputs
of the model's shapes, once, and `Decoding.launch` is then a few launches for each batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.devices.cuda.driver import Kernels, blocks_for
from sightline_plugins.cuda.records import DeviceData
from sightline_plugins.nms.cuda import COUNTS, DetectionBuffers

SOURCE = Path(__file__).with_suffix(".cu")
MOST_ANCHORS = 8
_THREADS = 256
_LAYOUT = np.dtype(
    [("first", "<i8"), ("image_step", "<i8"), ("box_step", "<i8"), ("value_step", "<i8"), ("is_half", "<i4")],
    align=True,
)
GRID = np.dtype([("columns", "<i4"), ("rows", "<i4"), ("stride", "<i4"), ("first", "<i4")])
ANCHORS = np.dtype(
    [
        ("sizes", "<f4", (2 * MOST_ANCHORS,)),
        ("scale", "<f4"),
        ("excess", "<f4"),
        ("count", "<i4"),
        ("is_squared", "<i4"),
        ("are_scores_logits", "<i4"),
        ("are_boxes_logits", "<i4"),
        ("step", "<i8"),
    ],
    align=True,
)
_FLOATS = (np.dtype(np.float32), np.dtype(np.float16))


@dataclass(frozen=True, slots=True)
class OutputView:
    """Where boxes lie in an output, counted in elements of one image: `place` is that of the output among all."""

    place: int
    first: int
    box_step: int
    value_step: int

    def arguments(self, output: DeviceData) -> tuple[DeviceData, Any]:
        """What kernels are given: the output, and `struct Layout`."""
        item = output.dtype.itemsize
        layout = (self.first, output.strides[0] // item, self.box_step, self.value_step, item == 2)
        return output, np.array(layout, _LAYOUT)[()]


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One launch: the kernel, for how many boxes, what it reads, and what else it is told."""

    kernel: str
    boxes: int
    views: tuple[OutputView, ...]
    told: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Decoding:
    """How the outputs of one model are decoded; made once by `plan_decoding`.

    `shapes` are those of its outputs for one image, without the batch; `boxes` is how many boxes they hold, which is
    the capacity of `Finds` that loses none.
    """

    shapes: tuple[tuple[int, ...], ...]
    boxes: int
    steps: tuple[Step, ...]

    def launch(
        self, kernels: Kernels, outputs: Sequence[DeviceData], *, finds: DetectionBuffers, stream: object = None
    ) -> None:
        """Decode the outputs (images, ...) of a batch, float32 or float16, dense; what `finds` held is forgotten."""
        self._check(outputs, finds)
        counts = finds.images * COUNTS
        grid = blocks_for(counts, block=_THREADS)
        kernels["forget"](finds.counts, counts, grid=grid, block=_THREADS, stream=stream)
        images = outputs[0].shape[0]
        for step in self.steps:
            views = (argument for view in step.views for argument in view.arguments(outputs[view.place]))
            grid_xy = blocks_for(step.boxes, block=_THREADS), images
            kernels[step.kernel](*views, *step.told, *finds.arguments(), grid=grid_xy, block=_THREADS, stream=stream)

    def _check(self, outputs: Sequence[DeviceData], finds: DetectionBuffers) -> None:
        shapes = tuple(output.shape[1:] for output in outputs)
        images = {output.shape[0] for output in outputs}
        if shapes != self.shapes or len(images) != 1 or min(images) > finds.images:
            raise ValueError(
                f"outputs of {self.shapes} for each image, of {finds.images} images at most, are decoded; "
                f"these are {tuple(output.shape for output in outputs)}"
            )
        for output in outputs:
            dense: npt.NDArray[Any] = np.empty((1, *output.shape[1:]), output.dtype)
            if output.dtype not in _FLOATS or output.strides[1:] != dense.strides[1:]:
                raise ValueError(
                    f"outputs are dense float32 or float16, not {output.dtype} of strides {output.strides}"
                )
