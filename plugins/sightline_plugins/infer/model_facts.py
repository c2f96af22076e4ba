"""What a model file says about itself: inputs, outputs and metadata, without loading an engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from sightline.errors import ModelError
from sightline_plugins.infer.engines.model_file import read_model
from sightline_plugins.infer.engines.protocol import TensorSpec

SizeWh = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Inputs and outputs as the file declares them, and its `metadata_props`."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """Where a detector takes its picture, and where, if anywhere, the size of the picture (width, height).

    `width` and `height` are None where the model leaves them open.
    """

    picture: int
    width: int | None
    height: int | None
    size: int | None


def read_facts(path: Path) -> ModelFacts:
    """The facts of an ONNX file. Raises ModelError when it is missing, damaged or no ONNX file."""
    model, label = read_model(path)
    constants = {tensor.name for tensor in model.graph.initializer}
    return ModelFacts(
        inputs=_specs((entry for entry in model.graph.input if entry.name not in constants), label),
        outputs=_specs(model.graph.output, label),
        metadata={entry.key: entry.value for entry in model.metadata_props},
    )


def find_inputs(specs: tuple[TensorSpec, ...]) -> ModelInputs:
    """What to feed where. Raises ModelError unless there is one picture of three channels, and a size at most."""
    pictures = [number for number, spec in enumerate(specs) if _channels_axis(spec) is not None]
    sizes = [number for number, spec in enumerate(specs) if len(spec.shape) == 2 and spec.shape[1] == 2]
    if len(pictures) != 1 or len(sizes) > 1 or len(pictures) + len(sizes) != len(specs):
        raise ModelError(
            "detect feeds one picture of 3 channels (1, 3, height, width) or (1, height, width, 3), and the picture's "
            f"size (1, 2) where a model wants it; this model takes {'; '.join(map(str, specs))}"
        )
    picture = specs[pictures[0]]
    if picture.shape[0] not in (None, 1):
        raise ModelError(f"takes {picture.shape[0]} pictures at once ({picture}); export it with batch 1 or dynamic")
    height, width = picture.shape[2:] if _channels_axis(picture) == 1 else picture.shape[1:3]
    return ModelInputs(pictures[0], width, height, sizes[0] if sizes else None)


def _channels_axis(spec: TensorSpec) -> int | None:
    return next((axis for axis in (1, 3) if len(spec.shape) == 4 and spec.shape[axis] == 3), None)


def _specs(entries: Iterable[onnx.ValueInfoProto], label: str) -> tuple[TensorSpec, ...]:
    return tuple(_spec(entry, label) for entry in entries)


def _spec(entry: onnx.ValueInfoProto, label: str) -> TensorSpec:
    kind = entry.type.tensor_type
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
    except KeyError:
        raise ModelError(f"{label}: {entry.name!r} is no tensor of numbers") from None
    sizes = tuple(size.dim_value if size.HasField("dim_value") else None for size in kind.shape.dim)
    return TensorSpec(entry.name, sizes, dtype)
