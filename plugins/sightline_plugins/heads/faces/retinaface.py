"""RetinaFace: faces with five landmarks, as corrections of square priors on three levels (strides 8, 16, 32).

Three tables with a row for each prior: corrections (1, n, 4) and landmarks (1, n, 10), divided by variances 0.1 and
0.2, and scores (1, n, 2) of background and face, soft-maxed or raw (biubug6/Pytorch_Retinaface,
`layers/functions/prior_box.py`, `utils/box_utils.py`: decode, decode_landm).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from sightline.errors import ModelError
from sightline_plugins.heads.anchor_based.coder import boxes_from_offsets, points_from_offsets
from sightline_plugins.heads.faces.points import LANDMARKS, with_confidence
from sightline_plugins.heads.head import (
    Array,
    Candidates,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    ScoreForm,
    Shape,
    Signature,
    SizeWh,
    options_of,
)
from sightline_plugins.heads.outputs import cells_of, check_count, count_cells, op_type_of, shapes_text
from sightline_plugins.heads.thresholding import select_classes
from sightline_plugins.nms import NmsOptions

Sides = tuple[tuple[float, ...], ...]


class RetinaFaceOptions(HeadOptions):
    """Settings of the head `retinaface`."""

    strides: tuple[int, ...] = (8, 16, 32)
    """Pixels of the input from cell to cell, for each level."""
    sides: Sides = ((16, 32), (64, 128), (256, 512))
    """Sides of the priors in each cell, in pixels of the input, for each level."""
    variances: tuple[float, float] = (0.1, 0.2)
    """What corrections of the centre (and of landmarks) and of the size are multiplied with."""
    scores: ScoreForm = "auto"
    """Whether scores are `probabilities` or `logits` (a softmax is still to be made)."""

    @model_validator(mode="after")
    def _check_levels(self) -> RetinaFaceOptions:
        if len(self.sides) != len(self.strides):
            raise ValueError(f"sides for each of {len(self.strides)} strides are needed")
        return self


_OPTIONS = RetinaFaceOptions()


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every prior that scores at least `reading.confidence`."""
    options = options_of(context, _OPTIONS)
    by_width = {output.shape[-1]: place for place, output in enumerate(outputs)}
    if len(outputs) != 3 or set(by_width) != {2, 4, 2 * LANDMARKS}:
        raise ModelError(
            "head retinaface: corrections (n, 4), scores (n, 2) and landmarks (n, 10) are needed; the outputs are "
            f"{shapes_text(outputs)}"
        )
    scores = outputs[by_width[2]].reshape(-1, 2)
    priors = _priors(context.size_wh, options.strides, options.sides)
    check_count("retinaface", context.size_wh, expected=len(priors), found=len(scores))
    rows, class_id, confidence = select_classes(
        scores, context.confidence, background=0, form=options.scores, op_type=op_type_of(context, by_width[2])
    )
    around = priors[rows]
    boxes = boxes_from_offsets(outputs[by_width[4]].reshape(-1, 4)[rows], around, variances=options.variances)
    shifts = outputs[by_width[10]].reshape(-1, LANDMARKS, 2)[rows]
    points = points_from_offsets(shifts, around, variance=options.variances[0])
    return Candidates.from_arrays(boxes, confidence, class_id, points=with_confidence(points, confidence))


@lru_cache(maxsize=16)
def _priors(size_wh: SizeWh, strides: tuple[int, ...], sides: Sides) -> npt.NDArray[np.float32]:
    """The priors (N, 4): centre, width and height in pixels of the input. Nobody writes to them."""
    levels = []
    for stride, of_level in zip(strides, sides, strict=True):
        cells = cells_of(size_wh, (stride,), each=len(of_level))
        squares = np.tile(np.array(of_level, np.float32), len(cells.stride) // len(of_level))
        levels.append(
            np.concatenate([(cells.corner + 0.5) * cells.stride, np.stack([squares, squares], axis=1)], axis=1)
        )
    priors = np.concatenate(levels).astype(np.float32)
    priors.flags.writeable = False
    return priors


def match_score(signature: Signature) -> MatchScore:
    """Three tables of 4, 2 and 10 columns; with a known size also of as many rows as there are priors."""
    shapes = signature.shapes
    if len(shapes) != 3 or {shape[-1] for shape in shapes} != {2, 4, 2 * LANDMARKS}:
        return MatchScore.NONE
    rows = shapes[0][-2] if len(shapes[0]) > 1 else None
    expected = sum(
        count_cells(signature.size_wh, (stride,)) * len(sides)
        for stride, sides in zip(_OPTIONS.strides, _OPTIONS.sides, strict=True)
    )
    return MatchScore.CERTAIN if rows is None or not expected or rows == expected else MatchScore.POSSIBLE


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """One: faces."""
    del shapes
    return 1


HEAD = Head(
    name="retinaface",
    labels=("face",),
    decode=decode,
    count_classes=count_classes,
    match_score=match_score,
    ranks=(2, 3),
    usual={
        "fit": "letterbox",
        "align": "top_left",
        "color": "bgr",
        "mean": (104.0, 117.0, 123.0),
        "scale": (1.0,),
        "pad": (104, 117, 123),
    },
    nms=NmsOptions(iou=0.4),
    options=RetinaFaceOptions,
)
