"""Graphs in the manner of many exporters compute the same after the passes; a pass that is wrong is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from benchmarks.graph_corpus.comparison import Reference, places
from benchmarks.graph_corpus.registry import structures

from sightline_plugins.engines import rewriting
from sightline_plugins.engines.model_file import read_model
from sightline_plugins.engines.onnxruntime import OnnxRuntime
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.openvino import OpenVino
from sightline_plugins.engines.rewriting import Passes, prepare
from sightline_plugins.onnx_graph import channels, constants, layout
from sightline_plugins.onnx_graph.graph import Graph
from sightline_plugins.onnx_graph.inputs import take_image
from sightline_plugins.onnx_graph.selection import chosen_from
from sightline_plugins.onnx_graph.simplify import COMMON, OPENVINO, Rule, rewrite

NAMES = sorted(structures())
CLOSE = 1e-4
"""Largest difference of any value as a share of the root mean square of its output."""


def graph(name: str) -> onnx.ModelProto:
    """A new copy of a graph as an engine reads it."""
    model, _ = read_model(structures()[name].model().SerializeToString())
    return model


@cache
def reference(name: str) -> Reference:
    """What the file of a graph computes."""
    return Reference(graph(name))


@cache
def places_in(name: str) -> Counter[str]:
    return places(graph(name), OPENVINO)


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_for_openvino_computes_what_the_file_says(name: str) -> None:
    whole = Passes(graph(name), library=OpenVino(concurrency=1), image=reference(name).form, optimize=True).applied()

    assert reference(name).largest(OpenVino(concurrency=1).compute(whole, reference(name).feeds)) < CLOSE


@pytest.mark.parametrize("name", NAMES)
def test_the_graph_for_onnx_runtime_computes_what_the_file_says(name: str) -> None:
    library = OnnxRuntime(concurrency=1)
    whole = Passes(graph(name), library=library, image=reference(name).form, optimize=True).applied()

    assert reference(name).largest(library.compute(whole, reference(name).feeds)) < CLOSE


@pytest.mark.parametrize("rule", OPENVINO, ids=lambda rule: rule.__name__)
def test_each_pass_alone_changes_no_results(rule: Rule) -> None:
    off = {}
    for name in NAMES:
        if places_in(name)[rule.__name__]:
            form = reference(name).form
            alone = rewrite(graph(name), (rule,))
            alone = alone if form is None else take_image(alone, form)
            off[name] = reference(name).largest(OnnxRuntime(concurrency=1).compute(alone, reference(name).feeds))

    assert {name: share for name, share in off.items() if share >= CLOSE} == {}


def test_every_pass_has_graphs_that_it_changes() -> None:
    graphs = Counter(name for one in NAMES for name in places_in(one))

    assert {rule.__name__ for rule in OPENVINO if graphs[rule.__name__] < 2} == set()


@pytest.mark.parametrize("name", [name for name in NAMES if structures()[name].family == "looks alike"])
def test_no_pass_is_left_out_of_graphs_that_only_look_like_a_pattern(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path))
    warnings: list[str] = []
    engine = open_engine(structures()[name].model().SerializeToString(), engine="openvino", warn=warnings.append)
    engine.close()

    assert warnings == []


@pytest.mark.parametrize("place", [4, 7, 9])
def test_a_pass_that_is_wrong_for_few_of_the_chosen_rows_is_noticed(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swapped(graph: Graph) -> int:
        convs = [entry for entry in graph.nodes if entry.op_type == "Conv" and entry.input[1].startswith("w")]
        name = convs[place].input[1]
        weights = graph.constant(name)
        if weights is None or "~" in name:
            return 0
        convs[place].input[1] = graph.add_constant(weights[:, ::-1], like=name)
        return 1

    monkeypatch.setattr(rewriting, "COMMON", (*COMMON, swapped))
    model = graph("yolov10-best")
    prepared = prepare(model, library=OnnxRuntime(concurrency=1), image=None, optimize=True, label="yolov10")

    assert prepared.left_out == ("swapped",)


def test_values_are_chosen_from_what_stands_in_front_of_the_first_choice() -> None:
    model = graph("yolov10-best")
    producers = {name: entry.op_type for entry in model.graph.node for name in entry.output}

    assert sorted(producers[name] for name in chosen_from(model)) == ["Reshape", "Transpose"]
    assert chosen_from(graph("yolov8")) == {}


Function = Callable[..., Any]
Break = Callable[[Function], Function]


def scaled(function: Function) -> Function:
    """Weights that are off by a tenth."""

    def off(*given: Any) -> Any:
        found = function(*given)
        scale = np.float32(1.1)
        if isinstance(found, list):
            return [value * scale if value.dtype == np.float32 else value for value in found]
        return found if found is None or found.dtype != np.float32 else found * scale

    return off


def reversed_channels(function: Function) -> Function:
    def off(*given: Any, **named: Any) -> Any:
        found = function(*given, **named)
        return found and (found[0], found[1][::-1])

    return off


def rows_for_columns(function: Function) -> Function:
    def off(*given: Any) -> Any:
        found = function(*given)
        return found and [(channel, column, row) for channel, row, column in found]

    return off


def joined_backwards(function: Function) -> Function:
    def off(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
        return function(operator, inputs[::-1] if operator == "Concat" else inputs, outputs, **attributes)

    return off


def columns_first(function: Function) -> Function:
    def off(operator: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
        attributes |= {"perm": [0, 3, 2, 1]} if attributes.get("perm") == [0, 2, 3, 1] else {}
        return function(operator, inputs, outputs, **attributes)

    return off


def without_activations(function: Function) -> Function:
    return lambda graph, entry: entry.op_type == "Relu" or function(graph, entry)


def failing(function: Function) -> Function:
    def off(*given: Any, **named: Any) -> Any:
        raise IndexError("a graph that the pass was not written for")

    return off


BROKEN: list[tuple[str, Any, str, Break, str]] = [
    ("store_constants", constants, "_value", scaled, "ghostnet"),
    ("fold_constants", constants, "_computed", scaled, "half-weights"),
    ("remove_idle", constants, "_is_idle", without_activations, "res2net"),
    ("fold_focus", channels, "_places", rows_for_columns, "focus-yolov5"),
    ("pick_channels", channels, "_as_channels", reversed_channels, "shufflenetv1-groups"),
    ("make_planes", channels, "pointwise_weights", scaled, "shufflenetv2-flattened"),
    ("convolve_before_upsampling", layout, "pointwise_weights", scaled, "fpn-opset18"),
    ("transpose_before_concat", layout, "node", joined_backwards, "yolov8-transposed"),
    ("transpose_before_flattening", layout, "node", columns_first, "efficientdet"),
    ("fold_focus", channels, "_unfolded", failing, "focus-yolov5"),
    ("remove_idle", constants, "_is_idle", failing, "res2net"),
]


@pytest.mark.parametrize(("rule", "module", "function", "broken", "name"), BROKEN)
def test_a_pass_that_is_wrong_is_left_out_and_named(
    rule: str, module: Any, function: str, broken: Break, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path))
    monkeypatch.setattr(module, function, broken(getattr(module, function)))
    warnings: list[str] = []
    form, content = reference(name).form, structures()[name].model().SerializeToString()
    engine = open_engine(content, engine="openvino", image=form, warn=warnings.append)
    results = [list(engine.submit(tuple(feeds.values())).result()) for feeds in reference(name).feeds]
    engine.close()

    assert engine.report["without"] == rule
    assert [rule in text for text in warnings] == [True]
    assert reference(name).largest(results) < CLOSE
