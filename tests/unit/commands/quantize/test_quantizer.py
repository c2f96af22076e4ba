"""What is written: signed bytes around zero, channel by channel for weights, and float32 for what is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tests.unit.commands.quantize.networks import detector_like, source
from tests.unit.engines.graphs import compute, make_model, small_network
from tests.unit.engines.quantized_graphs import two_branches

from sightline.errors import ModelError
from sightline_plugins.commands.quantize.quantizer import Attempt, Method, attempts, calibrate, quantize
from sightline_plugins.commands.quantize.source_model import SourceModel, read_source
from sightline_plugins.preprocess.definition import Preprocessing

DEFINITION = Preprocessing(size_wh=(32, 24))
EVERYTHING = Attempt("everything", ())
IMAGES = [np.random.default_rng(number).integers(0, 256, (1, 24, 32, 3), np.uint8) for number in range(3)]


def quantized(
    given: SourceModel, folder: Path, *, attempt: Attempt = EVERYTHING, method: Method = "minmax"
) -> onnx.ModelProto:
    ranges = calibrate(given, IMAGES, method=method, definition=DEFINITION, extras={}, folder=folder)
    return quantize(given, ranges, attempt=attempt)


def test_bytes_are_signed_and_around_zero(tmp_path: Path) -> None:
    made = quantized(source(tmp_path), tmp_path)

    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    zeros = [
        values[node.input[2]] for node in made.graph.node if node.op_type in ("QuantizeLinear", "DequantizeLinear")
    ]
    assert {zero.dtype.name for zero in zeros} == {"int8"}
    assert not any(zero.any() for zero in zeros)


def test_weights_have_a_scale_for_each_channel_and_biases_stay(tmp_path: Path) -> None:
    made = quantized(source(tmp_path), tmp_path)

    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    makers = {node.output[0]: node for node in made.graph.node}
    stem = next(node for node in made.graph.node if node.name == "stem")
    assert values[makers[stem.input[1]].input[1]].shape == (8,)
    assert values[stem.input[2]].dtype == np.float32


def test_what_a_convolution_gives_is_quantised_behind_its_activation(tmp_path: Path) -> None:
    made = quantized(source(tmp_path), tmp_path)

    stem = next(node for node in made.graph.node if node.name == "stem")
    assert [node.op_type for node in made.graph.node if stem.output[0] in node.input] == ["Relu"]


def test_decoding_stays_in_float32(tmp_path: Path) -> None:
    made = quantized(source(tmp_path), tmp_path)

    head = next(node for node in made.graph.node if node.name == "head")
    assert {node.op_type for node in made.graph.node if head.output[0] in node.input} == {"Sigmoid", "Concat"}


def test_it_still_takes_any_number_of_images(tmp_path: Path) -> None:
    made = quantized(source(tmp_path), tmp_path)

    given = np.random.default_rng(1).random((5, 3, 24, 32), np.float32)
    [expected], [found] = compute(detector_like(), x=given), compute(made, x=given)
    assert found.shape == expected.shape
    assert np.abs(found - expected).mean() < 0.05 * np.abs(expected).mean()


def test_what_is_left_out_keeps_its_weights(tmp_path: Path) -> None:
    given = source(tmp_path)

    made = quantized(given, tmp_path, attempt=Attempt("without the stem", ("stem",)))

    stem = next(node for node in made.graph.node if node.name == "stem")
    assert stem.input[1] in {tensor.name for tensor in made.graph.initializer}


def test_attempts_leave_out_more_and_more(tmp_path: Path) -> None:
    tried = attempts(source(tmp_path))

    assert [attempt.left_out for attempt in tried] == [(), ("head",), ("head", "stem")]


@pytest.mark.parametrize("method", ["entropy", "percentile"])
def test_methods_may_cut_off_what_is_rare(method: Method, tmp_path: Path) -> None:
    given = source(tmp_path)

    made = quantized(given, tmp_path, method=method)

    assert any(node.op_type == "QuantizeLinear" for node in made.graph.node)


def test_an_older_opset_is_converted(tmp_path: Path) -> None:
    given = source(tmp_path, detector_like(opset=11, batch=1))

    assert [entry.version for entry in given.model.opset_import if not entry.domain] == [13]


def test_metadata_stays(tmp_path: Path) -> None:
    given = source(tmp_path)

    assert {entry.key: entry.value for entry in given.model.metadata_props} == {"task": "detect"}


def test_a_quantised_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is quantised already: give the float32 file"):
        source(tmp_path, two_branches())


def test_a_model_of_16_bits_is_refused(tmp_path: Path) -> None:
    model = small_network()
    for tensor in model.graph.initializer:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name))
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT16

    with pytest.raises(ModelError, match="holds float16 weights: give its float32 export"):
        source(tmp_path, model)


def test_a_model_without_weights_is_refused(tmp_path: Path) -> None:
    model = make_model([onnx.helper.make_node("Relu", ["x"], ["y"])], constants={}, inputs={"x": [1, 3, 24, 32]})

    with pytest.raises(ModelError, match="nothing to quantise"):
        source(tmp_path, model)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such file"):
        read_source(tmp_path / "none.onnx", folder=tmp_path)
