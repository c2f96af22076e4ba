"""YOLOv6, v8, v9, v11 and later exported without decoding: a raw map for each stride, in any order.

A map holds how far left, top, right and bottom of the box are from the middle of its cell, in strides, and class
scores: (1, 4 * bins + classes, rows, columns), or two maps, box and classes (a third one of one channel, the sum of the
scores that exports for some accelerators add, is passed over). A distance is a distribution over `bins` whole numbers,
of which the mean is taken (Generalized Focal Loss, Li et al. 2020; ultralytics/ultralytics, `nn/modules/block.py`: DFL;
meituan/YOLOv6, `models/effidehead.py`); with one bin, as small YOLOv6 have it, it is the number itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
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
    ScoreForm,
    Signature,
    options_of,
)
from sightline_plugins.heads.outputs import op_type_of
from sightline_plugins.heads.thresholding import are_fractions, are_probabilities, logit, sigmoid, softmax
from sightline_plugins.heads.yolo.layout import USUAL, Floats, Map, grid_axis, maps_of
from sightline_plugins.nms import NmsOptions

BINS = 16
_USUAL_BINS = (BINS, BINS + 1)


class DflOptions(HeadOptions):
    """Settings of `yolo_dfl`."""

    bins: Annotated[int, Field(ge=1, le=64)] | None = None
    """Whole numbers that a distance is spread over (`reg_max`; YOLOv6: `reg_max` + 1). Told by the box maps where they
    are outputs of their own, else by the number of labels, else 16."""
    scores: ScoreForm = "auto"
    """Whether class scores are logits, or went through the logistic function already."""


def decode(outputs: Sequence[Array], context: DecodeContext) -> Candidates:
    """Candidates of one image: every cell whose best class scores at least `reading.confidence`."""
    options = options_of(context, DflOptions())
    maps = maps_of(outputs, context.size_wh, "yolo_dfl")
    levels = [
        _level(list(group), stride, options, context) for stride, group in groupby(maps, key=lambda entry: entry.stride)
    ]
    boxes, scores, classes = (np.concatenate(column) for column in zip(*levels, strict=True))
    return Candidates.from_arrays(boxes, scores, classes)


def _level(maps: list[Map], stride: int, options: DflOptions, context: DecodeContext) -> tuple[Floats, Floats, Array]:
    """Boxes, scores and classes of the maps of one stride."""
    sides, scores, place = sides_and_scores(maps, options, len(context.labels))
    ready = options.scores == "probabilities"
    if options.scores == "auto":
        ready = are_probabilities(scores[:1], op_type=op_type_of(context, place), looks_like=are_fractions)
    row, column = np.nonzero(scores.max(axis=0) >= (context.confidence if ready else logit(context.confidence)))
    found = scores[:, row, column].astype(np.float32)
    best = found.max(axis=0, initial=-np.inf)
    distances = _distances(sides[:, row, column])
    middle = np.stack([column, row], axis=1).astype(np.float32) + np.float32(0.5)
    boxes = np.concatenate([middle - distances[:, :2], middle + distances[:, 2:]], axis=1) * np.float32(stride)
    return boxes, best if ready else sigmoid(best), found.argmax(axis=0)


def _distances(values: Array) -> Floats:
    """Distances (n, 4) in strides, from what the map says of them: (4 * bins, n)."""
    spread: Floats = values.T.reshape(values.shape[1], 4, len(values) // 4).astype(np.float32)
    bins = spread.shape[2]
    if bins == 1 or not len(spread):
        return spread[..., 0]
    return np.asarray(softmax(spread) @ np.arange(bins), np.float32)


def sides_and_scores(maps: list[Map], options: DflOptions, labels: int) -> tuple[Array, Array, int]:
    """Distances (4 * bins, rows, columns), scores (classes, rows, columns) and the place of these among the outputs."""
    if any(entry.values.ndim != 3 for entry in maps):
        raise ModelError("head yolo_dfl: maps (1, channels, rows, columns) are needed")
    if len(maps) == 1:
        values = maps[0].values
        told = (len(values) - labels) // 4 if labels and (len(values) - labels) % 4 == 0 else BINS
        split = 4 * (options.bins or told)
        if 0 < split < len(values):
            return values[:split], values[split:], maps[0].place
    several = [entry for entry in maps if len(entry.values) > 1]
    pair = several if len(several) == 2 else maps[:2]
    if len(pair) == 2:
        sides, scores = pair
        if labels and len(sides.values) == labels and len(scores.values) != labels:
            sides, scores = scores, sides
        if len(sides.values) == 4 * (options.bins or len(sides.values) // 4):
            return sides.values, scores.values, scores.place
    sizes = ", ".join(str(len(entry.values)) for entry in maps)
    raise ModelError(
        f"head yolo_dfl: 4 * bins channels of distances and the classes are needed at stride {maps[0].stride}; "
        f"the maps have {sizes} channels: set head_options: {{bins: ...}} as the model's"
    )


def match_score(signature: Signature) -> MatchScore:
    """Three strides or more, each with one map of distances and classes, or with a map of each."""
    channels: dict[int, list[int]] = {}
    for shape in signature.shapes:
        found = grid_axis(shape, signature.size_wh) if len(shape) == 4 else None
        size = None if found is None else shape[1 if found[0] == 2 else 3]
        if found is None or size is None:
            return MatchScore.NONE
        channels.setdefault(found[1], []).append(size)
    kinds = {tuple(sizes) for sizes in channels.values()}
    if len(channels) < 3 or len(kinds) != 1:
        return MatchScore.NONE
    return _match_channels(kinds.pop(), signature.classes)


def _match_channels(sizes: tuple[int, ...], classes: int | None) -> MatchScore:
    """How the channels at each stride look: all together, or distances, scores and perhaps their sum."""
    if len(sizes) == 1:
        rest = [sizes[0] - 4 * bins for bins in _USUAL_BINS]
        if classes is not None:
            return MatchScore.CERTAIN if classes in rest else MatchScore.NONE
        return MatchScore.POSSIBLE if rest[0] > 0 else MatchScore.NONE
    if len(sizes) not in (2, 3) or (len(sizes) == 3 and sizes[2] != 1) or classes not in (None, sizes[1]):
        return MatchScore.NONE
    if sizes[0] in [4 * bins for bins in _USUAL_BINS]:
        return MatchScore.CERTAIN
    return MatchScore.POSSIBLE if sizes[0] == 4 else MatchScore.NONE


HEAD = Head(
    name="yolo_dfl",
    decode=decode,
    match_score=match_score,
    ranks=(4,),
    usual=USUAL,
    nms=NmsOptions(iou=0.45),
    options=DflOptions,
)
