"""Where a graph is quantised: its convolutions, and what moves or joins values between them."""

from __future__ import annotations

import onnx
from onnx import helper
from tests.unit.commands.quantize.networks import detector_like
from tests.unit.engines.graphs import make_model, random

from sightline_plugins.commands.quantize.source_model import find_places, name_nodes


def test_convolutions_are_places() -> None:
    assert find_places(detector_like()).learned == ("stem", "each", "head")


def test_a_join_between_convolutions_is_a_place_and_one_behind_the_last_is_none() -> None:
    assert find_places(detector_like()).moving == ("join",)


def test_sensitive_layers_are_known_by_where_they_stand() -> None:
    places = find_places(detector_like())

    assert (places.first, places.last, places.depthwise) == (("stem",), ("head",), ("each",))


def test_a_sum_with_a_constant_is_no_place() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name="one"),
        helper.make_node("Add", ["a", "shift"], ["b"], name="shifted"),
        helper.make_node("Conv", ["b", "w2"], ["y"], name="two"),
    ]
    constants = {"w1": random(8, 3, 1, 1), "shift": random(1, 8, 1, 1), "w2": random(6, 8, 1, 1)}

    places = find_places(make_model(nodes, constants=constants, inputs={"x": [1, 3, 24, 32]}))

    assert (places.learned, places.moving) == (("one", "two"), ())


def test_every_node_gets_a_name_of_its_own() -> None:
    model = onnx.ModelProto()
    model.CopyFrom(detector_like())
    for node in model.graph.node:
        node.name = "" if node.op_type == "Relu" else "same"

    name_nodes(model)

    names = [node.name for node in model.graph.node]
    assert len(set(names)) == len(names)
    assert all(names)
