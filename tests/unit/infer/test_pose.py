"""What `pose` makes of the keypoints of one object: on objects, on the frame, between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.devices import Device
from sightline.graph import Outputs
from sightline.graph.element import CheckContext
from sightline.media import Batch, PixelFormat, Skeleton
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.pose import Pose
from tests.unit.infer.mean_color import BLUE, GREEN, RED, frames, tracked
from tests.unit.infer.tiny_maps import PLAIN, painted, write_heatmaps, write_simcc

NAMES = ["left", "middle", "right"]
THREE = (((8, 8, 12, 12), RED), ((32, 16, 36, 20), GREEN), ((56, 40, 60, 44), BLUE))


def pose(folder: Path, *, head: str = "heatmap", **options: Any) -> Pose:
    write = {"heatmap": write_heatmaps, "simcc": write_simcc}[head]
    return Pose.model_validate({"model": write(folder / f"{head}.onnx"), **PLAIN, **options})


def images(*shifts: tuple[int, int]) -> list[Batch]:
    """Frames with three spots, moved by so much across and down."""
    surfaces = []
    for across, down in shifts or ((0, 0),):
        spots = [((x + across, y + down, z + across, w + down), color) for (x, y, z, w), color in THREE]
        surfaces.append(surface_from_rgb(painted(*spots, size_wh=(128, 128)), pixel_format=PixelFormat.RGB24))
    return make_batches(frames(*surfaces))


def points(batch: Batch, row: int = 0) -> npt.NDArray[np.float32]:
    found = batch.objects[row].keypoints
    assert found is not None
    return found


def problems(element: Pose) -> list[str]:
    return [problem.message for problem in element.check(CheckContext(Device(), ("gate",), Outputs(None)))]


@pytest.mark.parametrize("head", ["heatmap", "simcc"])
def test_keypoints_of_an_object_are_in_pixels_of_the_image(tmp_path: Path, head: str) -> None:
    element = pose(tmp_path, head=head, on={"label": "car", "margin": 0})
    seen = [tracked(batch, (0, 0, 64, 64)) for batch in images()]

    (batch,) = run_element(element, seen)

    middles = np.array([[10, 10], [34, 18], [58, 42]])
    assert len(batch.objects) == 1
    assert np.abs(points(batch)[:, :2] - middles).max() <= 8
    assert (points(batch)[:, 2] > 0.2).all()


def test_the_skeleton_names_the_keypoints(tmp_path: Path) -> None:
    element = pose(tmp_path, on="car", keypoints=NAMES, skeleton=[[0, 1], [1, 2]])

    (batch,) = run_element(element, [tracked(batch, (0, 0, 64, 64)) for batch in images()])

    assert batch.objects[0].skeleton == Skeleton(("left", "middle", "right"), ((0, 1), (1, 2)))


def test_the_card_names_the_keypoints(tmp_path: Path) -> None:
    element = pose(tmp_path, on="car")
    (tmp_path / "heatmap.yaml").write_text("keypoints: [a, b, c]\nskeleton: [[0, 2]]\n")

    (batch,) = run_element(element, [tracked(batch, (0, 0, 64, 64)) for batch in images()])

    assert batch.objects[0].skeleton == Skeleton(("a", "b", "c"), ((0, 2),))


def test_networks_of_one_object_see_an_eighth_more_on_each_side(tmp_path: Path) -> None:
    seen = [tracked(batch, (8, 8, 72, 72)) for batch in images()]

    (usual,) = run_element(pose(tmp_path, on="car"), seen)
    (explicit,) = run_element(pose(tmp_path, on={"label": "car", "margin": 0.125}), seen)
    (none,) = run_element(pose(tmp_path, on={"label": "car", "margin": 0}), seen)

    assert np.array_equal(points(usual), points(explicit))
    assert not np.array_equal(points(usual), points(none))


def test_the_surroundings_fill_the_shape_of_the_network(tmp_path: Path) -> None:
    element = pose(tmp_path, head="simcc", fit="expand", on={"label": "car", "margin": 0})

    (batch,) = run_element(element, [tracked(batch, (24, 0, 40, 64)) for batch in images()])

    assert points(batch)[0, :2].tolist() == [8, 8]


def test_without_objects_the_frame_is_one_object(tmp_path: Path) -> None:
    (batch,) = run_element(pose(tmp_path, head="simcc", labels=["hand"]), images())

    (obj,) = batch.objects
    corners = points(batch)[:, :2]
    assert obj.label == "hand"
    assert obj.xyxy == (*corners.min(axis=0), *corners.max(axis=0))
    assert obj.confidence == pytest.approx(points(batch)[:, 2].mean())


def test_uncertain_results_are_left_out(tmp_path: Path) -> None:
    assert len(run_element(pose(tmp_path, confidence=0.9), images())[0].objects) == 0


def test_keypoints_move_along_with_an_object_between_runs(tmp_path: Path) -> None:
    first, second = images((0, 0), (90, 90))
    seen = [tracked(first, (0, 0, 64, 64), tracks=[7]), tracked(second, (20, 10, 84, 74), tracks=[7])]

    before, after = run_element(pose(tmp_path, on="car", reinfer_interval="10s"), seen)

    assert np.allclose(points(after)[:, :2], points(before)[:, :2] + [20, 10], atol=1e-3)


def test_the_model_runs_on_every_frame_without_an_interval(tmp_path: Path) -> None:
    first, second = images((0, 0), (20, 10))
    seen = [tracked(first, (0, 0, 64, 64), tracks=[7]), tracked(second, (20, 10, 84, 74), tracks=[7])]

    before, after = run_element(pose(tmp_path, on="car", reinfer_interval="0s"), seen)

    assert np.allclose(points(after)[:, :2], points(before)[:, :2] + [20, 10], atol=1e-3)


def test_of_more_keypoints_that_were_there_before_none_is_left(tmp_path: Path) -> None:
    (batch,) = images()
    seen = tracked(batch, (0, 0, 64, 64))
    seen = seen.with_objects(seen.objects.with_columns(keypoints=np.ones((1, 5, 3), np.float32)))

    (after,) = run_element(pose(tmp_path, on="car"), [seen])

    assert len(points(after)) == 3


def test_a_wrong_count_of_names_is_reported_before_anything_runs(tmp_path: Path) -> None:
    assert problems(pose(tmp_path, keypoints=["nose"])) == ["the model finds 3 keypoints, 1 names are given"]


def test_a_line_to_a_keypoint_that_is_not_there_is_reported_before_anything_runs(tmp_path: Path) -> None:
    assert problems(pose(tmp_path, skeleton=[[0, 3]])) == ["keypoints have the numbers 0 to 2"]


def test_options_for_boxes_have_no_meaning_for_one_object(tmp_path: Path) -> None:
    assert problems(pose(tmp_path, iou=0.4)) == ["iou has no meaning for a model with head 'heatmap': leave it out"]


def test_on_objects_it_adds_no_labels(tmp_path: Path) -> None:
    assert pose(tmp_path, on="car").found_labels() == frozenset()
    assert pose(tmp_path).found_labels() == frozenset({"person"})
