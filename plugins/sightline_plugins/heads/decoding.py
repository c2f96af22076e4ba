"""Steps that decoders share: arrange outputs as tables, list cells and anchors, select scores, make boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sightline.errors import ModelError
from sightline.media.boxes import Boxes, xyxy_from_cxcywh
from sightline_plugins.heads.head import Array, DecodeContext, Shape, Signature, SizeWh
from sightline_plugins.nms.options import MAX_CANDIDATES

Floats = npt.NDArray[np.float32]
Index = npt.NDArray[np.intp]

PYRAMIDS = ((8, 16, 32), (8, 16, 32, 64))
"""Usual strides of networks with one box (or three) in each cell."""

# Outputs as tables with a row for each box.


def rows_of(output: Array, width: int) -> Array:
    """Return the output of one image as (boxes, width).

    (1, boxes, width), (boxes, width) and flat outputs are reshaped, (1, width, boxes) is transposed; a map
    (1, k * width, rows, columns) gives k boxes a cell, cell by cell, row by row. Raises ModelError otherwise.
    """
    if output.ndim == 4 and output.shape[1] % width == 0:
        _, channels, rows, columns = output.shape
        cells = output.reshape(channels // width, width, rows, columns)
        return cells.transpose(2, 3, 0, 1).reshape(-1, width)
    if output.ndim == 3 and output.shape[2] != width and output.shape[1] == width:
        return output.reshape(output.shape[1:]).T
    if output.size % width:
        raise ModelError(f"an output of shape {output.shape} does not hold {width} values for each box")
    return output.reshape(-1, width)


def width_of(shape: Shape | Sequence[int]) -> int | None:
    """Return the number of values of a row, or of a cell of a map (rank 4); None when the size is open."""
    return shape[1] if len(shape) == 4 else shape[-1]


def levels_of(outputs: Iterable[Array], width: int) -> Array:
    """Return outputs of several levels as one table (boxes, width), the finest level first."""
    tables = sorted((rows_of(output, width) for output in outputs), key=len, reverse=True)
    return tables[0] if len(tables) == 1 else np.concatenate(tables)


def named(outputs: Sequence[Array], context: DecodeContext, *parts: str) -> list[int]:
    """Return the places of the outputs whose names contain one of these parts, ignoring case."""
    if len(context.outputs) != len(outputs):
        return []
    return [place for place, name in enumerate(context.outputs) if any(part in name.lower() for part in parts)]


def shapes_text(outputs: Sequence[Array]) -> str:
    """Return the shapes of outputs for error messages."""
    return ", ".join(str(output.shape) for output in outputs)


def is_dense_pair(signature: Signature) -> bool:
    """Return whether the outputs are tables (1, n, 4) and (1, n, m) with the same known number of rows."""
    shapes = signature.shapes
    if [len(shape) for shape in shapes] != [3, 3] or shapes[0][1] != shapes[1][1]:
        return False
    widths = shapes[0][2], shapes[1][2]
    return shapes[0][1] is not None and 4 in widths and None not in widths


# Cells of feature pyramids, and anchors in them.


class Cells(NamedTuple):
    """All cells of a feature pyramid, the finest grid first, row by row; read-only arrays.

    corner  float32 (N, 2) column and row
    stride  float32 (N, 1) pixels of the network's input from one cell to the next
    """

    corner: Floats
    stride: Floats


@lru_cache(maxsize=64)
def cells_of(size_wh: SizeWh, strides: tuple[int, ...], *, each: int = 1, partial: bool = True) -> Cells:
    """Return the cells of grids with these strides, each cell `each` times.

    `partial` includes the cells at the right and lower edge that the input fills only partly.
    """
    corners, sizes = [], []
    for stride in strides:
        columns, rows = _grid(size_wh, stride, partial=partial)
        x, y = np.meshgrid(np.arange(columns), np.arange(rows))
        corners.append(np.stack([x.ravel(), y.ravel()], axis=1))
        sizes.append(np.full((columns * rows, 1), stride))
    corner = np.repeat(np.concatenate(corners), each, axis=0).astype(np.float32)
    stride_of = np.repeat(np.concatenate(sizes), each, axis=0).astype(np.float32)
    corner.flags.writeable = stride_of.flags.writeable = False
    return Cells(corner, stride_of)


def count_cells(size_wh: SizeWh, strides: Sequence[int], *, partial: bool = True) -> int:
    """Return the number of cells of grids with these strides; see `cells_of`."""
    grids = (_grid(size_wh, stride, partial=partial) for stride in strides)
    return sum(columns * rows for columns, rows in grids)


def _grid(size_wh: SizeWh, stride: int, *, partial: bool) -> SizeWh:
    width, height = size_wh
    return (-(-width // stride), -(-height // stride)) if partial else (width // stride, height // stride)


def anchor_boxes(
    size_wh: SizeWh, strides: Sequence[int], sizes: Iterable[npt.NDArray[np.float64]], *, offset: float
) -> Floats:
    """Return anchors (N, 4), centre, width and height in pixels, level by level, row by row; read-only.

    `sizes` holds the widths and heights (n, 2) of the anchors in each cell of a level. Their common centre lies at
    `offset` in the cell: 0 is its upper left corner, 0.5 its middle.
    """
    levels = []
    for stride, of_level in zip(strides, sizes, strict=True):
        corner = cells_of(size_wh, (stride,), each=len(of_level)).corner.astype(np.float64)
        of_cells = np.tile(of_level, (len(corner) // len(of_level), 1))
        levels.append(np.concatenate([(corner + offset) * stride, of_cells], axis=1))
    boxes = np.concatenate(levels).astype(np.float32)
    boxes.flags.writeable = False
    return boxes


def check_count(head: str, size_wh: SizeWh, *, expected: int, found: int) -> None:
    """Raise ModelError when the number of boxes in the outputs is not that of the grids."""
    if expected != found:
        raise ModelError(
            f"head {head}: an input of {size_wh[0]}x{size_wh[1]} has {expected} boxes, the model's outputs have "
            f"{found}: another input size, other head_options or another head is needed"
        )


# Boxes and points from offsets.


def boxes_from_distances(points: Floats, distances: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return boxes (N, 4) from points (N, 2) and distances to left, top, right and bottom (N, 4), all in pixels."""
    return np.concatenate([points - distances[:, :2], points + distances[:, 2:]], axis=1)


