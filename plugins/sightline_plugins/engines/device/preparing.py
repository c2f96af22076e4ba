"""From the model as exported to the model that a GPU computes: any number of images, fixed sizes, its precision.

What is changed is proven on the CPU: ONNX Runtime computes the model as exported and as changed, and what does not
agree is left as it was. Only a precision that was asked for and cannot be had is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime as ort

from sightline.errors import ModelError
from sightline_plugins.engines.device.half import to_half
from sightline_plugins.engines.onnxruntime import OnnxRuntime
from sightline_plugins.engines.protocol import Array, Precision
from sightline_plugins.engines.rebatching import ANY, Compute, batch_of, close, make_batch_dynamic, random_feeds
from sightline_plugins.engines.simplify import simplify
from sightline_plugins.engines.simplify.inputs import fix_batch

_QUANTIZES = "QuantizeLinear"
_TRIED_ROWS = 2
_TURNED_DOWN = (ModelError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError)


class Reference(OnnxRuntime):
    """ONNX Runtime on the CPU, computing graphs as they are.

    Its rewriting would hide what FP16 rounds, and has ended the process on models in FP16.
    """

    def compile(self, content: bytes, *, label: str) -> ort.InferenceSession:
        """The model, ready to compute. Raises ModelError."""
        return self.load(content, label=label)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model to compile. `rows` is the number of images that it takes; None for any number."""

    model: onnx.ModelProto
    rows: int | None


def prepare(parsed: onnx.ModelProto, *, precision: Precision, input_range: tuple[float, float], label: str) -> Prepared:
    """The model for a GPU. Its sizes are fixed before (`fix_size`); `parsed` may change.

    `input_range` is what the image input takes, from the darkest to the brightest level. Raises ModelError where the
    precision cannot be had.
    """
    library = Reference(concurrency=1)
    opened = _with_open_rows(parsed, library=library)
    model = _simplified(opened.model, library=library)
    try:
        is_quantised = any(node.op_type == _QUANTIZES for node in model.graph.node)
        if precision == "int8" and not is_quantised:
            raise ModelError("precision int8 needs a quantised model: sightline quantize makes one")
        if precision == "fp16" and is_quantised:
            raise ModelError("it is quantised, and FP16 would undo that: use precision: int8")
        if precision == "fp16":
            model = to_half(model, compute=library.compute, input_range=input_range)
    except _TURNED_DOWN as error:
        raise ModelError(f"{label}: {error}") from error
    return Prepared(model, opened.rows)


def _with_open_rows(model: onnx.ModelProto, *, library: Reference) -> Prepared:
    """The model for any number of images where it can be, else for the number that it was exported for."""
    rows = batch_of(model)
    if rows is None and _takes_any_number(model, library=library):
        return Prepared(_named(model), None)
    if rows is None:
        rows = 1
        fix_batch(model)
    original = onnx.ModelProto()
    original.CopyFrom(model)
    try:
        opened = make_batch_dynamic(model, compute=library.compute)
    except ModelError:
        return Prepared(original, rows)
    is_independent = rows == 1 or _takes_any_number(opened, library=library)
    return Prepared(opened, None) if is_independent else Prepared(original, rows)


def _takes_any_number(model: onnx.ModelProto, *, library: Reference) -> bool:
    """Whether several images at once give what they give one by one."""
    feeds = random_feeds(with_rows(model, _TRIED_ROWS), rows=_TRIED_ROWS, old=_TRIED_ROWS)
    open_inputs = {entry.name for entry in model.graph.input if _is_open(entry)}
    one_by_one = [
        {name: value[row : row + 1] if name in open_inputs else value for name, value in feeds.items()}
        for row in range(_TRIED_ROWS)
    ]
    try:
        [together], *_ = [library.compute(model, [feeds])]
        single = library.compute(model, one_by_one)
    except ModelError:
        return False
    return all(
        len(whole) == _TRIED_ROWS and whole.shape == rows.shape and close(whole, rows)
        for whole, rows in zip(together, _stacked(single), strict=True)
    )


def _stacked(runs: Sequence[Sequence[Array]]) -> list[Array]:
    """The outputs of several runs, row after row; nothing fits where their sizes differ."""
    try:
        return [np.concatenate(parts) for parts in zip(*runs, strict=True)]
    except ValueError:
        return [np.empty(0) for _ in runs[0]]


def with_rows(model: onnx.ModelProto, rows: int) -> onnx.ModelProto:
    """A copy that takes so many images where any number is open."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for entry in copy.graph.input:
        if _is_open(entry):
            entry.type.tensor_type.shape.dim[0].dim_value = rows
    return copy


def _named(model: onnx.ModelProto) -> onnx.ModelProto:
    """All inputs with one name for the number of images, which TensorRT takes to be the same number then."""
    for entry in model.graph.input:
        if _is_open(entry):
            entry.type.tensor_type.shape.dim[0].dim_param = ANY
    return model


def _is_open(entry: onnx.ValueInfoProto) -> bool:
    sizes = entry.type.tensor_type.shape.dim
    return bool(sizes) and not sizes[0].HasField("dim_value")


def _simplified(model: onnx.ModelProto, *, library: Reference) -> onnx.ModelProto:
    """The model rewritten into what computes the same faster; as it was where that cannot be shown."""
    original = onnx.ModelProto()
    original.CopyFrom(model)
    try:
        simpler = simplify(model, engine="onnxruntime")
        onnx.checker.check_model(simpler)
        agrees = _agree(original, simpler, compute=library.compute)
    except _TURNED_DOWN:
        return original
    return simpler if agrees else original


def _agree(
    one: onnx.ModelProto,
    other: onnx.ModelProto,
    *,
    compute: Compute,
) -> bool:
    """Whether two models give the same for random images."""
    fixed = with_rows(one, _TRIED_ROWS)
    feeds = random_feeds(fixed, rows=_TRIED_ROWS, old=_TRIED_ROWS)
    [expected], [found] = compute(one, [feeds]), compute(other, [feeds])
    return all(a.shape == b.shape and close(a, b) for a, b in zip(found, expected, strict=True))
