"""`segment` and `pose` with models that find boxes: masks and keypoints belong to the objects that stay."""

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
from sightline_plugins.infer.segment import Segment
from tests.unit.infer.mean_color import frames, tracked
from tests.unit.infer.tiny_maps import painted, write_instances, write_posed_boxes

LABELS = ("cat", "dog")
CELLS = 84
MASKS = 4
BOXES = (
    (0, (16, 16, 48, 48), 0.9, (4, 0, 0, 0)),
    (0, (17, 16, 49, 48), 0.6, (0, 0, 0, 1)),
    (1, (0, 0, 64, 64), 0.8, (0, 4, 0, 0)),
)
"""Class, corners, confidence and coefficients; the second gives way to the first."""


def known_values() -> npt.NDArray[np.float32]:
    values = np.zeros((1, 4 + len(LABELS) + MASKS, CELLS), np.float32)
    for cell, (class_id, (left, top, right, bottom), confidence, coefficients) in enumerate(BOXES):
        values[0, :4, cell] = (left + right) / 2, (top + bottom) / 2, right - left, bottom - top
        values[0, 4 + class_id, cell] = confidence
        values[0, 6:, cell] = coefficients
    return values


def known_prototypes() -> npt.NDArray[np.float32]:
    """The left half is the first, the upper half the second."""
    prototypes = np.full((1, MASKS, 16, 16), -1, np.float32)
    prototypes[0, 0, :, :8] = 1
    prototypes[0, 1, :8] = 1
    return prototypes


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_instances(tmp_path / "instances.onnx", values=known_values(), prototypes=known_prototypes())


def segment(model: Path, **options: Any) -> Segment:
    return Segment.model_validate({"model": model, "labels": LABELS, **options})


def images(level: int = 128, *, count: int = 1, size_wh: tuple[int, int] = (128, 128)) -> list[Batch]:
    rgb = painted(((0, 0, *size_wh), (level, level, level)), size_wh=size_wh)
    return make_batches(frames(*[surface_from_rgb(rgb, pixel_format=PixelFormat.RGB24)] * count))


def test_each_object_that_stays_has_its_mask(model: Path) -> None:
    (batch,) = run_element(segment(model), images())

    cat, dog = sorted(batch.objects, key=lambda obj: obj.label)
    assert (cat.label, cat.xyxy, dog.xyxy) == ("cat", (32, 32, 96, 96), (0, 0, 128, 128))
    assert cat.mask is not None
    assert dog.mask is not None
    assert (cat.mask.left, cat.mask.top, cat.mask.bits.shape) == (32, 32, (64, 64))
    assert cat.mask.bits[:, :30].all()
    assert not cat.mask.bits[:, 34:].any()
    assert dog.mask.bits[:62].all()
    assert not dog.mask.bits[66:].any()


def test_masks_of_a_letterboxed_image_lie_in_the_image(model: Path) -> None:
    (batch,) = run_element(segment(model, classes=["dog"]), images(size_wh=(128, 64)))

    (dog,) = batch.objects
    assert dog.mask is not None
    assert (dog.xyxy, dog.mask.bits.shape) == ((0, 0, 128, 64), (64, 128))
    assert dog.mask.bits[:30].all()
    assert not dog.mask.bits[34:].any()


def test_detect_like_options_are_those_of_boxes(model: Path) -> None:
    (batch,) = run_element(segment(model, confidence=0.85), images())

    assert [obj.label for obj in batch.objects] == ["cat"]


def test_masks_found_on_an_object_are_its_childrens(model: Path) -> None:
    seen = [tracked(batch, (32, 32, 96, 96)) for batch in images()]

    (batch,) = run_element(segment(model, on="car", classes=["cat"]), seen)

    (child,) = [obj for obj in batch.objects if obj.parent]
    assert child.mask is not None
    assert (child.xyxy, child.mask.left, child.mask.top) == ((48, 48, 80, 80), 48, 48)


def test_prototypes_that_are_no_numbers_become_nothing(model: Path) -> None:
    assert len(run_element(segment(model), images(255))[0].objects) == 0


def test_options_of_maps_have_no_meaning_for_boxes(model: Path) -> None:
    context = CheckContext(Device(), ("gate",), Outputs(None))

    problems = [problem.message for problem in segment(model, min_area=0.1).check(context)]

    assert problems == ["min_area has no meaning for a model with head 'yolov8_seg': leave it out"]


POSE = {"head": "yolov8_pose", "head_options": {"keypoints": [2, 3]}}


def posed_boxes(folder: Path) -> Path:
    values = np.zeros((1, 4 + 1 + 6, CELLS), np.float32)
    values[0, :, 3] = (32, 32, 32, 32, 0.9, 20, 24, 0.7, 40, 44, 0.6)
    return write_posed_boxes(folder / "pose.onnx", values=values)


def test_a_model_of_boxes_and_keypoints_gives_objects_with_both(tmp_path: Path) -> None:
    options = {"labels": ["robot"], "keypoints": ["hand", "foot"], "skeleton": [[0, 1]]}
    pose = Pose.model_validate({"model": posed_boxes(tmp_path), **POSE, **options})

    (batch,) = run_element(pose, images())

    (robot,) = batch.objects
    assert (robot.label, robot.xyxy) == ("robot", (32, 32, 96, 96))
    assert robot.keypoints is not None
    assert np.allclose(robot.keypoints, [[40, 48, 0.7], [80, 88, 0.6]])
    assert robot.skeleton == Skeleton(("hand", "foot"), ((0, 1),))


def test_the_number_of_keypoints_of_boxes_is_checked_where_it_is_known(tmp_path: Path) -> None:
    pose = Pose.model_validate({"model": posed_boxes(tmp_path), **POSE, "keypoints": ["hand"]})

    problems = [problem.message for problem in pose.check(CheckContext(Device(), ("gate",), Outputs(None)))]

    assert problems == ["the model finds 2 keypoints, 1 names are given"]