def boxes_from_offsets(
    offsets: npt.NDArray[np.floating], priors: npt.NDArray[np.floating], *, variances: tuple[float, float]
) -> Boxes:
    """Return boxes (N, 4) as x1, y1, x2, y2 in the units of `priors` (N, 4), which are centre, width and height.

    `offsets` (N, 4) shift the centre in fractions of the prior's size and hold the logarithm of the change of size,
    both divided by a variance (W. Liu et al., "SSD: Single Shot MultiBox Detector", 2016).
    """
    near, far = variances
    centre = priors[:, :2] + offsets[:, :2] * near * priors[:, 2:]
    with np.errstate(over="ignore", invalid="ignore"):
        size = priors[:, 2:] * np.exp(offsets[:, 2:] * far)
        return xyxy_from_cxcywh(np.concatenate([centre, size], axis=1).astype(np.float32))


# Scores.

_SAMPLE = 64
"""Number of rows that decide whether scores are probabilities."""
_LOWEST = float(np.finfo(np.float32).min)
_SUM_TOLERANCE = 0.02
"""Tolerance of a sum of probabilities in half precision."""
_RANGE_TOLERANCE = 1e-3
_PROBABILITY_OPS = frozenset({"Softmax", "Sigmoid", "HardSigmoid"})
_LOGIT_OPS = frozenset({"Add", "Conv", "Gemm", "MatMul"})


def is_probability_op(op_type: str) -> bool | None:
    """Return whether an operator gives probabilities; None when its type does not tell."""
    return True if op_type in _PROBABILITY_OPS else False if op_type in _LOGIT_OPS else None


