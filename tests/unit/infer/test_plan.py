from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sightline.devices import Device
from sightline.errors import ModelError
from sightline.graph import CheckContext, Element, Outputs, Site
from sightline_plugins import Classify, Detect, Segment
from sightline_plugins.infer.detections import detection_rules
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.postprocessing import DetectionRules
from tests.unit.infer.tiny import LABELS, write_detector, write_shapes

CONTEXT = CheckContext(device=Device(), streams=("gate", "yard"), outputs=Outputs())


def problems(model: Path, **options: Any) -> dict[tuple[str | int, ...], str]:
    element = Detect.model_validate({"model": model} | options)
    return {problem.key: problem.message for problem in element.check(CONTEXT)}


def planned(element: Detect) -> tuple[ModelPlan, DetectionRules]:
    plan, found = element.plan()
    assert plan is not None, found
    return plan, detection_rules(element, plan)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_detector(tmp_path / "tiny.onnx")


def test_a_good_description_has_no_problems(model: Path) -> None:
    assert problems(model, labels=LABELS, classes=["pink"], regions={"gate": [[0, 0, 1, 1]]}) == {}


def test_a_missing_model_is_reported_once(tmp_path: Path) -> None:
    found = problems(tmp_path / "none.onnx", classes=["car"])

    assert list(found) == [("model",)]
    assert "none.onnx" in found["model",]
    assert "no such file" in found["model",]


def test_a_file_that_is_no_model_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("hello")

    assert "is not an ONNX file" in problems(path)["model",]


def test_all_mistakes_are_reported_at_once(model: Path) -> None:
    found = problems(
        model,
        labels=["car", "bus", "person"],
        classes=["car", "buss"],
        class_confidence={"persn": 0.4},
        size=[64, 64],
        regions={"gat": [[0, 0, 1, 1]]},
    )

    assert found.keys() == {("labels",), ("classes", 1), ("class_confidence", "persn"), ("size",), ("regions", "gat")}
    assert "the model has 2 classes, 3 labels are given" in found["labels",]
    assert "did you mean 'bus'?" in found["classes", 1]
    assert "the model takes images of 32x32 only, not 64x64" in found["size",]


@pytest.mark.parametrize(
    ("step", "shape", "form"),
    [
        (Detect, [1, 1000], "a score for each class: use the step `classify`"),
        (Detect, [1, 1000, 1, 1], "a score for each class: use the step `classify`"),
        (Detect, [1, 512], "a vector of features: use the step `embed`"),
        (Segment, [1, 3549, 85], "boxes: use the step `detect`"),
        (Classify, [1, 3549, 85], "boxes: use the step `detect`"),
    ],
)
def test_a_model_for_another_step_is_told_its_step(
    tmp_path: Path, step: type[Element], shape: list[int | str], form: str
) -> None:
    side = 416 if 3549 in shape else 257
    model = write_shapes(
        tmp_path / "m.onnx",
        inputs={"x": [1, 3, side, side]},
        outputs={"y": shape},
    )

    (problem,) = step.model_validate({"model": model}).check(CONTEXT)

    assert problem.key == ("head",)
    assert f"are those of {form}, or set head" in problem.message


def test_a_map_may_be_one_of_classes(tmp_path: Path) -> None:
    model = write_shapes(tmp_path / "m.onnx", inputs={"x": [1, 257, 257, 3]}, outputs={"y": [1, 257, 257, 21]})

    message = problems(model)["head",]

    assert "fit no head" in message
    assert message.endswith("if they are a map of classes, use the step `segment`")


def test_an_unknown_head_is_reported_with_the_nearest_name(model: Path) -> None:
    message = problems(model, head="fastest_det")["head",]

    assert "did you mean 'fastestdet'?" in message
    assert "yolov8" in message


def test_a_head_that_cannot_read_the_outputs_is_reported(model: Path) -> None:
    assert "head 'yolov8' cannot read" in problems(model, head="yolov8")["head",]


def test_classes_without_labels_ask_for_labels(model: Path) -> None:
    assert "no labels are known: give labels" in problems(model, classes=["car"])["classes", 0]


def test_a_missing_labels_file_is_reported(model: Path, tmp_path: Path) -> None:
    assert "cannot be read" in problems(model, labels=str(tmp_path / "none.names"))["labels",]


def test_a_wrong_card_is_reported(model: Path) -> None:
    model.with_suffix(".yaml").write_text("confidence: high")

    assert "model card" in problems(model)["model",]


def test_a_card_for_another_task_is_reported(model: Path) -> None:
    model.with_suffix(".yaml").write_text("task: classify")

    assert "is made for 'classify'" in problems(model)["model",]


def test_metadata_for_another_task_is_reported(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "tiny.onnx", metadata={"task": "classify"})

    assert "is made for 'classify' according to its metadata" in problems(model)["model",]


