"""Images made up for a model, and what a model gives for them at any of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from sightline.errors import ModelError
from sightline_plugins.engines.protocol import Array
from sightline_plugins.engines.rebatching import Compute, batch_of, random_feeds
from sightline_plugins.engines.simplify.graph import node
from sightline_plugins.engines.simplify.inputs import find_image_input

_BLOCKS = 12


def sample_feeds(model: onnx.ModelProto, *, input_range: tuple[float, float]) -> list[dict[str, Array]]:
    """Inputs for a few calls: coloured blocks, a gradient, noise, and bright blocks, from a fixed seed."""
    generator = np.random.default_rng(0)
    rows = batch_of(model) or 1
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for entry in fixed.graph.input:
        sizes = entry.type.tensor_type.shape.dim
        if sizes and not sizes[0].HasField("dim_value"):
            sizes[0].dim_value = rows
    others = random_feeds(fixed, rows=rows, old=rows)
    try:
        image_input = find_image_input(fixed)
    except ModelError:
        return [others]
    low, high = input_range
    shape, dtype = others[image_input.entry.name].shape, others[image_input.entry.name].dtype
    images = _images(shape[image_input.height_axis : image_input.height_axis + 2], image_input.channels, generator)
    feeds = []
    for image in images:
        placed = image if image_input.channels_axis == 3 else np.moveaxis(image, -1, 0)
        levels = np.broadcast_to(low + (high - low) * placed, shape).astype(dtype)
        feeds.append({**others, image_input.entry.name: np.ascontiguousarray(levels)})
    return feeds


def outcomes(
    model: onnx.ModelProto,
    names: Sequence[str],
    feeds: Sequence[Mapping[str, Array]],
    *,
    compute: Compute,
    as_largest: bool = False,
) -> dict[str, list[Array]]:
    """The values of these tensors in each call; with `as_largest` only their largest magnitude."""
    if not names:
        return {}
    asked = onnx.ModelProto()
    asked.CopyFrom(model)
    del asked.graph.output[:]
    for name in names:
        given = name
        if as_largest:
            given = f"{name}~largest"
            magnitude = node("Abs", [name], [f"{name}~magnitude"])
            asked.graph.node.extend([magnitude, node("ReduceMax", [magnitude.output[0]], [given], keepdims=0)])
        asked.graph.output.append(onnx.ValueInfoProto(name=given))
    given_values = compute(asked, feeds)
    return {name: [values[place] for values in given_values] for place, name in enumerate(names)}


def _images(size_hw: tuple[int, ...], channels: int, generator: np.random.Generator) -> list[Array]:
    """Images of 0..1, (height, width, channels)."""
    height, width = size_hw
    blocks = generator.random((_BLOCKS, _BLOCKS, channels))
    rows = np.arange(height) * _BLOCKS // height
    columns = np.arange(width) * _BLOCKS // width
    gradient = np.add.outer(np.linspace(0, 0.5, height), np.linspace(0, 0.5, width))
    return [
        blocks[rows][:, columns],
        np.repeat(gradient[..., None], channels, axis=2),
        generator.random((height, width, channels)),
        1 - 0.1 * blocks[::-1][rows][:, columns],
    ]