def are_in_unit_range(values: Array) -> bool:
    """Return whether all values are within 0..1."""
    return values.size == 0 or bool(values.min() >= -_RANGE_TOLERANCE and values.max() <= 1 + _RANGE_TOLERANCE)


def sum_to_one(values: Array) -> bool:
    """Return whether all rows (..., C) are within 0..1 and sum to 1."""
    return are_in_unit_range(values) and bool(
        (np.abs(values.sum(axis=-1, dtype=np.float64) - 1) <= _SUM_TOLERANCE).all()
    )


def are_logits(
    scores: Array, *, form: str, op_type: str = "", looks_like: Callable[[Array], bool] = are_in_unit_range
) -> bool:
    """Return whether scores are raw, by an option `form`: `auto`, `probabilities`, or else raw.

    `auto` asks the operator that produces them, and where that does not tell, whether they look like probabilities.
    """
    if form != "auto":
        return form != "probabilities"
    known = is_probability_op(op_type)
    return not (looks_like(scores) if known is None else known)


def softmax(logits: Array) -> Floats:
    """Return the softmax over the last axis; logarithms of probabilities give those probabilities."""
    values = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
    shares: Floats = (values / values.sum(axis=-1, keepdims=True)).astype(np.float32)
    return shares


def sigmoid(logits: Array) -> Floats:
    """Return the logistic function, without overflow."""
    shares: Floats = (0.5 + 0.5 * np.tanh(logits.astype(np.float64) / 2)).astype(np.float32)
    return shares


def logit(probability: float) -> float:
    """Return the logit of a probability; the lowest finite float32 for 0."""
    if probability <= 0:
        return _LOWEST
    return math.inf if probability >= 1 else math.log(probability / (1 - probability))


def exponential(values: Array) -> Floats:
    """Return the exponential, rounded once from float64, so that every machine gives the same value."""
    powers: Floats = np.exp(values.astype(np.float64)).astype(np.float32)
    return powers


class Selection(NamedTuple):
    """Pairs of a box and a class, columns (M,): a box above the limit in two classes appears twice."""

    rows: Index
    class_id: Index
    confidence: Floats


def select_pairs(scores: Array, confidence: float, *, logits: bool) -> Selection:
    """Return the boxes and classes (rows and columns of `scores`) with at least that confidence.

    Of more than `MAX_CANDIDATES` pairs only the best are returned: suppression uses no more.
    """
    limit = logit(confidence) if logits else confidence
    rows, class_id = np.divmod(np.flatnonzero(scores >= limit), scores.shape[1])
    found = scores[rows, class_id].astype(np.float32)
    if len(found) > MAX_CANDIDATES:
        best = np.sort(np.argsort(-found, kind="stable")[:MAX_CANDIDATES])
        rows, class_id, found = rows[best], class_id[best], found[best]
    return Selection(rows, class_id, sigmoid(found) if logits else found)


def select_classes(scores: Array, confidence: float, *, background: int, form: str, op_type: str = "") -> Selection:
    """Return what `select_pairs` does for exclusive scores (boxes, 1 + classes).

    `background` is the column of the background, 0 or -1; class ids count without it.
    """
    classes = slice(1, None) if background == 0 else slice(-1)
    others = scores[:, classes]
    if not are_logits(scores[:_SAMPLE], form=form, op_type=op_type, looks_like=sum_to_one):
        return select_pairs(others, confidence, logits=False)
    likely = np.flatnonzero((others.max(axis=1) - scores[:, background]) >= logit(confidence))
    shares = softmax(scores[likely]) if len(likely) else scores[likely]
    rows, class_id, found = select_pairs(shares[:, classes], confidence, logits=False)
    return Selection(likely[rows], class_id, found)


def at_least(scores: Array, confidence: float) -> Index:
    """Return the places of scores (N,) with at least that confidence and above 0, which is the score of padding."""
    return np.flatnonzero(scores >= max(confidence, np.finfo(np.float32).tiny))
