"""FP32 models in FP16: what becomes FP16, what stays, and that it gives nearly the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from sightline.errors import ModelError
from sightline_plugins.engines.cuda_model import Reference, prepare
from sightline_plugins.engines.half import to_half
from tests.unit.engines.graphs import Floats, make_model, random, small_network

CONV = helper.make_node("Conv", ["x", "w"], ["a"], name="conv")
WEIGHTS = {"w": random(8, 3, 3, 3, seed=1)}
INPUTS: dict[str, Sequence[int | str]] = {"x": ["n", 3, 10, 10]}


def halved(*behind: NodeProto, input_range: tuple[float, float] = (0, 1), **constants: Floats) -> onnx.ModelProto:
    """A convolution of an image, and what comes behind it, in FP16."""
    model = make_model([CONV, *behind], constants={**WEIGHTS, **constants}, inputs=INPUTS)
    return to_half(model, compute=Reference(concurrency=1).compute, input_range=input_range)


def floats(values: Sequence[float]) -> Floats:
    return np.array(values, np.float32)


def types(model: onnx.ModelProto) -> dict[str, str]:
    """The element type of what each named node gives first."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    known = {entry.name: entry.type.tensor_type.elem_type for entry in (*inferred.value_info, *inferred.output)}
    return {node.name: TensorProto.DataType.Name(known[node.output[0]]) for node in inferred.node if node.name}


def node(operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: object) -> NodeProto:
    made: NodeProto = helper.make_node(operator, list(inputs), list(outputs), name=operator.lower(), **attributes)
    return made


def test_the_image_becomes_fp16_and_outputs_stay_fp32() -> None:
    model = to_half(small_network(), compute=Reference(concurrency=1).compute, input_range=(0, 1))

    assert model.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT16
    assert model.graph.output[0].type.tensor_type.elem_type == TensorProto.FLOAT


def test_weights_are_kept_in_fp16_alone() -> None:
    model = halved(helper.make_node("Conv", ["a", "w2"], ["y"], name="last"), w2=random(8, 8, 1, 1))

    assert {numpy_helper.to_array(tensor).dtype.name for tensor in model.graph.initializer} == {"float16"}


def test_what_follows_the_last_learned_operator_stays_fp32_without_rounding_in_between() -> None:
    behind = [node("Mul", ["a", "stride"], ["b"]), node("Add", ["b", "offset"], ["y"])]

    model = halved(*behind, stride=floats([32.0]), offset=floats([1000.3]))

    assert types(model) == {"conv": "FLOAT16", "mul": "FLOAT", "add": "FLOAT"}
    assert sum(one.op_type == "Cast" for one in model.graph.node) == 1


def test_what_lies_between_learned_operators_becomes_fp16() -> None:
    behind = [node("Relu", ["a"], ["b"]), helper.make_node("Conv", ["b", "w2"], ["y"], name="last")]

    model = halved(*behind, w2=random(8, 8, 1, 1))

    assert types(model) == {"conv": "FLOAT16", "relu": "FLOAT16", "last": "FLOAT16"}


def test_a_convolution_that_is_mere_arithmetic_does_not_count_as_learned() -> None:
    expectation = np.arange(8, dtype=np.float32).reshape(1, 8, 1, 1)
    behind = [node("Softmax", ["a"], ["b"], axis=1), helper.make_node("Conv", ["b", "mean"], ["y"], name="mean")]

    model = halved(*behind, mean=expectation)

    assert types(model) == {"conv": "FLOAT16", "softmax": "FLOAT", "mean": "FLOAT"}


def test_values_that_come_near_the_end_of_fp16_stay_fp32() -> None:
    behind = [
        node("Mul", ["a", "large"], ["b"]),
        node("Div", ["b", "large"], ["c"]),
        helper.make_node("Conv", ["c", "w2"], ["y"], name="last"),
    ]

    model = halved(*behind, large=floats([20000.0]), w2=random(8, 8, 1, 1))

    assert types(model) == {"conv": "FLOAT16", "mul": "FLOAT", "div": "FLOAT", "last": "FLOAT16"}


def test_the_levels_of_the_image_decide_what_is_large() -> None:
    behind = [node("Mul", ["a", "large"], ["b"]), helper.make_node("Conv", ["b", "w2"], ["y"], name="last")]

    kinds = [
        types(halved(*behind, input_range=levels, large=floats([400.0]), w2=random(8, 8, 1, 1)))["mul"]
        for levels in ((0, 1), (0, 255))
    ]

    assert kinds == ["FLOAT16", "FLOAT"]


