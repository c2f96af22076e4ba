"""DetectNet_v2 (NVIDIA TAO): a coverage map for each class, and four box maps for each class.

(1, classes, rows, columns) coverage, logistic already, and (1, 4 * classes, rows, columns) distances from the cell's
point to left, top, right and bottom, divided by 35. The stride is the input's size over the map's, rounded up; the
point of a cell is `stride * number + 0.5` (NVIDIA DeepStream, `nvdsinfer_context_impl_output_parsing.cpp`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from sightline.errors import ModelError
from sightline_plugins.heads.head import (
    Array,
    Candidates,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    Shape,
    Signature,
    options_of,
)
from sightline_plugins.heads.outputs import boxes_from_distances, shapes_text
from sightline_plugins.heads.thresholding import select_pairs
from sightline_plugins.nms import NmsOptions


class DetectNetOptions(HeadOptions):
    """Settings of the head `detectnet_v2`."""

    box_norm: Annotated[float, Field(gt=0)] = 35.0
    """Distances are in this many pixels of the input."""
    offset: float = 0.5
    """Pixels from a cell's corner to the point that distances start from."""


_OPTIONS = DetectNetOptions()


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every cell and class whose coverage is at least `reading.confidence`."""
    options = options_of(context, _OPTIONS)
    coverage, boxes = _maps(outputs)
    classes, rows, columns = coverage.shape
    sure = select_pairs(coverage.reshape(classes, -1), context.confidence, logits=False)
    class_id, place = sure.rows, sure.class_id
    distances = boxes.reshape(classes, 4, -1)[class_id, :, place] * np.float32(options.box_norm)
    stride = -(-context.size_wh[0] // columns), -(-context.size_wh[1] // rows)
    corner = np.stack([place % columns, place // columns], axis=1).astype(np.float32)
    points = corner * np.array(stride, np.float32) + np.float32(options.offset)
    return Candidates.from_arrays(boxes_from_distances(points, distances), sure.confidence, class_id)


def _maps(outputs: Sequence[Array]) -> tuple[Array, Array]:
    """Coverage (classes, rows, columns) and boxes (4 * classes, rows, columns)."""
    if len(outputs) == 2 and all(output.ndim >= 3 for output in outputs):
        first, second = sorted((output.reshape(output.shape[-3:]) for output in outputs), key=len)
        if len(second) == 4 * len(first) and first.shape[1:] == second.shape[1:]:
            return first, second
    raise ModelError(
        "head detectnet_v2: maps of coverage (classes) and of boxes (4 * classes) of one size are needed; the outputs "
        f"are {shapes_text(outputs)}"
    )


def match_score(signature: Signature) -> MatchScore:
    """Two maps of one size, one with four times the channels of the other."""
    shapes = signature.shapes
    if len(shapes) != 2 or any(len(shape) not in (3, 4) for shape in shapes):
        return MatchScore.NONE
    low, high = sorted(shape[-3] or 0 for shape in shapes)
    if not low or high != 4 * low or shapes[0][-2:] != shapes[1][-2:]:
        return MatchScore.NONE
    return MatchScore.CERTAIN if len(shapes[0]) == 4 else MatchScore.POSSIBLE


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """The channels of the coverage map."""
    channels = [shape[-3] for shape in shapes if len(shape) >= 3]
    known = [count for count in channels if count is not None]
    return min(known) if len(known) == 2 else None


HEAD = Head(
    name="detectnet_v2",
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    ranks=(3, 4),
    usual={"fit": "stretch", "color": "rgb", "scale": (255.0,)},
    nms=NmsOptions(iou=0.5),
    options=DetectNetOptions,
)
