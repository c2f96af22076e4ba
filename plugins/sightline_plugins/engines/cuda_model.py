"""Prepare a model for an engine that computes batches in CUDA memory.

What is changed is proven on the CPU: ONNX Runtime computes the model as exported and as changed, and what does not
agree is left as it was. Only a precision that was asked for and cannot be had is refused.

The image stays as it was exported: kernels write it, normalised. All other sizes are known afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from sightline.errors import ModelError
from sightline.media.device_array import DeviceArray
from sightline_plugins.engines.cache import Entry, ModelCache
from sightline_plugins.engines.half import to_half
from sightline_plugins.engines.model_file import content_digest, read_model
from sightline_plugins.engines.onnxruntime import OnnxRuntime
from sightline_plugins.engines.protocol import Array, CudaEngine, Precision, TensorSpec
from sightline_plugins.engines.rebatching import ANY, Compute, batch_of, close, make_batch_dynamic, random_feeds
from sightline_plugins.onnx_graph.inputs import fix_batch, fix_size
from sightline_plugins.onnx_graph.simplify import COMMON, rewrite

ALIGNMENT_BYTES = 256
"""What TensorRT asks of addresses."""


def check_bound(
    engine: CudaEngine, inputs: Sequence[DeviceArray], outputs: Sequence[DeviceArray], *, label: str
) -> int:
    """How many images these arrays are for. Raises ModelError unless they are what the engine takes and gives."""
    rows = inputs[0].shape[0] if inputs and inputs[0].shape else 0
    if not 1 <= rows <= engine.most_rows:
        raise ModelError(f"{label}: it computes 1 to {engine.most_rows} images at once, {rows} given")
    _check(inputs, engine.inputs, rows=rows, label=label)
    _check(outputs, engine.outputs, rows=rows, label=label)
    return rows


def _check(arrays: Sequence[DeviceArray], specs: Sequence[TensorSpec], *, rows: int, label: str) -> None:
    if len(arrays) != len(specs):
        wanted = "; ".join(map(str, specs))
        raise ModelError(f"{label}: {len(specs)} arrays are needed ({wanted}), {len(arrays)} given")
    for array, spec in zip(arrays, specs, strict=True):
        shape = (spec.shape[0] or rows, *spec.shape[1:]) if spec.shape else ()
        if array.shape != shape or array.dtype != spec.dtype:
            raise ModelError(f"{label}: {spec} expected, {array.dtype.name} {array.shape} given")
        if not array.is_dense or array.address % ALIGNMENT_BYTES:
            raise ModelError(
                f"{label}: memory for {spec} must be dense and begin at a multiple of {ALIGNMENT_BYTES} bytes"
            )


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
        simpler = rewrite(model, COMMON)
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


_DATA_DEPENDENT = frozenset({"Compress", "Loop", "NonMaxSuppression", "NonZero", "Scan", "Unique"})
"""Operators whose outputs are as large as what they find."""


@dataclass(frozen=True, slots=True)
class BatchModel:
    """A model ready for a GPU.

    `content` is an ONNX file. The first size of `inputs` and `outputs` is None where it takes any number of images,
    else that number; all others are fixed. `label` names it in messages.
    """

    content: bytes
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    label: str

    @property
    def rows(self) -> int | None:
        """How many images it takes; None for any number."""
        return self.inputs[0].shape[0]


def prepare_batches(
    model: str | Path | bytes,
    *,
    size_wh: tuple[int, int],
    precision: Precision,
    input_range: tuple[float, float],
    cache: ModelCache,
) -> BatchModel:
    """The model of a file, or of its bytes, for images of that size; kept in the cache.

    `input_range` is what its image input takes, from the darkest to the brightest level. Raises ModelError where the
    precision cannot be had, and where the model cannot be computed in batches on a GPU: what it gives depends in its
    size on what it sees, or not every output has one row an image.
    """
    parsed, label = read_model(model)
    settings = {"size_wh": size_wh, "precision": precision, "input_range": input_range}
    key = {"model": content_digest(parsed), "prepared": "batches", **settings}

    def load(entry: Entry) -> BatchModel:
        inputs, outputs = (tuple(_spec_of(told) for told in entry.notes[name]) for name in ("inputs", "outputs"))
        return BatchModel(entry.content, inputs, outputs, label)

    def make() -> BatchModel:
        _check_sizes(parsed, label=label)
        fix_size(parsed, size_wh)
        made = prepare(parsed, precision=precision, input_range=input_range, label=label)
        inputs = tuple(_declared(entry, rows=made.rows, label=label) for entry in made.model.graph.input)
        outputs = _computed(made, label=label)
        return BatchModel(made.model.SerializeToString(), inputs, outputs, label)

    def dump(made: BatchModel) -> Entry:
        notes = {"inputs": [_told(spec) for spec in made.inputs], "outputs": [_told(spec) for spec in made.outputs]}
        return Entry(made.content, notes)

    return cache.obtain(key, load=load, make=make, dump=dump)[0]


def _check_sizes(parsed: onnx.ModelProto, *, label: str) -> None:
    """Raise ModelError for a model whose outputs are as large as what it finds."""
    found = sorted({node.op_type for node in parsed.graph.node} & _DATA_DEPENDENT)
    if found:
        told = f"what it gives is as large as what it finds ({', '.join(found)})"
        raise ModelError(f"{label}: {told}, which is not computed in batches on a GPU")


def _computed(made: Prepared, *, label: str) -> tuple[TensorSpec, ...]:
    """The outputs, as a run of the model gives them."""
    tried = made.rows or _TRIED_ROWS
    feeds = random_feeds(with_rows(made.model, tried), rows=tried, old=tried)
    [arrays] = OnnxRuntime(concurrency=1).compute(made.model, [feeds])
    names = [entry.name for entry in made.model.graph.output]
    for name, array in zip(names, arrays, strict=True):
        if array.shape[:1] != (tried,):
            raise ModelError(f"{label}: output {name!r} does not have one row an image, but the shape {array.shape}")
    return tuple(
        TensorSpec(name, (made.rows, *array.shape[1:]), array.dtype) for name, array in zip(names, arrays, strict=True)
    )


def _declared(entry: onnx.ValueInfoProto, *, rows: int | None, label: str) -> TensorSpec:
    kind = entry.type.tensor_type
    sizes = [size.dim_value for size in kind.shape.dim]
    if not all(sizes[1:]):
        raise ModelError(f"{label}: input {entry.name!r} leaves sizes open besides the number of images")
    return TensorSpec(entry.name, (rows, *sizes[1:]), np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)))


def _told(spec: TensorSpec) -> list[Any]:
    return [spec.name, list(spec.shape), spec.dtype.str]


def _spec_of(told: Sequence[Any]) -> TensorSpec:
    name, shape, dtype = told
    return TensorSpec(name, tuple(shape), np.dtype(dtype))
