"""The element that a model is for: asked for, written down, or told by the form of the outputs."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from sightline_plugins.commands.model_step import TASKS
from sightline_plugins.heads.head import TaskName
from sightline_plugins.heads.registry import HEADS
from sightline_plugins.infer import tasks
from sightline_plugins.infer.tasks import choose_task
from tests.unit.infer.tiny import write_detector, write_shapes

Shapes = dict[str, list[int | str]]


def write(folder: Path, **outputs: list[int | str]) -> Path:
    return write_shapes(folder / "m.onnx", inputs={"images": [1, 3, 64, 64]}, outputs=outputs)


@pytest.mark.parametrize(
    ("outputs", "task"),
    [
        ({"y": [1, 84, 84]}, "detect"),
        ({"y": [1, 4 + 3 + 32, 84], "prototypes": [1, 32, 16, 16]}, "segment"),
        ({"y": [1, 10]}, "classify"),
        ({"y": [1, 10, 1, 1]}, "classify"),
        ({"y": [1, 1, 1, 10]}, "classify"),
        ({"y": [1, 512]}, "embed"),
        ({"y": [1, 7]}, "classify"),
        ({"y": [1, 21, 64, 64]}, "segment"),
        ({"y": [1, 85, 4, 4]}, "detect"),
        ({"x": [1, 17, 128], "y": [1, 17, 128]}, "pose"),
        ({"y": [1, 40, 97]}, "read"),
    ],
)
def test_the_form_of_the_outputs_tells_the_element(tmp_path: Path, outputs: Shapes, task: str) -> None:
    choice = choose_task(write(tmp_path, **outputs))

    assert (choice.task, choice.origin) == (task, "outputs")


def test_maps_of_a_portrait_are_keypoints(tmp_path: Path) -> None:
    model = write_shapes(tmp_path / "m.onnx", inputs={"x": [1, 3, 256, 192]}, outputs={"y": [1, 17, 64, 48]})

    assert choose_task(model).task == "pose"


def test_a_card_wins_over_metadata(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "m.onnx", metadata={"task": "segment"})
    assert choose_task(model).origin == "metadata"
    assert choose_task(model).task == "segment"

    model.with_suffix(".yaml").write_text("task: pose\n")

    assert (choose_task(model).task, choose_task(model).origin) == ("pose", "card")


def test_what_was_asked_for_wins(tmp_path: Path) -> None:
    choice = choose_task(write_detector(tmp_path / "m.onnx", metadata={"task": "segment"}), "embed")

    assert (choice.task, choice.origin) == ("embed", "option")


def test_a_head_tells_its_element(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "m.onnx")
    assert choose_task(model, head="tags").task == "classify"

    model.with_suffix(".yaml").write_text("head: heatmap\n")

    assert (choose_task(model).task, choose_task(model).origin) == ("pose", "card")


def test_oriented_boxes_are_for_detect(tmp_path: Path) -> None:
    assert choose_task(write_detector(tmp_path / "m.onnx", metadata={"task": "obb"})).task == "detect"


def test_labels_make_a_vector_one_of_classes(tmp_path: Path) -> None:
    model = write(tmp_path, y=[1, 512])
    model.with_suffix(".yaml").write_text(f"labels: {[f'c{number}' for number in range(512)]}\n")

    assert choose_task(model).task == "classify"


def test_labels_tell_a_map_of_boxes_from_one_of_classes(tmp_path: Path) -> None:
    def chosen(**metadata: str) -> str:
        return choose_task(write_detector(tmp_path / "m.onnx", metadata=metadata)).task

    assert chosen() == "segment"
    assert chosen(names="['yellow', 'pink']") == "detect"


def test_an_element_that_is_as_likely_is_named(tmp_path: Path) -> None:
    assert choose_task(write(tmp_path, y=[1, 512])).others == ("classify",)


def test_outputs_that_fit_nothing_are_taken_for_boxes(tmp_path: Path) -> None:
    choice = choose_task(write(tmp_path, y=[1, 2, 3, 4, 5]))

    assert (choice.task, choice.origin) == ("detect", "default")


def test_the_names_of_the_elements_are_the_same_everywhere() -> None:
    assert set(TASKS) == set(tasks.TASKS) == set(get_args(TaskName))


def test_every_head_says_what_it_reads() -> None:
    assert [name for name, head in HEADS.items() if not (head.family and head.outputs)] == []