@pytest.mark.parametrize("constant", [floats([-1e9]), floats([1e5])])
def test_constants_that_fp16_does_not_hold_stay_fp32(constant: Floats) -> None:
    behind = [node("Max", ["a", "c"], ["b"]), helper.make_node("Conv", ["b", "w2"], ["y"], name="last")]

    model = halved(*behind, c=constant, w2=random(8, 8, 1, 1, seed=5) * np.float32(1e-4))

    assert types(model)["max"] == "FLOAT"


def test_operators_that_sum_squares_stay_fp32() -> None:
    behind = [
        helper.make_node("InstanceNormalization", ["a", "s", "b"], ["c"], name="norm"),
        helper.make_node("Conv", ["c", "w2"], ["y"], name="last"),
    ]

    model = halved(*behind, s=np.ones(8, np.float32), b=np.zeros(8, np.float32), w2=random(8, 8, 1, 1))

    assert types(model) == {"conv": "FLOAT16", "norm": "FLOAT", "last": "FLOAT16"}


def test_scales_of_resize_stay_fp32_while_the_image_is_fp16() -> None:
    behind = [
        helper.make_node("Resize", ["a", "", "scales"], ["b"], name="resize"),
        helper.make_node("Conv", ["b", "w2"], ["y"], name="last"),
    ]

    model = halved(*behind, scales=floats([1, 1, 2, 2]), w2=random(8, 8, 1, 1))

    assert types(model)["resize"] == "FLOAT16"
    assert next(t for t in model.graph.initializer if t.name == "scales").data_type == TensorProto.FLOAT


def test_a_cast_to_fp32_inside_becomes_one_to_fp16() -> None:
    behind = [
        helper.make_node("Cast", ["a"], ["i"], to=TensorProto.INT32, name="to_int"),
        helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT, name="to_float"),
        helper.make_node("Conv", ["f", "w2"], ["y"], name="last"),
    ]

    model = halved(*behind, w2=random(8, 8, 1, 1))

    assert types(model)["to_float"] == "FLOAT16"


def test_a_tensor_that_fp32_and_fp16_read_is_there_in_both() -> None:
    behind = [
        helper.make_node("Conv", ["a", "w2"], ["b"], name="last"),
        node("Add", ["a", "b"], ["y"]),
    ]

    model = halved(*behind, w2=random(8, 8, 1, 1))

    assert types(model) == {"conv": "FLOAT16", "last": "FLOAT16", "add": "FLOAT"}


def test_a_model_in_fp16_already_is_left_as_it_is() -> None:
    once = to_half(small_network(), compute=Reference(concurrency=1).compute, input_range=(0, 1))

    assert to_half(once, compute=Reference(concurrency=1).compute, input_range=(0, 1)) is once


def test_a_model_without_anything_learned_is_refused() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], constants={}, inputs=INPUTS)

    with pytest.raises(ModelError, match="nothing of it can be computed in FP16: use precision: fp32"):
        to_half(model, compute=Reference(concurrency=1).compute, input_range=(0, 1))


def test_a_model_that_loses_much_is_refused_with_the_tensor_and_how_much() -> None:
    behind = [
        node("Add", ["a", "offset"], ["b"]),
        helper.make_node("Sub", ["b", "offset"], ["c"], name="sub"),
        helper.make_node("Conv", ["c", "w2"], ["y"], name="last"),
    ]

    with pytest.raises(
        ModelError, match=r"in FP16 its tensor 'y' is off by [\d.]+ % .* 2 % are allowed: use precision"
    ):
        halved(*behind, offset=floats([12000.0]), w2=random(8, 8, 1, 1))


def test_fp16_of_a_quantised_model_is_refused() -> None:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Conv", ["d", "w"], ["y"]),
    ]
    constants: dict[str, Any] = {**WEIGHTS, "s": np.array(0.02, np.float32), "z": np.array(0, np.int8)}
    model = make_model(nodes, constants=constants, inputs=INPUTS)

    with pytest.raises(ModelError, match="m: it is quantised, and FP16 would undo that: use precision: int8"):
        prepare(model, precision="fp16", input_range=(0, 1), label="m")
