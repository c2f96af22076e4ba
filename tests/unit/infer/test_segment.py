"""What `segment` makes of maps of classes: one object with a mask for each class, at the image's size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.devices import Device
from sightline.graph import Outputs
from sightline.graph.element import CheckContext
from sightline.graph.messages import Message, MessageKind
from sightline.media import Batch, Mask, PixelFormat
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.segment import Segment
from tests.unit.infer.mean_color import BLUE, GREEN, RED, frames, tracked
from tests.unit.infer.tiny_maps import CLASSES, PLAIN, Form, painted, write_class_map

Block = tuple[tuple[int, int, int, int], tuple[int, int, int]]
LEFT: Block = ((0, 0, 32, 64), RED)
RIGHT: Block = ((40, 16, 64, 48), BLUE)
WHITE = (255, 255, 255)


def segment(folder: Path, form: Form = "nchw", **options: Any) -> Segment:
    model = write_class_map(folder / f"{form}.onnx", form=form)
    return Segment.model_validate({"model": model, "labels": CLASSES, **PLAIN, **options})


def images(*blocks: Block, count: int = 1, size_wh: tuple[int, int] = (64, 64)) -> list[Batch]:
    surface = surface_from_rgb(painted(*blocks, size_wh=size_wh), pixel_format=PixelFormat.RGB24)
    return make_batches(frames(*[surface] * count))


def masks(batch: Batch) -> dict[str, Mask]:
    found = {}
    for obj in batch.objects:
        assert obj.mask is not None
        assert obj.label not in found
        found[obj.label] = obj.mask
    return found


def covered(batch: Batch, label: str) -> npt.NDArray[np.bool_]:
    return masks(batch)[label].in_image(batch.frames[0].size_wh)


def problems(element: Segment) -> list[str]:
    context = CheckContext(Device(), ("gate",), Outputs(None))
    return [problem.message for problem in element.check(context)]


@pytest.mark.parametrize("form", ["nchw", "nhwc", "softmax", "classes"])
def test_each_class_becomes_an_object_with_its_pixels(tmp_path: Path, form: Form) -> None:
    (batch,) = run_element(segment(tmp_path, form), images(LEFT, RIGHT))

    assert set(masks(batch)) == {"red", "blue"}
    assert covered(batch, "red")[:, :28].all()
    assert not covered(batch, "red")[:, 36:].any()
    assert covered(batch, "blue")[20:44, 46:].all()


def test_the_box_is_the_bounds_of_the_pixels(tmp_path: Path) -> None:
    (batch,) = run_element(segment(tmp_path), images(LEFT, RIGHT))

    for obj in batch.objects:
        rows, columns = np.nonzero(covered(batch, obj.label))
        assert obj.xyxy == (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)


def test_the_confidence_is_the_mean_probability_where_the_class_wins(tmp_path: Path) -> None:
    (batch,) = run_element(segment(tmp_path), images(((0, 0, 64, 64), RED)))

    expected = np.exp(10) / (np.exp(10) + np.exp(4) + 2)
    assert batch.objects.confidence.tolist() == [pytest.approx(expected, abs=1e-4)]


def test_a_map_of_probabilities_gives_the_same_confidence_as_its_logits(tmp_path: Path) -> None:
    (logits,) = run_element(segment(tmp_path), images(LEFT))
    (shares,) = run_element(segment(tmp_path, "softmax"), images(LEFT))

    assert np.allclose(logits.objects.confidence, shares.objects.confidence, atol=1e-3)


def test_a_map_of_one_class_covers_what_is_above_its_threshold(tmp_path: Path) -> None:
    (batch,) = run_element(segment(tmp_path, "single", labels=["red"], head_options={"values": "logits"}), images(LEFT))

    assert set(masks(batch)) == {"red"}
    assert covered(batch, "red")[:, :30].all()
    assert not covered(batch, "red")[:, 34:].any()


def test_a_map_of_one_class_with_two_labels_is_the_second(tmp_path: Path) -> None:
    element = segment(tmp_path, "single", labels=["rest", "red"], head_options={"values": "logits"})

    (batch,) = run_element(element, images(LEFT))

    assert set(masks(batch)) == {"red"}


def test_the_background_is_no_object_unless_an_option_makes_it_one(tmp_path: Path) -> None:
    (batch,) = run_element(segment(tmp_path, background=None), images(LEFT))

    assert set(masks(batch)) == {"background", "red"}


def test_another_class_can_be_the_background(tmp_path: Path) -> None:
    (batch,) = run_element(segment(tmp_path, background="red"), images(LEFT))

    assert set(masks(batch)) == {"background"}


def test_only_chosen_classes_become_objects(tmp_path: Path) -> None:
    (batch,) = run_element(segment(tmp_path, classes=["blue"]), images(LEFT, RIGHT))

    assert set(masks(batch)) == {"blue"}


def test_small_areas_are_left_out(tmp_path: Path) -> None:
    (batch,) = run_element(segment(tmp_path, min_area=0.3), images(LEFT, RIGHT))

    assert set(masks(batch)) == {"red"}


def test_the_padding_of_a_letterbox_is_no_part_of_the_image(tmp_path: Path) -> None:
    wide = images(((0, 0, 64, 32), GREEN), size_wh=(64, 32))

    (batch,) = run_element(segment(tmp_path, fit="letterbox", pad=0, background=None), wide)

    assert set(masks(batch)) == {"green"}
    assert covered(batch, "green").all()


def test_what_two_regions_show_of_a_class_is_one_object(tmp_path: Path) -> None:
    regions = [[0, 0, 0.5, 1], [0.5, 0, 1, 1]]

    (batch,) = run_element(segment(tmp_path, regions=regions), images(((0, 0, 64, 64), RED)))

    assert covered(batch, "red").all()


def test_areas_of_an_object_are_its_children(tmp_path: Path) -> None:
    seen = [tracked(batch, (0, 0, 40, 64)) for batch in images(LEFT, RIGHT)]

    (batch,) = run_element(segment(tmp_path, on="car"), seen)

    (child,) = [obj for obj in batch.objects if obj.parent is not None]
    assert (child.label, child.parent and child.parent.label) == ("red", "car")
    assert child.mask is not None
    assert child.mask.in_image((64, 64))[:, :28].all()


def test_masks_move_along_with_an_object_between_runs(tmp_path: Path) -> None:
    first, second = images(LEFT, count=2)
    seen = [tracked(first, (0, 0, 32, 32), tracks=[7]), tracked(second, (20, 10, 58, 48), tracks=[7])]

    before, after = run_element(segment(tmp_path, on="car", reinfer_interval="10s"), seen)

    old, new = masks_of_children(before)[0], masks_of_children(after)[0]
    assert (old.left, old.top, old.bits.shape) == (0, 0, (32, 32))
    assert (new.left, new.top, new.bits.shape) == (20, 10, (38, 38))


def masks_of_children(batch: Batch) -> list[Mask]:
    return [obj.mask for obj in batch.objects if obj.parent is not None and obj.mask is not None]


def test_scores_that_are_no_finite_numbers_become_nothing_and_are_reported(tmp_path: Path) -> None:
    messages: list[Message] = []

    (batch,) = run_element(segment(tmp_path, "log"), images(LEFT), messages=messages)

    assert len(batch.objects) == 0
    assert [message.kind for message in messages] == [MessageKind.WARNING]


def test_masks_do_not_depend_on_the_batch_size(tmp_path: Path) -> None:
    blocks: list[Block] = [((number, 0, number + 24, 40), (RED, GREEN, BLUE)[number % 3]) for number in range(6)]
    shots = frames(*(surface_from_rgb(painted(block), pixel_format=PixelFormat.I420) for block in blocks))

    found = []
    for size in (1, 4):
        views = [view for batch in run_element(segment(tmp_path), make_batches(shots, size=size)) for view in batch]
        found.append([[obj.mask.bits.tobytes() for obj in view.objects if obj.mask] for view in views])

    assert found[0] == found[1]


def test_options_for_boxes_have_no_meaning_for_a_map(tmp_path: Path) -> None:
    assert problems(segment(tmp_path, iou=0.5)) == [
        "iou has no meaning for a model with head 'class_map': leave it out"
    ]


def test_a_background_that_is_no_label_is_reported_before_anything_runs(tmp_path: Path) -> None:
    assert problems(segment(tmp_path, background="sky"))[0].startswith("there is no class 'sky'")


def test_the_background_is_not_among_the_labels_that_are_found(tmp_path: Path) -> None:
    assert segment(tmp_path).found_labels() == frozenset({"red", "green", "blue"})
