"""The model that is to be quantised: read, refused where it cannot be, and made ready for the quantiser."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
import onnxruntime as ort
from onnx import TensorProto

from sightline.errors import ModelError
from sightline_plugins.engines.model_file import metadata_of, read_model
from sightline_plugins.engines.onnxruntime import FAILURES, FATAL_ONLY, ON_CPU
from sightline_plugins.engines.simplify.inputs import find_image_input
from sightline_plugins.engines.simplify.quantized import is_quantized
from sightline_plugins.quantize.places import Places, find_places, name_nodes

LEAST_OPSET = 13
"""From here on scales may differ from channel to channel."""


@dataclass(frozen=True, slots=True, eq=False)
class SourceModel:
    """A float32 model, simplified as far as ONNX Runtime does it for every processor, and where it can be quantised.

    `image` names the input that takes the image; `channels_first` says how it wants it.
    """

    path: Path
    model: onnx.ModelProto
    places: Places
    image: str
    channels_first: bool


def read_source(path: Path, *, folder: Path) -> SourceModel:
    """The model of a file; `folder` is for files on the way. Raises ModelError naming what stands against it."""
    model, label = read_model(path)
    if is_quantized(model):
        raise ModelError(f"{label}: is quantised already: give the float32 file that it was made from")
    if any(tensor.data_type == TensorProto.FLOAT16 for tensor in model.graph.initializer):
        raise ModelError(f"{label}: holds float16 weights: give its float32 export")
    metadata = dict(metadata_of(model))
    try:
        ready = _simplified(_converted(model, label=label), folder=folder, label=label)
        image = find_image_input(ready)
    except ModelError as error:
        raise ModelError(str(error) if label in str(error) else f"{label}: {error}") from error
    name_nodes(ready)
    places = find_places(ready)
    if not places.learned:
        raise ModelError(f"{label}: has no convolution or matrix product with weights of its own: nothing to quantise")
    onnx.helper.set_model_props(ready, metadata)
    return SourceModel(path, ready, places, image.entry.name, image.channels_axis == 1)


def _converted(model: onnx.ModelProto, *, label: str) -> onnx.ModelProto:
    version = next(entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx"))
    if version >= LEAST_OPSET:
        return model
    try:
        return onnx.version_converter.convert_version(model, LEAST_OPSET)
    except (RuntimeError, onnx.checker.ValidationError) as error:
        reason = str(error).strip().splitlines()[-1]
        raise ModelError(
            f"{label}: is written in opset {version} and cannot be converted to {LEAST_OPSET}, which weights in "
            f"8 bits need ({reason}): export it with opset {LEAST_OPSET} or higher"
        ) from error


def _simplified(model: onnx.ModelProto, *, folder: Path, label: str) -> onnx.ModelProto:
    """The model without constants to compute, batch normalisation folded into convolutions."""
    target = folder / "simplified.onnx"
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    options.log_severity_level = FATAL_ONLY
    try:
        ort.InferenceSession(model.SerializeToString(), options, providers=[ON_CPU])
    except FAILURES as error:
        raise ModelError(f"{label}: ONNX Runtime cannot use it: {str(error).splitlines()[0]}") from error
    return onnx.load(target)
