"""Another number of images a call than a model was exported with, and the proof that it computes the same.

Engines on the CPU compute one image a call (`make_single`), engines that batch any number (`make_batch_dynamic`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx

from sightline.errors import ModelError
from sightline_plugins.engines.protocol import Array
from sightline_plugins.onnx_graph.batch import rebatch
from sightline_plugins.onnx_graph.graph import Graph
from sightline_plugins.onnx_graph.simplify import COMMON, apply_rules

Feeds = Mapping[str, Array]
Compute = Callable[[onnx.ModelProto, Sequence[Feeds]], list[list[Array]]]
"""Computes a model on several sets of inputs."""
ANY = "batch"
"""What the number of images is called where it is open."""
_OPEN_SIZE = 128
"""Height and width that a model which leaves them open is tried with."""
_TOLERANCES = {"float16": 1e-2}
_TOLERANCE = 1e-3


def batch_of(model: onnx.ModelProto) -> int | None:
    """How many images a model takes: the first size of its first input of rank 2 or more; None where it is open."""
    for entry in model.graph.input:
        sizes = entry.type.tensor_type.shape.dim
        if len(sizes) > 1:
            return sizes[0].dim_value if sizes[0].HasField("dim_value") else None
    return None


def make_single(model: onnx.ModelProto, *, compute: Compute) -> onnx.ModelProto:
    """A model of a fixed number of images for one. Raises ModelError with the reason why it cannot be."""
    return _proven(model, new=1, compute=compute)


def make_batch_dynamic(model: onnx.ModelProto, *, compute: Compute) -> onnx.ModelProto:
    """A model for any number of images. Raises ModelError with the reason why it cannot be.

    One whose batch is open already is given back as it is.
    """
    return model if batch_of(model) is None else _proven(model, new=ANY, compute=compute)


def _proven(model: onnx.ModelProto, *, new: int | str, compute: Compute) -> onnx.ModelProto:
    """The rewritten model, as exported or else simplified first, that computes the same as the original."""
    old = batch_of(model) or 1
    reasons = list[str]()
    for simplified in (False, True):
        start = onnx.ModelProto()
        start.CopyFrom(model)
        del start.graph.value_info[:]
        if simplified:
            graph = Graph(start)
            apply_rules(graph, COMMON)
            start = graph.to_model()
        try:
            rewritten = rebatch(start, old=old, new=new)
            onnx.checker.check_model(rewritten)
            _compare(model, rewritten, old=old, new=new, compute=compute)
        except (ModelError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
            reasons.append(str(error))
        else:
            return rewritten
    raise ModelError(reasons[0])


def _compare(
    original: onnx.ModelProto, rewritten: onnx.ModelProto, *, old: int, new: int | str, compute: Compute
) -> None:
    """Raises ModelError unless both give the same for random images, each row of the outputs for its image."""
    count = old if old > 1 else 3
    feeds = random_feeds(original, rows=count, old=old)
    expected = _joined(compute(original, _portions(feeds, of=old, like=original, old=old)))
    portion = count if isinstance(new, str) else new
    found = _joined(compute(rewritten, _portions(feeds, of=portion, like=original, old=old)))
    for output, one, other in zip(original.graph.output, found, expected, strict=True):
        if one.shape != other.shape or len(one) != count or not close(one, other):
            raise ModelError(f"rewritten for another number of images, its output {output.name!r} is another one")


def random_feeds(model: onnx.ModelProto, *, rows: int, old: int) -> dict[str, Array]:
    """Inputs of `rows` images: levels for integers of one byte, sizes for larger ones, 0..1 for the rest."""
    generator = np.random.default_rng(0)
    feeds = dict[str, Array]()
    for entry in model.graph.input:
        kind = entry.type.tensor_type
        sizes = [size.dim_value if size.HasField("dim_value") else _OPEN_SIZE for size in kind.shape.dim]
        if sizes and sizes[0] == old:
            sizes[0] = rows
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
        if dtype.kind in "iu":
            feeds[entry.name] = generator.integers(0, 127 if dtype.itemsize == 1 else 320, sizes).astype(dtype)
        else:
            feeds[entry.name] = generator.random(sizes).astype(dtype)
    return feeds


def close(one: Array, other: Array) -> bool:
    """Whether two outputs are the same but for rounding: next to all whole numbers, all others within a thousandth."""
    if one.dtype.kind not in "fc":
        return bool(np.mean(one == other) >= 0.98) if one.size else True
    tolerance = _TOLERANCES.get(one.dtype.name, _TOLERANCE)
    wanted = other.astype(np.float64)
    largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=1e-6))
    return bool(np.allclose(one.astype(np.float64), wanted, rtol=0, atol=tolerance * largest, equal_nan=True))


def _portions(feeds: Feeds, *, of: int, like: onnx.ModelProto, old: int) -> list[dict[str, Array]]:
    """The images in portions; inputs without images go with each."""
    carrying = {
        entry.name
        for entry in like.graph.input
        if entry.type.tensor_type.shape.dim and entry.type.tensor_type.shape.dim[0].dim_value == old
    }
    count = max((len(feeds[name]) for name in carrying), default=1)
    return [
        {name: value[start : start + of] if name in carrying else value for name, value in feeds.items()}
        for start in range(0, count, of)
    ]


def _joined(runs: list[list[Array]]) -> list[Array]:
    try:
        return [np.concatenate(parts) for parts in zip(*runs, strict=True)]
    except ValueError as error:
        raise ModelError("its outputs do not have one row an image") from error
