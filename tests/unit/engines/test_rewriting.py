"""What an engine computes is what the file says, whatever rewriting does to it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from sightline_plugins.engines import rewriting
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.engines.rewriting import difference
from sightline_plugins.onnx_graph.graph import Graph
from sightline_plugins.onnx_graph.simplify import COMMON, OPENVINO
from sightline_plugins.preprocess.definition import ImageForm
from tests.unit.engines.graphs import compute, random, small_network
from tests.unit.engines.networks import nanodet, permuted

Name = Literal["auto", "openvino", "onnxruntime"]
ONE_WAY, INVERSE = (2, 0, 1, 5, 3, 4), (5, 4, 3, 2, 1, 0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path))


@pytest.fixture
def warnings() -> list[str]:
    return []


def opened(model: onnx.ModelProto, engine: Name, warnings: list[str], *, optimize: bool = True) -> Engine:
    return open_engine(model.SerializeToString(), engine=engine, concurrency=1, optimize=optimize, warn=warnings.append)


def worst(engine: Engine, model: onnx.ModelProto) -> float:
    """The largest difference between an engine's results and those of the file."""
    (spec,) = engine.inputs
    x = random(*(size or 1 for size in spec.shape))
    expected = compute(model, **{spec.name: x})
    found = engine.submit((x,)).result()
    engine.close()
    return max(float(np.abs(one - other).max()) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("listed", ["none", "some", "all"])
def test_nanodet_is_computed_as_its_file_says(
    engine: Name, listed: Literal["none", "some", "all"], warnings: list[str]
) -> None:
    model = nanodet(listed=listed)

    assert worst(opened(model, engine, warnings), model) < 1e-3
    assert warnings == []


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize("order", [ONE_WAY, INVERSE, (0, 1, 2, 3, 4, 5)])
def test_channels_in_another_order_are_computed_as_the_file_says(
    order: tuple[int, ...], optimize: bool, warnings: list[str]
) -> None:
    model = permuted(order)

    assert worst(opened(model, "openvino", warnings, optimize=optimize), model) < 1e-4
    assert warnings == []


def doubled(graph: Graph) -> int:
    """A pass that changes what the model computes."""
    for node in graph.nodes:
        weights = graph.constant(node.input[1]) if node.op_type == "Conv" else None
        if weights is not None and "~" not in node.input[1]:
            node.input[1] = graph.add_constant(weights * 2, like=node.input[1])
            return 1
    return 0


def test_a_pass_that_changes_results_is_left_out_by_name(warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "OPENVINO", (doubled, *OPENVINO))
    model = small_network()
    engine = opened(model, "openvino", warnings)

    assert engine.report["without"] == "doubled"
    assert len(warnings) == 1
    assert "doubled" in warnings[0]
    assert worst(engine, model) < 1e-4
    again = opened(model, "openvino", warnings)
    assert (again.report["model"], again.report["without"], len(warnings)) == ("cached", "doubled", 1)
    again.close()


def tripled(graph: Graph) -> int:
    return doubled(graph)


def test_all_passes_that_change_results_are_left_out(warnings: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rewriting, "COMMON", (*COMMON, doubled, tripled))
    model = small_network()
    engine = opened(model, "onnxruntime", warnings)

    assert engine.report["without"] == "doubled, tripled"
    assert worst(engine, model) < 1e-4


@pytest.fixture
def without_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO computes one-way orders of channels wrongly, and nothing keeps them from it."""
    monkeypatch.setattr(rewriting, "REPAIRS", ())


@pytest.mark.usefixtures("without_repairs")
def test_a_model_that_openvino_computes_otherwise_runs_on_onnx_runtime(warnings: list[str]) -> None:
    model = permuted(ONE_WAY)
    engine = opened(model, "auto", warnings, optimize=False)

    assert engine.name == "onnxruntime"
    assert "OpenVINO computes it differently from ONNX Runtime: output 'y' is off by" in warnings[0]
    assert "runs on ONNX Runtime instead" in warnings[0]
    assert worst(engine, model) < 1e-4


@pytest.mark.usefixtures("without_repairs")
def test_openvino_that_was_asked_for_computes_otherwise_and_says_so_at_every_start(warnings: list[str]) -> None:
    for _ in range(2):
        engine = opened(permuted(ONE_WAY), "openvino", warnings, optimize=False)
        assert engine.name == "openvino"
        engine.close()

    assert ["use engine: onnxruntime" in text for text in warnings] == [True, True]


def test_the_form_of_the_image_is_part_of_the_proof(warnings: list[str]) -> None:
    model = small_network()
    form = ImageForm(mean=(10.0, 20.0, 30.0), scale=(0.1, 0.2, 0.3))
    with_form = open_engine(model.SerializeToString(), engine="openvino", image=form, warn=warnings.append)
    levels = np.random.default_rng(0).integers(0, 256, (1, 24, 32, 3), dtype=np.uint8)

    (found,) = with_form.submit((levels,)).result()
    with_form.close()

    values = (levels.astype(np.float32) - form.mean) * np.array(form.scale)
    (expected,) = compute(model, x=values.transpose(0, 3, 1, 2).astype(np.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-2)
    assert warnings == []


def told(found: list[list[float]], expected: list[list[float]], *, selects: bool = False) -> str | None:
    sides = [np.array(side, np.float32) for side in (found, expected)]
    return difference([[sides[0]]], [[sides[1]]], tolerance=1e-3, names=["y"], selects=selects)


def test_rounding_is_no_difference_and_a_share_of_the_values_is_one() -> None:
    assert told([[1.0, 2.0]], [[1.0001, 2.0]]) is None
    assert told([[1.0, 2.0]], [[1.0, 2.5]]) == "output 'y' is off by 19% of its size"
    assert told([[float("nan"), 1.0]], [[1.0, 1.0]]) is not None
    assert told([[1.0]], [[1.0, 1.0]]) is not None


def test_rows_that_a_selection_put_into_another_order_are_the_same() -> None:
    rows = [[10.0 * row, row] for row in range(20)]

    assert told(rows[::-1], rows) is not None
    assert told(rows[::-1], rows, selects=True) is None
    assert told(rows[2:], rows, selects=True) is None
    assert told(rows[:18], rows, selects=True) is not None
    assert told(rows[:5], rows, selects=True) is not None


def test_a_few_of_the_best_rows_that_rounding_exchanged_are_no_difference() -> None:
    rows = np.random.default_rng(0).uniform(0, 100, (50, 6)).tolist()
    exchanged = [[1.0] * 6, *rows[:20], *rows[21:48], [2.0] * 6, rows[48]]
    other = np.random.default_rng(1).uniform(0, 100, (50, 6)).tolist()

    assert told(exchanged, rows) is not None
    assert told(exchanged, rows, selects=True) is None
    assert told(other, rows, selects=True) is not None
    assert told([*other[:10], *rows[10:]], rows, selects=True) is not None
    assert told([row[::-1] for row in rows], rows, selects=True) is not None
    assert told(rows[:4], [*rows[:3], rows[5]], selects=True) is not None
    assert told([[float("nan")] * 6, *rows[1:]], rows, selects=True) is None
    assert told([[float("nan")] * 6] * 50, rows, selects=True) is not None
    assert told([[float("inf"), *row[1:]] for row in rows], rows, selects=True) is not None


def test_weights_of_another_network_are_a_difference() -> None:
    model, other = nanodet(), nanodet()
    weights = other.graph.initializer[0]
    weights.CopyFrom(numpy_helper.from_array(-numpy_helper.to_array(weights), weights.name))
    x = random(1, 3, 64, 64)
    found, expected = compute(other, image=x), compute(model, image=x)

    assert difference([found], [expected], tolerance=1e-3, names=["y"] * 6) is not None
