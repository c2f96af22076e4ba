"""Each rewriting rule finds its pattern, leaves the results as they are, and keeps off what only looks like it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper

from sightline_plugins.onnx_graph.channels import fold_focus, make_planes, pick_channels
from sightline_plugins.onnx_graph.constants import fold_constants, remove_idle, store_constants
from sightline_plugins.onnx_graph.graph import Graph
from sightline_plugins.onnx_graph.layout import (
    convolve_before_upsampling,
    transpose_before_concat,
    transpose_before_flattening,
)
from sightline_plugins.onnx_graph.simplify import CLEANING, COMMON, OPENVINO, Rule, apply_rules, rewrite
from tests.unit.engines.graphs import compute, make_model, random

Constants = dict[str, npt.NDArray[Any]]


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def rewritten(model: onnx.ModelProto, *rules: Rule) -> onnx.ModelProto:
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    graph = Graph(copied)
    apply_rules(graph, rules)
    return graph.to_model()


def assert_same_results(before: onnx.ModelProto, after: onnx.ModelProto, **inputs: npt.NDArray[np.float32]) -> None:
    for expected, found in zip(compute(before, **inputs), compute(after, **inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def shuffle_nodes(style: str, *, channels: int, height: int, width: int) -> tuple[list[onnx.NodeProto], Constants]:
    """A shuffle of `channels` in two groups of "s", split in the halves "even" and "odd"."""
    half = channels // 2
    if style == "flattened":
        constants: Constants = {
            "pairs": np.array([half, 2, height * width]),
            "halves": np.array([2, -1, half, height, width]),
            "zero": np.array(0),
            "one": np.array(1),
        }
        return [
            helper.make_node("Reshape", ["s", "pairs"], ["r"]),
            helper.make_node("Transpose", ["r"], ["t"], perm=[1, 0, 2]),
            helper.make_node("Reshape", ["t", "halves"], ["u"]),
            helper.make_node("Gather", ["u", "zero"], ["even"], axis=0),
            helper.make_node("Gather", ["u", "one"], ["odd"], axis=0),
        ], constants
    constants = {
        "pairs": np.array([1, half, 2, height, width]),
        "whole": np.array([1, channels, height, width]),
        "sizes": np.array([half, half]),
    }
    return [
        helper.make_node("Reshape", ["s", "pairs"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["t", "whole"], ["u"]),
        helper.make_node("Split", ["u", "sizes"], ["even", "odd"], axis=1),
    ], constants


def shuffle_network(style: str) -> onnx.ModelProto:
    nodes, constants = shuffle_nodes(style, channels=8, height=5, width=6)
    constants |= {f"w{i}": random(4, 4, 1, 1, seed=i) for i in range(3)} | {"b": random(4, seed=9)}
    before = [
        helper.make_node("Conv", ["x", "w0", "b"], ["a"]),
        helper.make_node("Relu", ["a"], ["ar"]),
        helper.make_node("Conv", ["x", "w1"], ["c"]),
        helper.make_node("Relu", ["c"], ["cr"]),
        helper.make_node("Concat", ["ar", "cr"], ["s"], axis=1),
    ]
    after = [
        helper.make_node("Conv", ["odd", "w2"], ["d"]),
        helper.make_node("Concat", ["even", "d"], ["y"], axis=1),
    ]
    return make_model([*before, *nodes, *after], constants=constants, inputs={"x": [1, 4, 5, 6]})


def focus_network(*, pads: int, stride: int = 1) -> onnx.ModelProto:
    constants: Constants = {"axes": np.array([2, 3]), "steps": np.array([2, 2]), "end": np.array([999, 999])}
    nodes = []
    for index, (row, column) in enumerate([(0, 0), (1, 0), (0, 1), (1, 1)]):
        constants[f"start{index}"] = np.array([row, column])
        nodes.append(helper.make_node("Slice", ["x", f"start{index}", "end", "axes", "steps"], [f"s{index}"]))
    nodes.append(helper.make_node("Concat", [f"s{index}" for index in range(4)], ["f"], axis=1))
    nodes.append(helper.make_node("Conv", ["f", "w", "b"], ["y"], pads=[pads] * 4, strides=[stride] * 2))
    constants |= {"w": random(5, 12, 3, 3), "b": random(5)}
    return make_model(nodes, constants=constants, inputs={"x": [1, 3, 16, 20]})


def upsample_network(*, scale: float = 2.0, wide: int = 6) -> onnx.ModelProto:
    nodes = [
        helper.make_node("Resize", ["x", "", "scales"], ["up"], mode="nearest", nearest_mode="floor"),
        helper.make_node("Concat", ["z", "up", "z"], ["j"], axis=1),
        helper.make_node("Conv", ["j", "w", "b"], ["c"]),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    size = int(4 * scale)
    constants: Constants = {
        "scales": np.array([1, 1, scale, scale], np.float32),
        "w": random(wide, 12, 1, 1),
        "b": random(wide),
    }
    return make_model(nodes, constants=constants, inputs={"x": [1, 6, 4, 4], "z": [1, 3, size, size]})


@pytest.mark.parametrize("style", ["flattened", "grouped"])
def test_a_channel_shuffle_becomes_one_gather_for_each_half(style: str) -> None:
    before = shuffle_network(style)
    after = rewritten(before, pick_channels)
    assert operators(after) == {"Conv": 3, "Relu": 2, "Concat": 2, "Gather": 2}
    assert_same_results(before, after, x=random(1, 4, 5, 6))


@pytest.mark.parametrize("style", ["flattened", "grouped"])
def test_pointwise_convolutions_in_front_of_a_shuffle_become_matrix_products(style: str) -> None:
    before = shuffle_network(style)
    after = rewritten(before, pick_channels, make_planes)
    assert (operators(after)["Gemm"], operators(after)["Conv"]) == (2, 1)
    assert_same_results(before, after, x=random(1, 4, 5, 6))


def test_reshapes_that_move_pixels_are_no_channel_shuffle() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["r"]),
        helper.make_node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Reshape", ["t", "full"], ["u"]),
        helper.make_node("Relu", ["u"], ["y"]),
    ]
    constants: Constants = {"flat": np.array([1, 4, 30]), "full": np.array([1, 4, 5, 6])}
    before = make_model(nodes, constants=constants, inputs={"x": [1, 4, 5, 6]})
    assert pick_channels(Graph(before)) == 0


@pytest.mark.parametrize(("pads", "stride"), [(0, 1), (1, 1), (1, 2)])
def test_a_focus_is_folded_into_the_convolution_behind_it(pads: int, stride: int) -> None:
    before = focus_network(pads=pads, stride=stride)
    after = rewritten(before, fold_focus)
    assert operators(after) == {"Conv": 1}
    assert_same_results(before, after, x=random(1, 3, 16, 20))


def test_slices_of_another_order_than_a_focus_stay() -> None:
    before = focus_network(pads=1)
    swapped = next(tensor for tensor in before.graph.initializer if tensor.name == "steps")
    swapped.CopyFrom(onnx.numpy_helper.from_array(np.array([1, 1]), "steps"))
    for index in range(4):
        start = next(tensor for tensor in before.graph.initializer if tensor.name == f"start{index}")
        start.CopyFrom(onnx.numpy_helper.from_array(np.array([0, 0]), f"start{index}"))
    assert fold_focus(Graph(before)) == 0


@pytest.mark.parametrize("scale", [2.0, 3.0, 1.5])
def test_a_pointwise_convolution_is_computed_before_the_enlargement(scale: float) -> None:
    before = upsample_network(scale=scale)
    after = rewritten(before, convolve_before_upsampling)
    assert operators(after) == {"Resize": 1, "Concat": 1, "Conv": 2, "Add": 1, "Relu": 1}
    size = int(4 * scale)
    assert_same_results(before, after, x=random(1, 6, 4, 4), z=random(1, 3, size, size))


def test_a_convolution_that_makes_more_channels_than_were_enlarged_stays() -> None:
    assert convolve_before_upsampling(Graph(upsample_network(wide=8))) == 0


def test_prediction_maps_are_transposed_before_they_are_joined() -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "flat_x"], ["rx"]),
        helper.make_node("Reshape", ["z", "flat_z"], ["rz"]),
        helper.make_node("Concat", ["rx", "rz"], ["j"], axis=2),
        helper.make_node("Transpose", ["j"], ["y"], perm=[0, 2, 1]),
    ]
    constants: Constants = {"flat_x": np.array([1, 5, -1]), "flat_z": np.array([1, 5, -1])}
    before = make_model(nodes, constants=constants, inputs={"x": [1, 5, 4, 6], "z": [1, 5, 2, 3]})
    after = rewritten(before, transpose_before_concat, transpose_before_flattening)
    assert operators(after) == {"Transpose": 2, "Reshape": 2, "Concat": 1}
    assert after.graph.node[-1].op_type == "Concat"
    assert_same_results(before, after, x=random(1, 5, 4, 6), z=random(1, 5, 2, 3))


def test_shapes_that_are_static_are_folded_away() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Constant", [], ["one"], value=onnx.numpy_helper.from_array(np.array([1]))),
        helper.make_node("Gather", ["shape", "one"], ["count"], axis=0),
        helper.make_node("Concat", ["count", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    before = make_model(nodes, constants={"rest": np.array([-1])}, inputs={"x": [2, 3, 4]})
    after = rewritten(before, store_constants, fold_constants)
    assert operators(after) == {"Reshape": 1}
    assert_same_results(before, after, x=random(2, 3, 4))


def test_nodes_that_do_nothing_are_removed() -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("Dropout", ["a"], ["b"]),
        helper.make_node("Cast", ["b"], ["c"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Transpose", ["c"], ["d"], perm=[0, 1]),
        helper.make_node("Relu", ["d"], ["y"]),
    ]
    before = make_model(nodes, constants={}, inputs={"x": [2, 3]})
    after = rewritten(before, remove_idle)
    assert operators(after) == {"Relu": 1}
    assert_same_results(before, after, x=random(2, 3))


def test_what_a_nested_graph_reads_is_never_removed() -> None:
    inner = helper.make_graph(
        [helper.make_node("Add", ["k", "x"], ["out"])],
        "inner",
        [],
        [helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Identity", ["x"], ["k"]),
        helper.make_node("If", ["yes"], ["y"], then_branch=inner, else_branch=inner),
    ]
    before = make_model(nodes, constants={"yes": np.array(True)}, inputs={"x": [2, 3]})
    after = rewritten(before, *CLEANING)
    assert_same_results(before, after, x=random(2, 3))


@pytest.mark.parametrize("rules", [COMMON, OPENVINO])
def test_names_and_order_of_inputs_and_outputs_stay(rules: tuple[Rule, ...]) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["first"]), helper.make_node("Relu", ["x"], ["second"])]
    before = make_model(nodes, constants={}, inputs={"x": [2, 3]}, outputs=["second", "first"])
    after = rewritten(before, *rules)
    assert [output.name for output in after.graph.output] == ["second", "first"]
    assert [entry.name for entry in after.graph.input] == ["x"]


def test_all_rules_together_come_to_an_end_and_agree_with_the_original() -> None:
    before = shuffle_network("grouped")
    copied = onnx.ModelProto()
    copied.CopyFrom(before)
    assert_same_results(before, rewrite(copied, OPENVINO), x=random(1, 4, 5, 6))
