"""What `tensors` keeps: outputs by name, on frames and on objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.devices import Device
from sightline.graph import Outputs
from sightline.graph.element import CheckContext
from sightline.media import Batch, PixelFormat
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.tensors import Tensors
from tests.unit.infer.mean_color import GREEN, RED, frames, tracked
from tests.unit.infer.tiny_maps import PLAIN, painted, write_class_map, write_simcc


def tensors(model: Path, **options: Any) -> Tensors:
    return Tensors.model_validate({"model": model, **PLAIN, **options})


def image(*, count: int = 1) -> list[Batch]:
    rgb = painted(((0, 0, 32, 64), RED), ((32, 0, 64, 64), GREEN))
    return make_batches(frames(*[surface_from_rgb(rgb, pixel_format=PixelFormat.RGB24)] * count), size=count)


def problems(element: Tensors) -> list[str]:
    return [problem.message for problem in element.check(CheckContext(Device(), ("gate",), Outputs(None)))]


def test_outputs_of_the_image_are_kept_by_step_and_name(tmp_path: Path) -> None:
    (batch,) = run_element(tensors(write_class_map(tmp_path / "map.onnx")), image())

    (view,) = batch
    assert list(view.tensors) == ["tensors.map"]
    assert view.tensors["tensors.map"].shape == (4, 8, 8)
    assert np.allclose(view.tensors["tensors.map"][1, :, :3], 10, atol=1e-3)


def test_each_frame_has_its_own(tmp_path: Path) -> None:
    (batch,) = run_element(tensors(write_class_map(tmp_path / "map.onnx")), image(count=3))

    assert [tensor.frame for tensor in batch.tensors] == [0, 1, 2]


def test_only_named_outputs_are_kept(tmp_path: Path) -> None:
    (batch,) = run_element(tensors(write_simcc(tmp_path / "rows.onnx"), outputs=["simcc_y"]), image())

    assert [tensor.name for tensor in batch.tensors] == ["simcc_y"]


def test_regions_have_their_number_behind_the_name(tmp_path: Path) -> None:
    regions = [[0, 0, 0.5, 1], [0.5, 0, 1, 1]]

    (batch,) = run_element(tensors(write_class_map(tmp_path / "map.onnx"), regions=regions), image())

    (view,) = batch
    assert view.tensors["tensors.map.0"][1].mean() == pytest.approx(10, abs=1e-3)
    assert view.tensors["tensors.map.1"][2].mean() == pytest.approx(10, abs=1e-3)


def test_outputs_of_objects_are_kept_with_them(tmp_path: Path) -> None:
    seen = [tracked(batch, (0, 0, 30, 64), (34, 0, 64, 64), (0, 0, 0.5, 0.5)) for batch in image()]

    (batch,) = run_element(tensors(write_class_map(tmp_path / "map.onnx"), on="car"), seen)

    red, green, tiny = batch.objects
    assert red.tensors["tensors.map"].shape == (4, 8, 8)
    assert green.tensors["tensors.map"][2].mean() == pytest.approx(10, abs=0.5)
    assert tiny.tensors == {}


def test_kept_outputs_are_no_attributes(tmp_path: Path) -> None:
    seen = [tracked(batch, (0, 0, 30, 64)) for batch in image()]

    (batch,) = run_element(tensors(write_class_map(tmp_path / "map.onnx"), on="car"), seen)

    assert batch.objects[0].attributes == {}


def test_integers_of_objects_become_floats(tmp_path: Path) -> None:
    seen = [tracked(batch, (0, 0, 30, 64)) for batch in image()]

    (batch,) = run_element(tensors(write_class_map(tmp_path / "map.onnx", form="classes"), on="car"), seen)

    assert batch.objects[0].tensors["tensors.map"].dtype == np.float64


def test_what_is_known_of_a_track_is_used_again(tmp_path: Path) -> None:
    (batch,) = image(count=2)
    objects = tracked(batch, (0, 0, 30, 64), (34, 0, 64, 64), tracks=[7, 7]).objects
    seen = batch.with_objects(objects.with_columns(frame=np.array([0, 1], np.int32)))

    (after,) = run_element(tensors(write_class_map(tmp_path / "map.onnx"), on="car", reinfer_interval="10s"), [seen])

    first, second = (obj.tensors["tensors.map"] for obj in after.objects)
    assert np.array_equal(first, second)


def test_outputs_that_are_no_finite_numbers_are_not_kept(tmp_path: Path) -> None:
    (batch,) = run_element(tensors(write_class_map(tmp_path / "map.onnx", form="log")), image())

    assert batch.tensors == ()


def test_an_output_that_is_not_there_is_reported_before_anything_runs(tmp_path: Path) -> None:
    element = tensors(write_class_map(tmp_path / "map.onnx"), outputs=["mop"])

    assert problems(element) == ["there is no output 'mop'; did you mean 'map'?; outputs: map"]


def test_a_head_is_not_needed(tmp_path: Path) -> None:
    element = tensors(write_class_map(tmp_path / "map.onnx"), head="class_map")

    assert problems(element) == ["outputs are kept as they are: leave head out"]
