"""Models made ready for an engine on a GPU: for any number of images where that is possible, of one size.

The image stays as it was exported: kernels write it, normalised. All other sizes are known afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from sightline.errors import ModelError
from sightline_plugins.engines.cache import Entry, ModelCache
from sightline_plugins.engines.device.preparing import Prepared, prepare, with_rows
from sightline_plugins.engines.model_file import content_digest, read_model
from sightline_plugins.engines.onnxruntime import OnnxRuntime
from sightline_plugins.engines.protocol import Precision, TensorSpec
from sightline_plugins.engines.rebatching import random_feeds
from sightline_plugins.engines.simplify.inputs import fix_size

_DATA_DEPENDENT = frozenset({"Compress", "Loop", "NonMaxSuppression", "NonZero", "Scan", "Unique"})
"""Operators whose outputs are as large as what they find."""
_TRIED_ROWS = 2


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
