from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sightline.graph.element import Capability
from sightline_plugins.infer.plan import plan_model
from sightline_plugins.infer.tensors import Tensors
from sightline_plugins.preprocess.stacks import StackForm
from tests.unit.infer.stacked import write_stacked, write_two_inputs
from tests.unit.infer.tiny import write_detector


def planned(model: Path, **options: Any) -> tuple[StackForm | None, list[str]]:
    plan, problems = plan_model(Tensors.model_validate({"model": model, **options}), needs_head=False)
    return None if plan is None else plan.stack, [problem.message for problem in problems]


@pytest.mark.parametrize("order", ["cthw", "tchw", "thwc"])
def test_the_file_tells_how_it_takes_its_images(tmp_path: Path, order: str) -> None:
    form, problems = planned(write_stacked(tmp_path / "stacked.onnx", order=order), stride=2)

    assert (form, problems) == (StackForm(4, 2, order), [])  # type: ignore[arg-type]


def test_the_card_tells_what_the_file_leaves_open(tmp_path: Path) -> None:
    model = write_stacked(tmp_path / "stacked.onnx", frames="frames")
    model.with_suffix(".yaml").write_text("input: {frames: 8, stride: 3}")

    assert [planned(model)[0], planned(model, stride=1)[0]] == [StackForm(8, 3, "cthw"), StackForm(8, 1, "cthw")]


@pytest.mark.parametrize(
    ("frames", "options", "message"),
    [
        (
            4,
            {"frames": 8},
            "the model takes 4 images at once (clip float32 (1, 3, 4, 16, 16)), not 8: leave frames out",
        ),
        ("n", {}, "any number of images (clip float32 (1, 3, ?, 16, 16)): set the number, such as frames: 16"),
        (4, {"fit": "native"}, "the images of a stack are of one size: fit cannot be native"),
    ],
)
def test_what_contradicts_the_file_is_reported(
    tmp_path: Path, frames: int | str, options: dict[str, Any], message: str
) -> None:
    form, problems = planned(write_stacked(tmp_path / "stacked.onnx", frames=frames), **options)

    assert form is None
    assert any(message in problem for problem in problems)


def test_a_model_of_single_images_takes_no_stack(tmp_path: Path) -> None:
    _, problems = planned(write_detector(tmp_path / "tiny.onnx"), frames=4, stride=2)

    assert problems == [
        "the model takes single images (images float32 (1, 3, 32, 32)): leave frames out",
        "the model takes single images (images float32 (1, 3, 32, 32)): leave stride out",
    ]


def test_a_model_that_takes_two_stacks_is_refused(tmp_path: Path) -> None:
    _, problems = planned(write_two_inputs(tmp_path / "two.onnx"))

    assert len(problems) == 1
    assert "or a stack of them" in problems[0]


def test_stacks_of_objects_need_tracks(tmp_path: Path) -> None:
    model = write_stacked(tmp_path / "stacked.onnx")

    assert Capability.TRACKS in Tensors.model_validate({"model": model, "frames": 4, "on": "person"}).required()


def test_a_stack_has_at_least_one_image(tmp_path: Path) -> None:
    with pytest.raises(ValidationError):
        Tensors.model_validate({"model": tmp_path / "stacked.onnx", "frames": 0})
