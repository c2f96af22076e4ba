"""Quantised graphs: stored unsigned for processors, the same numbers as before, in 8 bits where it counts."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper, numpy_helper

from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.openvino import OpenVino
from sightline_plugins.engines.rewriting import prepare
from sightline_plugins.infer.precision_speeds import multiplies_bytes
from sightline_plugins.onnx_graph.constants import is_quantized, store_unsigned
from sightline_plugins.preprocess.definition import ImageForm
from tests.unit.engines.graphs import compute, small_network
from tests.unit.engines.quantized_graphs import around, averaged, network, two_branches

ENGINES = pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
Name = Literal["openvino", "onnxruntime"]
Bytes = npt.NDArray[np.uint8]


def zero_points(model: onnx.ModelProto) -> dict[str, tuple[str, int]]:
    """Type and value of the zero point by the tensor that is quantised with it."""
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    found = {node.input[0]: values[node.input[2]] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    return {name: (value.dtype.name, int(value)) for name, value in found.items()}


def image(*, rows: int = 1) -> Bytes:
    return np.random.default_rng(3).integers(0, 256, (rows, 24, 32, 3), np.uint8)


def normal(levels: Bytes) -> npt.NDArray[np.float32]:
    return np.ascontiguousarray(levels.transpose(0, 3, 1, 2), np.float32) / np.float32(255)


def test_values_of_both_signs_keep_their_numbers_to_the_bit() -> None:
    nodes = [*around("x"), helper.make_node("Identity", ["x_8"], ["y"])]
    given = np.linspace(-2.5, 2.5, 3 * 24 * 32, dtype=np.float32).reshape(1, 3, 24, 32)
    [before] = compute(network(nodes), x=given)

    model = store_unsigned(network(nodes))

    assert zero_points(model) == {"x": ("uint8", 128)}
    assert np.array_equal(compute(model, x=given)[0], before)


def test_values_that_are_never_negative_keep_their_numbers_and_are_cut_off_later() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["r"]), *around("r"), helper.make_node("Identity", ["r_8"], ["y"])]
    given = np.linspace(-1, 4, 3 * 24 * 32, dtype=np.float32).reshape(1, 3, 24, 32)
    [before] = compute(network(nodes), x=given)

    model = store_unsigned(network(nodes))

    [after] = compute(model, x=given)
    seen = given <= 127 * 0.02
    assert zero_points(model) == {"r": ("uint8", 0)}
    assert np.array_equal(after[seen], before[seen])
    assert before.max() == pytest.approx(127 * 0.02)
    assert after.max() == pytest.approx(4, abs=0.02)


@pytest.mark.parametrize(
    ("between", "zero"),
    [
        (["MaxPool", {"kernel_shape": [2, 2]}], 0),
        (["Transpose", {"perm": [0, 1, 3, 2]}], 0),
        (["Neg", {}], 128),
        (["LeakyRelu", {}], 128),
    ],
)
def test_positive_stays_positive_through_what_only_moves_it(between: list[Any], zero: int) -> None:
    operator, attributes = between
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node(operator, ["r"], ["m"], **attributes),
        *around("m"),
        helper.make_node("Identity", ["m_8"], ["y"]),
    ]

    assert zero_points(store_unsigned(network(nodes)))["m"] == ("uint8", zero)


def test_bytes_that_are_read_with_another_scale_stay_as_they_are() -> None:
    nodes = [*around("x", reader_scale="other"), helper.make_node("Identity", ["x_8"], ["y"])]

    model = store_unsigned(network(nodes, other=np.array(np.float32(0.5))))

    assert zero_points(model) == {"x": ("int8", 0)}


def test_a_graph_of_float32_is_not_quantised() -> None:
    assert not is_quantized(small_network())
    assert is_quantized(two_branches())


@ENGINES
@pytest.mark.parametrize("activation", ["Relu", "LeakyRelu", "HardSwish"])
def test_engines_compute_a_quantised_graph_as_its_definition_says(engine: Name, activation: str) -> None:
    levels = image()
    model = two_branches(activation=activation)
    [expected] = compute(model, x=normal(levels))

    opened = open_engine(model.SerializeToString(), engine=engine, image=ImageForm(scale=(1 / 255,)), concurrency=1)
    [given] = opened.submit([levels]).result()
    opened.close()

    assert np.abs(given - expected).mean() < 0.01 * np.abs(expected).mean()


@ENGINES
@pytest.mark.parametrize("by", ["border", "Pad", "nothing"])
def test_engines_average_a_quantised_tensor_with_a_border_of_zeros(engine: Name, by: str) -> None:
    levels = image()
    model = averaged(by=by)
    [expected] = compute(model, x=normal(levels))

    opened = open_engine(model.SerializeToString(), engine=engine, image=ImageForm(scale=(1 / 255,)), concurrency=1)
    [given] = opened.submit([levels]).result()
    opened.close()

    assert np.abs(given - expected).mean() < 0.02 * np.abs(expected).mean()


@pytest.mark.parametrize(
    ("by", "activation", "stored"),
    [
        ("border", "Identity", ("int8", 0)),
        ("Pad", "Identity", ("int8", 0)),
        ("nothing", "Identity", ("uint8", 128)),
        ("border", "Relu", ("uint8", 0)),
    ],
)
def test_only_where_a_border_of_zeros_is_averaged_bytes_with_another_zero_stay_signed(
    by: str, activation: str, stored: tuple[str, int]
) -> None:
    assert zero_points(store_unsigned(averaged(by=by, activation=activation)))["b"] == stored


@ENGINES
def test_a_quantised_graph_for_four_images_is_computed_one_by_one(engine: Name) -> None:
    levels = image(rows=4)
    [expected] = compute(two_branches(batch=4), x=normal(levels))

    opened = open_engine(
        two_branches(batch=4).SerializeToString(), engine=engine, image=ImageForm(scale=(1 / 255,)), concurrency=1
    )
    [given] = opened.submit([levels[2:3]]).result()
    opened.close()

    assert opened.report["batch"] == "1 instead of 4"
    assert np.abs(given - expected[2:3]).mean() < 0.01 * np.abs(expected).mean()


@pytest.mark.skipif(not multiplies_bytes(), reason="this processor has no instructions for sums of bytes")
def test_openvino_convolves_bytes() -> None:
    library = OpenVino(concurrency=1)
    prepared = prepare(two_branches(), library=library, image=ImageForm(scale=(1 / 255,)), optimize=True, label="model")
    compiled = library.compile(prepared.model.SerializeToString(), label="model")

    facts = [node.get_rt_info() for node in compiled.get_runtime_model().get_ordered_ops()]
    kinds = [str(one["primitiveType"].astype(str)) for one in facts if one["layerType"].astype(str) == "Convolution"]

    assert len(kinds) == 3
    assert all(kind.endswith("I8") for kind in kinds)
