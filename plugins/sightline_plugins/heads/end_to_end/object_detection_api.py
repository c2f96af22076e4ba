"""The TensorFlow Object Detection API: detection_boxes, detection_classes, detection_scores and num_detections.

Boxes (1, n, 4) are top, left, bottom, right as shares of the input; classes are numbers in floating point, counted from
1 (tensorflow/models, `research/object_detection/core/standard_fields.py`: DetectionResultFields, `exporter.py`). Other
outputs, such as raw_detection_boxes, are left alone. TensorFlow Lite's post-processing gives boxes, classes, scores and
the count in this order under other names, and counts classes from 0: `first_class: 0`.
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
from sightline_plugins.heads.outputs import named, shapes_text
from sightline_plugins.nms import NmsOptions

_NAMES = ("detection_boxes", "detection_classes", "detection_scores", "num_detections")


class ObjectDetectionApiOptions(HeadOptions):
    """Settings of the head `object_detection_api`."""

    first_class: Annotated[int, Field(ge=0)] = 1
    """The number of the first class, which is the first label."""


_OPTIONS = ObjectDetectionApiOptions()


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image with at least that confidence."""
    options = options_of(context, _OPTIONS)
    boxes, classes, scores, count = _columns(outputs, context)
    sure = np.flatnonzero(scores[:count] >= max(context.confidence, np.finfo(np.float32).tiny))
    xyxy = boxes[sure][:, [1, 0, 3, 2]] * np.array(context.size_wh * 2, np.float32)
    return Candidates.from_arrays(xyxy, scores[sure], np.rint(classes[sure]) - options.first_class)


def _columns(outputs: Sequence[Array], context: DecodeContext) -> tuple[Array, Array, Array, int]:
    places = [_exactly(outputs, context, name) for name in _NAMES]
    if None in places[:3] and len(outputs) == 4:
        places = [0, 1, 2, 3]
    chosen = [None if place is None else outputs[place] for place in places]
    boxes, classes, scores, count = chosen
    if boxes is None or classes is None or scores is None or boxes.shape[-1] != 4 or scores.size != classes.size:
        raise ModelError(
            f"head object_detection_api: outputs called {', '.join(_NAMES[:3])} are needed, or boxes, classes, scores "
            f"and their count in this order; the outputs are {shapes_text(outputs)}"
        )
    known = scores.size if count is None else min(max(int(count.reshape(-1)[0]), 0), scores.size)
    return boxes.reshape(-1, 4), classes.reshape(-1), scores.reshape(-1), known


def _exactly(outputs: Sequence[Array], context: DecodeContext, name: str) -> int | None:
    """The output of that name, with or without `:0` after it."""
    found = [place for place in named(outputs, context, name) if context.outputs[place].split(":")[0] == name]
    return found[0] if found else None


def is_like(signature: Signature) -> bool:
    """Whether outputs have the names, and classes in floating point: those of EfficientNMS are integers."""
    by_name = {output.name.split(":")[0]: output for output in signature.outputs}
    return set(_NAMES[:3]) <= set(by_name) and by_name["detection_classes"].dtype.kind == "f"


def match_score(signature: Signature) -> MatchScore:
    """Outputs of these names."""
    return MatchScore.CERTAIN if is_like(signature) else MatchScore.NONE


HEAD = Head(
    name="object_detection_api",
    decode=decode,
    match_score=match_score,
    usual={"fit": "stretch", "color": "rgb", "scale": (1.0,)},
    nms=NmsOptions(iou=1.0),
    options=ObjectDetectionApiOptions,
)
