"""Semantic segmentation: a score for each class and pixel, or the winning class of each pixel.

Scores may be (1, C, h, w) or (1, h, w, C), distinguished by which two sizes have the shape of the network's input:
DeepLab (https://arxiv.org/abs/1706.05587), FCN, SegFormer, BiSeNet, PIDNet, U-Net. One channel is a map of one class
against the rest (U²-Net, portrait matting). Integers (1, h, w), (1, 1, h, w) or (1, h, w, 1) are classes (PaddleSeg).
Of several outputs the first one with such a shape is read; `output` names another. Auxiliary maps are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from sightline.errors import ModelError
from sightline_plugins.heads.decoding import are_in_unit_range, are_logits, shapes_text, sum_to_one
from sightline_plugins.heads.head import (
    IMAGENET,
    Array,
    ClassMap,
    DecodeContext,
    Head,
    HeadOptions,
    MatchScore,
    Shape,
    Signature,
    SizeWh,
)


class ClassMapOptions(HeadOptions):
    """Options of the head `class_map`."""

    output: str | None = None
    """Name of the output that is the map; the first one of a fitting shape when not given."""
    values: Literal["auto", "logits", "probabilities", "classes"] = "auto"
    """What the map holds. `auto`: integers are classes; numbers that a Softmax or Sigmoid makes, or that look so, are
    probabilities; others are logits."""


def decode(outputs: Sequence[Array], context: DecodeContext) -> ClassMap:
    """Return the map over the network's input. Raises ModelError when no output has such a shape."""
    options = context.options_or(ClassMapOptions())
    number = _chosen(outputs, context, options)
    channels = channels_first(outputs[number], context.size_wh)
    if options.values == "classes" or (options.values == "auto" and channels.dtype.kind in "iu"):
        return _one_hot(channels[0])
    looks_like = are_in_unit_range if len(channels) == 1 else _channels_sum_to_one
    logits = are_logits(channels, form=options.values, op_type=context.op_type(number), looks_like=looks_like)
    return ClassMap(channels.astype(np.float32, copy=False), probabilities=not logits)


def channels_first(output: Array, size_wh: SizeWh) -> Array:
    """Return a map (1, C, h, w), (1, h, w, C) or (1, h, w) as (C, h, w): a view."""
    plain = output[0] if output.ndim == 4 else output.reshape(1, *output.shape[-2:])
    return plain if has_shape_of(plain.shape[1:], size_wh) else plain.transpose(2, 0, 1)


def has_shape_of(map_hw: Sequence[int | None], size_wh: SizeWh) -> bool:
    """Return whether a map has the aspect of the network's input, within a row or column; an open shape has it."""
    rows, columns = map_hw
    if rows is None or columns is None or 0 in size_wh:
        return rows is None and columns is None
    width, height = size_wh
    return min(rows, columns) > 0 and abs(columns * height - rows * width) <= max(width, height)


def match_score(signature: Signature) -> MatchScore:
    """Match a map in the shape of the input as the first output, and no rows of boxes beside it."""
    if not signature.outputs or any(len(shape) in (2, 3) and _is_table(shape) for shape in signature.shapes):
        return MatchScore.NONE
    first = signature.outputs[0]
    if len(first.shape) == 3 and first.dtype.kind == "f":
        return MatchScore.NONE
    return MatchScore.certain_if(_fits(first.shape, signature.size_wh))


def count_classes(shapes: Sequence[Shape]) -> int | None:
    """Return the number of channels where the two equal sizes of a map tell which it is; None for one channel."""
    if len(shapes) != 1 or len(shapes[0]) != 4:
        return None
    _, second, third, fourth = shapes[0]
    if second == fourth or None in (second, third, fourth):
        return second if third is None and fourth is None and second not in (None, 1) else None
    count = second if third == fourth else fourth if second == third else None
    return None if count == 1 else count


def _is_table(shape: Shape) -> bool:
    """Return whether an output of rank 2 or 3 is a table rather than a map (1, h, w): by how unequal its sides are."""
    sizes = [size for size in shape[-2:] if size is not None]
    return len(shape) == 2 or (len(sizes) == 2 and max(sizes) > 8 * min(sizes))


def _fits(shape: Shape, size_wh: SizeWh) -> bool:
    if len(shape) == 4:
        return has_shape_of(shape[2:], size_wh) or has_shape_of(shape[1:3], size_wh)
    return len(shape) == 3 and has_shape_of(shape[1:], size_wh)


def _chosen(outputs: Sequence[Array], context: DecodeContext, options: ClassMapOptions) -> int:
    if options.output is not None:
        if options.output not in context.outputs:
            known = ", ".join(context.outputs)
            raise ModelError(f"head class_map: there is no output {options.output!r}; outputs: {known}")
        return context.outputs.index(options.output)
    fitting = [number for number, output in enumerate(outputs) if _fits(output.shape, context.size_wh)]
    if not fitting:
        width, height = context.size_wh
        raise ModelError(
            f"head class_map: no output is a map in the shape of the input ({width}x{height}); the outputs are "
            f"{shapes_text(outputs)}"
        )
    return fitting[0]


def _channels_sum_to_one(channels: Array) -> bool:
    return sum_to_one(np.moveaxis(channels, 0, -1))


def _one_hot(classes: Array) -> ClassMap:
    """Return a map with a channel for each class that occurs."""
    present = np.unique(classes).astype(np.int32)
    scores = (classes[None] == present[:, None, None]).astype(np.float32)
    return ClassMap(scores, class_id=present, probabilities=True)


CLASS_MAP = Head(
    name="class_map",
    family="DeepLab, FCN, SegFormer, U-Net, BiSeNet",
    outputs="(1, C, h, w), (1, h, w, C), (1, 1, h, w) or classes (1, h, w)",
    decode=decode,
    task="segment",
    result_type=ClassMap,
    count_classes=count_classes,
    match_score=match_score,
    ranks=(2, 3, 4),
    preprocessing={"fit": "stretch", "color": "rgb", **IMAGENET},
    options=ClassMapOptions,
)
