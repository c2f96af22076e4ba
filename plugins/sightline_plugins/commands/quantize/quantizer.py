"""ONNX Runtime's quantiser, set up to write files that OpenVINO, ONNX Runtime and TensorRT all accept.

8-bit operations stand between explicit `QuantizeLinear` and `DequantizeLinear`: signed bytes around zero for
activations and, per channel, for weights; biases stay in float32. TensorRT accepts no other form.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, create_calibrator
from onnxruntime.quantization.calibrate import TensorsData
from onnxruntime.quantization.qdq_quantizer import QDQQuantizer

from sightline.errors import ModelError
from sightline_plugins.commands.quantize.source_model import MOVING, SourceModel
from sightline_plugins.engines.onnxruntime import FAILURES
from sightline_plugins.engines.protocol import Array
from sightline_plugins.onnx_graph.graph import LEARNED
from sightline_plugins.preprocess.definition import Preprocessing

Method: TypeAlias = Literal["minmax", "entropy", "percentile"]
_METHODS: Mapping[Method, CalibrationMethod] = {
    "minmax": CalibrationMethod.MinMax,
    "entropy": CalibrationMethod.Entropy,
    "percentile": CalibrationMethod.Percentile,
}
_RANGES: Mapping[Method, Mapping[str, Any]] = {
    "minmax": {"symmetric": True},
    "entropy": {"symmetric": True, "num_bins": 512, "num_quantized_bins": 128},
    "percentile": {"symmetric": True},
}
"""With its usual 128 bins the entropy method of ONNX Runtime cannot cut off any values."""
_OPTIONS: Mapping[str, Any] = {
    "ActivationSymmetric": True,
    "WeightSymmetric": True,
    "AddQDQPairToWeight": True,
    "QuantizeBias": False,
    "OpTypesToExcludeOutputQuantization": sorted(LEARNED),
    "ForceQuantizeNoInputCheck": True,
}
"""Outputs of convolutions are quantised after their activation, because engines compute both at once."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The layers left in float32, and a title that names their groups."""

    title: str
    left_out: tuple[str, ...]


def attempts(source: SourceModel) -> list[Attempt]:
    """Return the attempts, the fastest first: each leaves out more layers that are known to be sensitive."""
    places, made = source.places, [Attempt("everything in 8 bits", ())]
    left_out: tuple[str, ...] = ()
    titles: list[str] = []
    for title, group in (
        ("the last layers", places.last),
        ("the first layer", places.first),
        ("depthwise convolutions", places.depthwise),
    ):
        added = tuple(name for name in group if name not in left_out)
        if added and len(left_out) + len(added) < len(places.learned):
            left_out += added
            titles.append(title)
            made.append(Attempt(f"{', '.join(titles)} in float32", left_out))
    return made


def calibrate(
    source: SourceModel,
    images: Sequence[Array],
    *,
    method: Method,
    definition: Preprocessing,
    extras: Mapping[str, Array],
    folder: Path,
) -> TensorsData:
    """Run the model on images as a `HostPreprocessor` makes them, and return the ranges of all tensors.

    `extras` are the model's other inputs, `folder` is for temporary files. Raises ModelError when ONNX Runtime fails.
    """
    given = folder / "given.onnx"
    onnx.save(onnx.shape_inference.infer_shapes(source.model), given)
    try:
        with _quiet():
            calibrator = create_calibrator(
                given,
                sorted(LEARNED | MOVING),
                augmented_model_path=str(folder / "augmented.onnx"),
                calibrate_method=_METHODS[method],
                extra_options=dict(_RANGES[method]),
            )
            for image in images:
                calibrator.collect_data(_Image(source, image, definition, extras))
            return calibrator.compute_data()
    except (*FAILURES, ValueError, TypeError, KeyError) as error:
        raise ModelError(f"model {str(source.path)!r}: ONNX Runtime cannot calibrate it: {error}") from error


def quantize(source: SourceModel, ranges: TensorsData, *, attempt: Attempt) -> onnx.ModelProto:
    """Return the quantised model. Raises ModelError when ONNX Runtime fails."""
    model = onnx.ModelProto()
    model.CopyFrom(source.model)
    places = source.places
    try:
        with _quiet():
            quantizer = QDQQuantizer(
                model,
                per_channel=True,
                reduce_range=False,
                weight_qType=QuantType.QInt8,
                activation_qType=QuantType.QInt8,
                tensors_range=ranges,
                nodes_to_quantize=[*places.learned, *places.moving],
                nodes_to_exclude=list(attempt.left_out),
                op_types_to_quantize=sorted(LEARNED | MOVING),
                extra_options=dict(_OPTIONS),
            )
            quantizer.quantize_model()
            quantizer.model.topological_sort()
    except (ValueError, RuntimeError, KeyError) as error:
        raise ModelError(f"model {str(source.path)!r}: ONNX Runtime cannot quantise it: {error}") from error
    made: onnx.ModelProto = quantizer.model.model
    return made


class _Image(CalibrationDataReader):  # type: ignore[misc]
    """Feeds one normalised image to the calibration."""

    def __init__(
        self, source: SourceModel, image: Array, definition: Preprocessing, extras: Mapping[str, Array]
    ) -> None:
        mean, scale = (np.array(values, np.float32) for values in (definition.mean, definition.scale))
        levels = (image.astype(np.float32) - mean) / scale
        placed = levels.transpose(0, 3, 1, 2) if source.channels_first else levels
        self._waiting = [{source.image: np.ascontiguousarray(placed), **extras}]

    def get_next(self) -> dict[str, Array] | None:
        """Return the inputs the first time, then None."""
        return self._waiting.pop() if self._waiting else None


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the quantiser's own output."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
