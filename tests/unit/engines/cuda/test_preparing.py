"""Models made ready for TensorRT: any number of images, simpler where that is shown to compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from sightline.errors import ModelError
from sightline_plugins.engines import cuda_model
from sightline_plugins.engines.cuda_model import Prepared, prepare
from tests.unit.engines.graphs import compute, make_model, random, small_network


def prepared(model: onnx.ModelProto) -> Prepared:
    return prepare(model, precision="fp32", input_range=(0, 1), label="m")


def test_all_inputs_have_one_name_for_the_number_of_images() -> None:
    nodes = [helper.make_node("Concat", ["a", "b"], ["y"], axis=1)]

    found = prepared(make_model(nodes, constants={}, inputs={"a": ["n", 4], "b": ["m", 2]}))

    assert {entry.type.tensor_type.shape.dim[0].dim_param for entry in found.model.graph.input} == {"batch"}


def test_an_open_number_that_works_with_one_image_only_becomes_one() -> None:
    constants: dict[str, Any] = {"shape": np.array([1, 12]), "w": random(12, 2), "axis": np.array(0)}
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["m"]),
        helper.make_node("CumSum", ["m", "axis"], ["y"]),
    ]
    model = make_model(nodes, constants=constants, inputs={"x": ["n", 3, 2, 2]})

    assert prepared(model).rows == 1


def test_constants_are_folded() -> None:
    nodes = [
        helper.make_node("Add", ["one", "two"], ["three"]),
        helper.make_node("Mul", ["x", "three"], ["y"]),
    ]
    constants = {"one": np.ones(4, np.float32), "two": np.full(4, 2, np.float32)}

    found = prepared(make_model(nodes, constants=constants, inputs={"x": ["n", 4]}))

    assert [node.op_type for node in found.model.graph.node] == ["Mul"]


def test_a_simpler_graph_that_computes_something_else_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(model: onnx.ModelProto, rules: object) -> onnx.ModelProto:
        weights = numpy_helper.to_array(model.graph.initializer[0])
        model.graph.initializer[0].CopyFrom(numpy_helper.from_array(weights * 2, model.graph.initializer[0].name))
        return model

    monkeypatch.setattr(cuda_model, "rewrite", wrong)
    image = random(1, 3, 24, 32)

    found = prepared(small_network(batch="n"))

    np.testing.assert_allclose(compute(found.model, x=image)[0], compute(small_network(), x=image)[0], rtol=1e-5)


def test_halves_that_onnx_refuses_are_told_as_what_is_wrong_with_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(model: onnx.ModelProto, **_: object) -> onnx.ModelProto:
        raise onnx.checker.ValidationError("a node that nobody knows")

    monkeypatch.setattr(cuda_model, "to_half", refused)

    with pytest.raises(ModelError, match="m: a node that nobody knows"):
        prepare(small_network(), precision="fp16", input_range=(0, 1), label="m")