def test_a_model_of_open_size_asks_for_one(tmp_path: Path) -> None:
    model = write_shapes(
        tmp_path / "open.onnx", inputs={"images": [1, 3, "height", "width"]}, outputs={"out": [1, 84, 8400]}
    )

    assert "set one, such as size" in problems(model)["size",]
    assert problems(model, size=[640, 640]) == {}


def test_a_model_of_two_images_is_refused(tmp_path: Path) -> None:
    model = write_shapes(
        tmp_path / "two.onnx", inputs={"a": [1, 3, 32, 32], "b": [1, 3, 32, 32]}, outputs={"out": [1, 84, 8400]}
    )

    assert "a model takes one image of 3 channels" in problems(model)["model",]


def test_a_function_of_the_user_is_for_another_step(model: Path) -> None:
    (text,) = problems(model, head="mine.py:decode").values()

    assert "write `- infer: {model: " in text
    assert "head: 'mine.py:decode'}` instead of `detect`" in text


def test_outputs_that_fit_no_head_are_reported_with_the_heads(tmp_path: Path) -> None:
    model = write_shapes(tmp_path / "odd.onnx", inputs={"a": [1, 3, 32, 32]}, outputs={"out": [1, 7, 5, 5]})

    assert "fit no head; set head if the model is one of these: fastestdet" in problems(model)["head",]


def test_build_refuses_what_check_would_tell(model: Path) -> None:
    with pytest.raises(ModelError, match="the model has 2 classes, 1 labels are given"):
        Detect(model=model, labels=("car",)).build(Site(device=Device()))


@pytest.mark.parametrize(
    "options",
    [
        {"regions": [[0.5, 0, 0.5, 1]]},
        {"regions": []},
        {"regions": [[0, 0, 2, 1]]},
        {"mean": [1, 2]},
        {"scale": 0},
        {"pad": 300},
        {"every": 0},
        {"confidence": 1.5},
        {"fit": "crop"},
        {"engine": "tensorflow"},
        {"confidenc": 0.5},
    ],
)
def test_values_that_cannot_be_meant_are_refused(model: Path, options: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Detect.model_validate({"model": model} | options)


def test_an_option_wins_over_the_card_and_the_card_over_the_family(model: Path) -> None:
    model.with_suffix(".yaml").write_text("input: {color: rgb, scale: 2}\nnms: {iou: 0.6}\nconfidence: 0.7\n")
    plan, rules = planned(Detect.model_validate({"model": model, "scale": 3}))

    assert (plan.preprocessing.color, plan.preprocessing.scale, plan.preprocessing.fit) == ("rgb", (3.0,), "stretch")
    assert (rules.nms.iou, rules.nms.class_agnostic, rules.confidence) == (0.6, True, 0.7)


@pytest.mark.parametrize(
    ("options", "found"),
    [({"labels": LABELS}, set(LABELS)), ({"labels": LABELS, "classes": ["pink"]}, {"pink"}), ({}, None)],
)
def test_labels_that_can_be_found_are_known_before_anything_runs(
    model: Path, options: dict[str, Any], found: set[str] | None
) -> None:
    assert Detect.model_validate({"model": model} | options).found_labels() == found


def test_labels_of_the_model_file_are_known(tmp_path: Path) -> None:
    path = write_detector(tmp_path / "named.onnx", metadata={"names": str(dict(enumerate(LABELS)))})

    assert Detect(model=path).found_labels() == frozenset(LABELS)


def test_the_labels_of_a_missing_model_are_unknown(tmp_path: Path) -> None:
    assert Detect(model=tmp_path / "none.onnx", labels=LABELS).found_labels() is None


@pytest.mark.parametrize(
    ("card", "options", "method"),
    [
        ("nms: {method: fusion}", {}, "fusion"),
        ("nms: {method: fusion}", {"nms": "soft"}, "soft"),
        ("nms: {method: fusion}", {"nms": {"sigma": 0.2}}, "fusion"),
        ("", {"nms": "none"}, "none"),
        ("", {}, "hard"),
    ],
)
def test_the_suppression_method_is_set_by_option_or_card(
    model: Path, card: str, options: dict[str, Any], method: str
) -> None:
    model.with_suffix(".yaml").write_text(card)
    _, rules = planned(Detect.model_validate({"model": model} | options))

    assert rules.nms.method == method


def test_a_method_asked_for_with_a_model_that_needs_none_works_at_the_usual_overlap(tmp_path: Path) -> None:
    path = write_shapes(tmp_path / "end.onnx", inputs={"images": [1, 3, 32, 32]}, outputs={"found": [1, 100, 6]})
    _, plain = planned(Detect(model=path, head="end_to_end"))
    _, fused = planned(Detect.model_validate({"model": path, "head": "end_to_end", "nms": "fusion"}))

    assert (plain.nms.iou, fused.nms.iou) == (1.0, 0.45)


def test_an_engine_of_gpus_is_refused_on_a_cpu_whether_it_is_installed_or_not(model: Path) -> None:
    found = problems(model, engine="tensorrt")

    assert found["engine",] == "engine tensorrt needs a GPU, and this runs on the CPU: use auto"
