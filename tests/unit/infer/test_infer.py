"""What `infer` makes of what a user's function returns, and what it says of one that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.devices import Device
from sightline.errors import OperatorError
from sightline.graph import Outputs
from sightline.graph.element import CheckContext
from sightline.media import Batch, PixelFormat
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.infer import Infer
from tests.unit.infer.mean_color import GREEN, RED, frames, tracked
from tests.unit.infer.tiny_maps import PLAIN, painted, write_class_map, write_heatmaps

HEADS = "tests.unit.infer.own_heads"


def infer(folder: Path, function: str, **options: Any) -> Infer:
    model = write_heatmaps(folder / "cells.onnx")
    return Infer.model_validate({"model": model, "head": f"{HEADS}:{function}", **PLAIN, **options})


def images(count: int = 1) -> list[Batch]:
    rgb = painted(((16, 8, 24, 16), RED), ((40, 40, 64, 64), GREEN))
    return make_batches(frames(*[surface_from_rgb(rgb, pixel_format=PixelFormat.RGB24)] * count))


def cars(*boxes: tuple[float, float, float, float], count: int = 1) -> list[Batch]:
    return [tracked(batch, *boxes) for batch in images(count)]


def problems(element: Infer) -> list[str]:
    return [problem.message for problem in element.check(CheckContext(Device(), ("gate",), Outputs(None)))]


def test_candidates_become_objects_in_pixels_of_the_image(tmp_path: Path) -> None:
    (batch,) = run_element(infer(tmp_path, "red_cells", labels=["spot"]), images())

    assert [(obj.label, obj.xyxy) for obj in batch.objects] == [("spot", (16, 8, 24, 16))]


def test_candidates_on_an_object_become_its_children(tmp_path: Path) -> None:
    (batch,) = run_element(infer(tmp_path, "red_cells", on="car"), cars((0, 0, 64, 64)))

    (child,) = [obj for obj in batch.objects if obj.parent]
    assert child.xyxy == (16, 8, 24, 16)


def test_values_become_attributes_of_objects(tmp_path: Path) -> None:
    (batch,) = run_element(infer(tmp_path, "means", on="car"), cars((16, 8, 24, 16), (40, 40, 64, 64)))

    assert [obj.attributes["brightest"] for obj in batch.objects] == ["red", "green"]
    assert batch.objects[0].attributes["redness"] == pytest.approx(1, abs=0.01)


def test_values_of_an_image_belong_to_an_object_for_it(tmp_path: Path) -> None:
    (batch,) = run_element(infer(tmp_path, "means", labels=["scene"]), images())

    (obj,) = batch.objects
    assert (obj.label, obj.xyxy, obj.attributes["brightest"]) == ("scene", (0, 0, 64, 64), "green")


def test_an_empty_mapping_adds_nothing(tmp_path: Path) -> None:
    (batch,) = run_element(infer(tmp_path, "nothing"), images())

    assert len(batch.objects) == 0


def test_keypoints_are_brought_back_to_the_image(tmp_path: Path) -> None:
    (batch,) = run_element(infer(tmp_path, "center", on="car"), cars((10, 20, 30, 60)))

    points = batch.objects[0].keypoints
    assert points is not None
    assert points.tolist() == [[20, 40, 1]]


def test_a_vector_becomes_an_embedding_of_length_one(tmp_path: Path) -> None:
    (batch,) = run_element(infer(tmp_path, "first_row", on="car"), cars((0, 0, 64, 64)))

    embedding = batch.objects[0].embedding
    assert embedding is not None
    assert np.linalg.norm(embedding) == pytest.approx(1)


def test_options_reach_the_function(tmp_path: Path) -> None:
    (batch,) = run_element(infer(tmp_path, "option", head_options={"threshold": 0.75}), images())

    assert batch.objects[0].attributes == {"threshold": 0.75}


def test_what_is_known_of_a_track_is_used_again(tmp_path: Path) -> None:
    first, second = images(2)
    seen = [tracked(first, (16, 8, 24, 16), tracks=[7]), tracked(second, (56, 56, 64, 64), tracks=[7])]

    batches = run_element(infer(tmp_path, "means", on="car", reinfer_interval="10s"), seen)

    assert [batch.objects[0].attributes["brightest"] for batch in batches] == ["red", "red"]


def test_the_function_never_sees_outputs_that_are_no_finite_numbers(tmp_path: Path) -> None:
    model = write_class_map(tmp_path / "log.onnx", form="log")
    element = Infer.model_validate({"model": model, "head": f"{HEADS}:broken", **PLAIN})

    assert len(run_element(element, images())[0].objects) == 0


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("broken", "raised KeyError: 'no such output'"),
        ("wrong", "returned list, not one of Candidates, Mapping, Points, ClassMap, Vector, Scores, Text"),
        ("nested", "returned list for attribute 'cells': strings and numbers are allowed"),
        ("reserved", "returned an attribute of the name 'confidence'"),
    ],
)
def test_a_wrong_function_stops_with_its_name_stream_and_frame(tmp_path: Path, function: str, reason: str) -> None:
    with pytest.raises(OperatorError) as raised:
        run_element(infer(tmp_path, function), images())

    assert str(raised.value).startswith(f"head '{HEADS}:{function}' {reason}")
    assert str(raised.value).endswith("(on stream 'gate', frame 0)")
    assert (raised.value.element, raised.value.stream, raised.value.frame) == ("infer", "gate", 0)


def test_a_function_that_returns_another_kind_later_stops(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="returned Points after Mapping: one kind is allowed"):
        run_element(infer(tmp_path, "fickle"), images(2))


def test_a_function_that_is_not_there_is_reported_before_anything_runs(tmp_path: Path) -> None:
    assert problems(infer(tmp_path, "missing")) == [f"'{HEADS}' holds no function 'missing'"]


def test_a_file_of_ones_own_holds_the_function(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def head(outputs, reading):\n    return {'count': outputs[0].size}\n")
    element = infer(tmp_path, "means").model_copy(update={"head": f"{tmp_path / 'mine.py'}:head"})

    (batch,) = run_element(element, images())

    assert batch.objects[0].attributes == {"count": 192}
