"""Models exported for a fixed number of images, rewritten for another number, or for any.

The number stands in the inputs and, where an exporter wrote it down, in constants: targets of `Reshape` and `Expand`,
sizes of `Resize`, constants with one row an image. Shapes are inferred once as exported and once for another number of
images; where they differ, a tensor carries the images. A target is rewritten only where its meaning for any number
follows from that: `0` (as large as the input) where input and target agree, `-1` (what is left) where the target is a
multiple of the number and all its other entries are known.

Whether the result computes the same is for the caller to find out (`rebatching.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import NodeProto

from sightline.errors import ModelError
from sightline_plugins.onnx_graph.constants import store_constants
from sightline_plugins.onnx_graph.graph import Graph, attribute, node

PROBE = 7
"""Another number of images than models are exported with."""
Sizes = tuple[int | None, ...]
Shapes = Mapping[str, Sizes]
_ELEMENTWISE = frozenset({"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Where", "Mod", "PRelu"})


def rebatch(model: onnx.ModelProto, *, old: int, new: int | str) -> onnx.ModelProto:
    """`model`, which takes `old` images, for `new` images; a name stands for any number. `model` may change.

    Raises ModelError naming the tensor at which the number of images cannot be changed.
    """
    graph = Graph(model)
    store_constants(graph)
    before = _shapes(graph)
    carrying = [entry for entry in model.graph.input if before.get(entry.name, (None,))[:1] == (old,)]
    outputs = {entry.name for entry in model.graph.output}
    probe = PROBE * 2 if old == PROBE else PROBE
    for entry in carrying:
        entry.type.tensor_type.shape.dim[0].dim_value = probe
    for entry in model.graph.output:
        entry.type.tensor_type.ClearField("shape")
    after = _shapes(graph)
    while _rewrite(graph, before, after, old=old, new=new):
        graph.refresh()
        after = _shapes(graph)
    contradicted = before.keys() - after.keys() - outputs
    if contradicted or any(after.get(name, ())[:1] not in ((), (None,), (probe,)) for name in outputs):
        raise ModelError(_baked_in(graph, before, after, old=old))
    for entry in carrying:
        _set(entry, new)
    rewritten = graph.to_model()
    for entry in rewritten.graph.output:
        _declare(entry, before.get(entry.name, ()), new)
    return rewritten


def _shapes(graph: Graph) -> Shapes:
    """The sizes of all tensors, None where they are open."""
    inferred = onnx.shape_inference.infer_shapes(graph.outline(), data_prop=True).graph
    shapes: dict[str, Sizes] = {}
    for entry in (*inferred.input, *inferred.value_info, *inferred.output):
        kind = entry.type.tensor_type
        if kind.HasField("shape"):
            shapes[entry.name] = tuple(n.dim_value if n.HasField("dim_value") else None for n in kind.shape.dim)
    return shapes


def _set(entry: onnx.ValueInfoProto, new: int | str) -> None:
    size = entry.type.tensor_type.shape.dim[0]
    if isinstance(new, int):
        size.dim_value = new
    else:
        size.dim_param = new


def _declare(entry: onnx.ValueInfoProto, sizes: Sizes, new: int | str) -> None:
    """Writes the shape of an output down: the new number, then what was known before."""
    entry.type.tensor_type.ClearField("shape")
    for place, size in enumerate(sizes):
        added = entry.type.tensor_type.shape.dim.add()
        if place and size is not None:
            added.dim_value = size
    if sizes:
        _set(entry, new)


def _image_axis(name: str, before: Shapes, after: Shapes) -> int | None:
    """The axis of a tensor along which its images lie; None where it carries none, or that is not known."""
    old, new = before.get(name), after.get(name)
    if old is None or new is None or len(old) != len(new):
        return None
    axes = [axis for axis, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
    return axes[0] if len(axes) == 1 else None


def _rewrite(graph: Graph, before: Shapes, after: Shapes, *, old: int, new: int | str) -> bool:
    """Rewrites what can be rewritten now; whether anything was."""
    changed = False
    for entry in graph.nodes:
        if entry.op_type in {"Reshape", "Expand"}:
            changed |= _target(graph, entry, before, after, old=old)
        elif entry.op_type == "Resize":
            changed |= _sizes(graph, entry, before, after)
        elif entry.op_type in _ELEMENTWISE or entry.op_type == "Concat":
            changed |= _rows(graph, entry, before, after, old=old, new=new)
    return changed


def _target(graph: Graph, entry: NodeProto, before: Shapes, after: Shapes, *, old: int) -> bool:
    axis, target = _image_axis(entry.input[0], before, after), graph.constant(entry.input[1])
    if axis is None or target is None or axis >= len(target) or attribute(entry, "allowzero", 0):
        return False
    size = before[entry.input[0]][axis]
    written = target.copy()
    if entry.op_type == "Expand":
        if len(target) != len(before[entry.input[0]]) or target[axis] != size or size == 1:
            return False
        written[axis] = 1
    elif target[axis] == size:
        written[axis] = 0
    elif target[axis] > 0 and target[axis] % old == 0 and -1 not in target:
        written[axis] = -1
    else:
        return False
    entry.input[1] = graph.add_constant(written, like=entry.input[1])
    return True


def _sizes(graph: Graph, entry: NodeProto, before: Shapes, after: Shapes) -> bool:
    """A `Resize` to sizes becomes one by factors, where these give exactly the sizes."""
    if len(entry.input) < 4 or not entry.input[3] or attribute(entry, "axes") is not None:
        return False
    source, sizes = before.get(entry.input[0]), graph.constant(entry.input[3])
    if _image_axis(entry.input[0], before, after) != 0 or source is None or sizes is None or None in source:
        return False
    given = np.array(source, np.float64)
    factors = (sizes / given).astype(np.float32)
    if sizes[0] != source[0] or not np.array_equal(np.floor(given * factors), sizes):
        return False
    made = node("Resize", [*entry.input[:2], graph.add_constant(factors, like=entry.input[3])], list(entry.output))
    made.attribute.extend(entry.attribute)
    graph.replace([entry], [made])
    return True


def _rows(graph: Graph, entry: NodeProto, before: Shapes, after: Shapes, *, old: int, new: int | str) -> bool:
    """Constants with one equal row an image keep a single one; to be joined with images, one an image."""
    joined = entry.op_type == "Concat"
    if joined and (new != 1 or attribute(entry, "axis") == 0):
        return False
    ranks = [len(before[name]) for name in entry.input if _image_axis(name, before, after) == 0]
    changed = False
    for place, name in enumerate(entry.input):
        value = graph.constant(name)
        if old == 1 or not ranks or value is None or value.ndim != max(ranks) or len(value) != old:
            continue
        if all(np.array_equal(value[0], row) for row in value[1:]):
            entry.input[place] = graph.add_constant(value[:1], like=name)
            changed = True
    return changed


def _baked_in(graph: Graph, before: Shapes, after: Shapes, *, old: int) -> str:
    """Where the images get lost: the first node that reads them and gives none."""
    for entry in graph.nodes:
        reads = any(_image_axis(name, before, after) is not None for name in entry.input)
        if reads and all(after.get(name) in (None, before.get(name)) for name in entry.output):
            return f"its {entry.op_type} that makes {entry.output[0]!r} is written for exactly {old} image(s)"
    return f"it is written for exactly {old} image(s)"
