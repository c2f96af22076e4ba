"""Caffe's and OpenVINO's DetectionOutput: rows of image, class, score, x1, y1, x2, y2 in (1, 1, n, 7).

Boxes are shares of the input; a row of image -1 ends the list, and classes count the background as 0 (weiliu89/caffe,
branch ssd, `detection_output_layer.cpp`; OpenVINO operation set 8, DetectionOutput).
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
    Signature,
    options_of,
)
from sightline_plugins.heads.outputs import shapes_text
from sightline_plugins.nms import NmsOptions


class DetectionOutputOptions(HeadOptions):
    """Settings of the head `detection_output`."""

    first_class: Annotated[int, Field(ge=0)] = 1
    """The number of the first class, which is the first label; 1 where 0 is the background."""


_OPTIONS = DetectionOutputOptions()


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image with at least that confidence."""
    if len(outputs) != 1 or outputs[0].shape[-1] != 7:
        raise ModelError(f"head detection_output: rows of 7 values are needed; the outputs are {shapes_text(outputs)}")
    rows = outputs[0].reshape(-1, 7)
    ends = np.flatnonzero(rows[:, 0] < 0)
    rows = rows[: ends[0]] if len(ends) else rows
    found = rows[rows[:, 2] >= max(context.confidence, np.finfo(np.float32).tiny)]
    boxes = found[:, 3:] * np.array(context.size_wh * 2, np.float32)
    return Candidates.from_arrays(boxes, found[:, 2], found[:, 1] - options_of(context, _OPTIONS).first_class)


def match_score(signature: Signature) -> MatchScore:
    """One output (1, 1, n, 7)."""
    shapes = signature.shapes
    fits = len(shapes) == 1 and len(shapes[0]) == 4 and shapes[0][1] == 1 and shapes[0][3] == 7
    return MatchScore.CERTAIN if fits else MatchScore.NONE


HEAD = Head(
    name="detection_output",
    decode=decode,
    match_score=match_score,
    usual={"fit": "stretch", "color": "bgr", "scale": (1.0,)},
    nms=NmsOptions(iou=1.0),
    options=DetectionOutputOptions,
)
