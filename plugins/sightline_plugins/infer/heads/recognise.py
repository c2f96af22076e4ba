"""Which head reads a model's outputs, told from their shapes where only one can be meant."""

from __future__ import annotations

from collections.abc import Sequence

from sightline.errors import ModelError
from sightline_plugins.infer.engines.protocol import TensorSpec
from sightline_plugins.infer.heads.head import SizeWh
from sightline_plugins.infer.heads.yolox import PYRAMIDS, count_cells

_ANCHORS = 3
_SMALLEST_MAP = 16


def recognise(outputs: Sequence[TensorSpec], *, size_wh: SizeWh, classes: int | None) -> str:
    """The name of the head for these outputs of a network with an input of `size_wh`.

    `classes` is the number of labels, None when it is not known. Raises ModelError with the likely heads when
    several could be meant or none.
    """
    likely = _likely(outputs, size_wh, classes)
    if len(likely) == 1:
        return likely[0]
    shapes = "; ".join(str(output) for output in outputs)
    if likely:
        raise ModelError(f"its outputs ({shapes}) fit several heads: set head to one of {', '.join(likely)}")
    raise ModelError(f"its outputs ({shapes}) fit no head that is known here")


def _likely(outputs: Sequence[TensorSpec], size_wh: SizeWh, classes: int | None) -> list[str]:
    shapes = [output.shape for output in outputs]
    if len(shapes) in (3, 4):
        has_boxes = any(len(shape) in (2, 3) and shape[-1] == 4 for shape in shapes)
        return ["end_to_end"] if has_boxes else []
    if len(shapes) != 1:
        return []
    shape = shapes[0]
    if len(shape) == 4:
        return ["fastestdet"] if shape[1] is not None and shape[1] > 5 and _is_map(shape[2:], size_wh) else []
    if len(shape) == 2:
        return ["end_to_end"] if shape[1] in (6, 7) else []
    return _of_rows(shape[1], shape[2], size_wh, classes) if len(shape) == 3 else []


def _is_map(size_hw: Sequence[int | None], size_wh: SizeWh) -> bool:
    """Whether an output has the shape of the input, reduced by a whole factor."""
    height, width = size_hw
    if not height or not width or height * width < _SMALLEST_MAP:
        return False
    return size_wh[0] % width == 0 and size_wh[1] % height == 0


def _of_rows(second: int | None, third: int | None, size_wh: SizeWh, classes: int | None) -> list[str]:
    """Heads for one output (1, second, third)."""
    if second is None or third is None:
        return _of_open_rows(second, third, classes)
    boxes, values, values_last = (second, third, True) if second > third else (third, second, False)
    cells = [count_cells(size_wh, strides) for strides in PYRAMIDS]
    if boxes in [_ANCHORS * count for count in cells]:
        return ["yolov5"]
    if boxes in cells:
        return _one_per_cell(values, values_last=values_last, classes=classes)
    return ["end_to_end"] if third == 6 else []


def _of_open_rows(second: int | None, third: int | None, classes: int | None) -> list[str]:
    """Heads for one output whose number of boxes is left open."""
    if second is not None:
        return ["yolov8"] if second > 4 else []
    if third == 6:
        return ["end_to_end", "yolov5"] if classes == 1 else ["end_to_end"]
    return ["yolov5", "yolox"] if third is not None and third > 5 else []


def _one_per_cell(values: int, *, values_last: bool, classes: int | None) -> list[str]:
    """Heads for one box a cell: exports with objectness keep the values last, those without keep them first."""
    if classes is not None:
        with_objectness, without = values == classes + 5, values == classes + 4
        if without:
            return ["yolov8"]
        return ["yolox"] if with_objectness and values_last else ["yolov5"] if with_objectness else []
    return ["yolox"] if values_last else ["yolov8"]
