"""What `classify` makes of probabilities: attributes, objects for images, votes over a track."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.media import Batch
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.classify import Classify
from tests.unit.infer.mean_color import (
    BLUE,
    COLORS,
    GREEN,
    GREY,
    PLAIN,
    RED,
    frames,
    plain_surface,
    tracked,
    write_mean_color,
)

BOX = (8, 8, 40, 40)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Softmax of ten times the mean levels: sure of pure colors."""
    return write_mean_color(tmp_path / "colors.onnx", ending="Softmax", gain=10)


def classify(model: Path, **options: Any) -> Classify:
    return Classify.model_validate({"model": model, "labels": COLORS, **PLAIN, **options})


def images(*colors: tuple[int, int, int], fps: int = 10) -> list[Batch]:
    return make_batches(frames(*map(plain_surface, colors), fps=fps))


def cars(*colors: tuple[int, int, int], fps: int = 10, tracks: tuple[int, ...] | None = (7,)) -> list[Batch]:
    return [tracked(batch, BOX, tracks=tracks) for batch in images(*colors, fps=fps)]


def attributes(batches: list[Batch], name: str) -> list[Any]:
    """An attribute of the first object of each batch."""
    return [batch.objects[0].attributes.get(name) for batch in batches]


def test_an_image_becomes_an_object_of_its_class(model: Path) -> None:
    (batch,) = run_element(classify(model), images(GREEN))

    (obj,) = batch.objects
    assert (obj.label, obj.class_id, obj.xyxy) == ("green", 1, (0, 0, 64, 48))
    assert obj.confidence > 0.99
    assert obj.attributes == {}


def test_each_region_becomes_an_object(model: Path) -> None:
    regions = [[0, 0, 0.5, 1], [0.5, 0, 1, 1]]

    (batch,) = run_element(classify(model, regions=regions), images(BLUE))

    assert [obj.xyxy for obj in batch.objects] == [(0, 0, 32, 48), (32, 0, 64, 48)]


def test_an_object_gets_the_class_and_its_confidence(model: Path) -> None:
    (batch,) = run_element(classify(model, on="car", attribute="color"), cars(RED))

    (obj,) = batch.objects
    assert obj.label == "car"
    assert obj.attributes == {"color": "red", "color_confidence": pytest.approx(1, abs=1e-3)}


def test_the_attribute_is_named_after_the_step_unless_it_is_given(model: Path) -> None:
    (batch,) = run_element(classify(model, on="car"), cars(RED))

    assert batch.objects[0].attributes["classify"] == "red"


def test_an_unsure_answer_is_left_out(model: Path) -> None:
    batches = run_element(classify(model, on="car", attribute="color", confidence=0.5), cars(RED, GREY, tracks=None))

    assert attributes(batches, "color") == ["red", None]


def test_an_image_of_no_sure_class_becomes_no_object(model: Path) -> None:
    batches = run_element(classify(model, confidence=0.5), images(GREY, RED))

    assert [len(batch.objects) for batch in batches] == [0, 1]


def test_the_most_likely_classes_are_reported_in_order(model: Path) -> None:
    (batch,) = run_element(classify(model, on="car", attribute="color", top=2), cars((200, 40, 120)))

    assert batch.objects[0].attributes["color_top"] == ("red", "blue")


def test_without_labels_classes_are_numbers(model: Path) -> None:
    (batch,) = run_element(classify(model, on="car", attribute="color", labels=None), cars(BLUE))

    assert batch.objects[0].attributes["color"] == "2"


def test_each_output_is_an_attribute(tmp_path: Path) -> None:
    model = write_mean_color(tmp_path / "two.onnx", outputs=("first", "second"), ending="Softmax", gain=10)
    named = {"color": ["red", "green", "blue"], "fruit": ["tomato", "lime", "plum"]}

    (batch,) = run_element(classify(model, labels=None, on="car", attributes=named), cars(GREEN))

    found = batch.objects[0].attributes
    assert (found["color"], found["fruit"]) == ("green", "lime")


def test_attributes_under_the_names_of_the_outputs_may_stand_in_any_order(tmp_path: Path) -> None:
    model = write_mean_color(tmp_path / "two.onnx", outputs=("color", "fruit"), ending="Softmax", gain=10)
    named = {"fruit": ["tomato", "lime", "plum"], "color": ["red", "green", "blue"]}

    (batch,) = run_element(classify(model, labels=None, attributes=named), images(BLUE))

    (obj,) = batch.objects
    assert obj.label == "blue"
    assert obj.attributes == {"fruit": "plum", "fruit_confidence": pytest.approx(1, abs=1e-3)}


def test_tags_are_all_labels_that_are_likely_enough(tmp_path: Path) -> None:
    model = write_mean_color(tmp_path / "tags.onnx", ending="Sigmoid", gain=1)
    step = classify(model, on="car", attribute="colors", confidence=0.6)

    batches = run_element(step, cars((255, 0, 255), (0, 0, 0), tracks=None))

    assert attributes(batches, "colors") == [("red", "blue"), None]


def test_a_track_keeps_the_label_that_most_results_agree_on(model: Path) -> None:
    step = classify(model, on="car", attribute="color", reinfer_interval="100ms")

    batches = run_element(step, cars(RED, RED, RED, BLUE, RED))

    assert attributes(batches, "color") == ["red"] * 5
    assert attributes(batches, "color_confidence") == pytest.approx([1, 1, 1, 0.75, 0.8], abs=1e-3)


def test_without_votes_the_newest_result_counts(model: Path) -> None:
    step = classify(model, on="car", attribute="color", reinfer_interval="100ms", vote=False)

    assert attributes(run_element(step, cars(RED, RED, BLUE)), "color") == ["red", "red", "blue"]


def test_results_of_every_frame_are_combined_too(model: Path) -> None:
    step = classify(model, on="car", attribute="color", reinfer_interval="0s")

    assert attributes(run_element(step, cars(RED, RED, BLUE)), "color") == ["red"] * 3


def test_a_known_result_is_reported_between_two_runs(model: Path) -> None:
    step = classify(model, on="car", attribute="color", reinfer_interval="1s")

    assert attributes(run_element(step, cars(RED, BLUE, GREEN)), "color") == ["red"] * 3


def test_objects_of_other_labels_get_no_attribute(model: Path) -> None:
    (batch,) = run_element(classify(model, on="bus", attribute="color"), cars(RED))

    assert batch.objects[0].attributes == {}
