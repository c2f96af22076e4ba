"""What is checked of the models of `classify`, `embed` and `read` before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.devices import Device
from sightline.graph import Capability, CheckContext, Element, Outputs
from sightline_plugins.infer.card import read_alphabet, read_labels
from sightline_plugins.infer.classify import Classify
from sightline_plugins.infer.embed import Embed
from sightline_plugins.infer.read import Read
from tests.conftest import REPOSITORY
from tests.unit.infer.mean_color import COLORS, PLAIN, write_line_reader, write_mean_color
from tests.unit.infer.tiny import write_shapes

CONTEXT = CheckContext(device=Device(), streams=("gate",), outputs=Outputs())


def problems(element: Element) -> dict[tuple[str | int, ...], str]:
    return {problem.key: problem.message for problem in element.check(CONTEXT)}


def classify(model: Path, **options: Any) -> Classify:
    return Classify.model_validate({"model": model, **PLAIN, **options})


def read(model: Path, **options: Any) -> Read:
    return Read.model_validate({"model": model, **options})


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_mean_color(tmp_path / "colors.onnx", ending="Softmax")


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A model with two outputs of three classes each."""
    return write_mean_color(tmp_path / "two.onnx", outputs=("color", "fruit"), ending="Softmax")


def test_good_descriptions_have_no_problems(model: Path, tmp_path: Path) -> None:
    assert problems(classify(model, labels=COLORS)) == {}
    assert problems(Embed(model=model)) == {}
    assert problems(read(write_line_reader(tmp_path / "line.onnx"), labels=["a", "b"])) == {}


def test_the_vehicle_classifier_has_its_attributes_from_its_card() -> None:
    element = Classify(model=REPOSITORY / "models" / "vehicle.onnx")
    plan, found = element.plan()

    assert found == []
    assert plan is not None
    rules = element.rules(plan, element_id="classify-1")
    assert [(output.attribute, output.labels[0]) for output in rules.outputs] == [("colour", "white"), ("kind", "car")]


def test_too_few_labels_are_reported(model: Path) -> None:
    assert (
        "the model has 3 classes, 2 labels are given" in problems(classify(model, labels=["red", "green"]))["labels",]
    )


def test_several_outputs_ask_for_attributes(two: Path) -> None:
    message = problems(classify(two))["attributes",]

    assert "several outputs (color float32 (1, 3); fruit float32 (1, 3))" in message
    assert "attributes: {color: [red, blue], kind: [car]}" in message


def test_attributes_must_be_as_many_as_outputs_and_have_all_labels(two: Path) -> None:
    assert "2 output(s)" in problems(classify(two, attributes={"color": COLORS}))["attributes",]
    found = problems(classify(two, attributes={"color": COLORS, "fruit": ["lime"]}))
    assert "has 3 classes, 1 labels are given" in found["attributes", "fruit"]


def test_an_attribute_cannot_have_the_name_of_a_column(model: Path) -> None:
    with pytest.raises(ValueError, match="'confidence' is a column of every table"):
        classify(model, attribute="confidence")
    assert "cannot be the name of an attribute" in problems(classify(model, id="mask"))["attribute",]


def test_attribute_names_one_output_only(two: Path) -> None:
    options = {"attribute": "color", "attributes": {"color": COLORS, "fruit": COLORS}}

    assert "names one output" in problems(classify(two, **options))["attribute",]


def test_text_needs_its_symbols(tmp_path: Path) -> None:
    model = write_line_reader(tmp_path / "line.onnx")

    assert "give labels" in problems(read(model))["labels",]
    assert (
        "2 labels make 4 symbols" in problems(read(model, labels=["a", "b"], head_options={"space": True}))["labels",]
    )


def test_a_pattern_that_is_none_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a regular expression"):
        read(write_line_reader(tmp_path / "line.onnx"), labels=["a", "b"], pattern="[A-Z")


def test_a_detector_is_no_classifier_and_no_embedder(tmp_path: Path) -> None:
    model = write_shapes(tmp_path / "map.onnx", inputs={"images": [1, 3, 640, 640]}, outputs={"map": [1, 84, 8400]})

    assert "use the step `detect`" in problems(classify(model))["head",]
    assert "use the step `detect`" in problems(Embed(model=model))["head",]


def test_a_step_that_runs_on_objects_needs_them_and_adds_none(model: Path) -> None:
    on_cars, on_images = classify(model, labels=COLORS, on="car"), classify(model, labels=COLORS)

    assert Capability.OBJECTS in on_cars.required()
    assert Capability.OBJECTS not in on_cars.provided()
    assert on_cars.found_labels() == frozenset()
    assert Capability.OBJECTS not in on_images.required()
    assert Capability.OBJECTS in on_images.provided()
    assert on_images.found_labels() == frozenset(COLORS)
    assert Embed(model=model).found_labels() == frozenset({"image"})


def test_an_ultralytics_classifier_brings_its_pre_processing(tmp_path: Path) -> None:
    notes = {"author": "Ultralytics", "task": "classify", "names": "{0: 'a', 1: 'b', 2: 'c'}"}
    plan, _ = Classify(model=write_mean_color(tmp_path / "cls.onnx", metadata=notes)).plan()

    assert plan is not None
    used = plan.preprocessing
    assert (used.fit, used.crop, used.resize, used.mean, used.scale) == ("cover", 1.0, "antialias", (0.0,), (255.0,))
    assert plan.labels == ("a", "b", "c")


def test_labels_after_their_numbers_are_read_without_them(tmp_path: Path) -> None:
    path = tmp_path / "labels.txt"
    path.write_text("0,tench, Tinca tinca\n1,goldfish\n")
    assert read_labels(path) == ("tench, Tinca tinca", "goldfish")
    path.write_text("1 one\n2 two\n")
    assert read_labels(path) == ("1 one", "2 two")


def test_a_space_can_be_a_symbol_of_an_alphabet(tmp_path: Path) -> None:
    path = tmp_path / "symbols.txt"
    path.write_text("a\nb\n \n")

    assert read_alphabet(path) == ("a", "b", " ")
