"""The committed models: what the files say about themselves, and their cards."""

from __future__ import annotations

import ast
from pathlib import Path

import onnx
import pytest
from ruamel.yaml import YAML
from tools.world.lettering import ALPHABET
from tools.world.scene import LABELS
from tools.world.vehicles import KINDS, PAINTS

LIMIT_BYTES = {"street": 4_000_000, "vehicle": 1_000_000, "plate": 500_000, "plate_text": 1_000_000}


@pytest.fixture(scope="module")
def models(repository: Path) -> Path:
    return repository / "models"


def properties(path: Path) -> dict[str, str]:
    return {entry.key: entry.value for entry in onnx.load(path).metadata_props}


def shape(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim]


@pytest.mark.parametrize("name", LIMIT_BYTES)
def test_a_model_is_small_and_takes_batches_of_any_size(name: str, models: Path) -> None:
    path = models / f"{name}.onnx"
    graph = onnx.load(path).graph
    assert path.stat().st_size < LIMIT_BYTES[name]
    assert [value.name for value in graph.input] == ["images"]
    assert all(shape(value)[0] == "batch" for value in (*graph.input, *graph.output))


def test_the_detector_has_a_row_for_each_side_of_the_box_and_each_class(models: Path) -> None:
    (output,) = onnx.load(models / "street.onnx").graph.output
    assert shape(output)[1] == 4 + len(LABELS)


def test_the_detector_names_the_classes_of_the_world_in_file_and_card(models: Path) -> None:
    card = YAML(typ="safe").load((models / "street.yaml").read_text(encoding="utf-8"))
    embedded = ast.literal_eval(properties(models / "street.onnx")["names"])
    assert embedded == dict(enumerate(LABELS))
    assert card["labels"] == list(LABELS)


def test_the_detector_and_its_card_agree_on_the_size_of_the_input(models: Path) -> None:
    card = YAML(typ="safe").load((models / "street.yaml").read_text(encoding="utf-8"))
    (images,) = onnx.load(models / "street.onnx").graph.input
    assert shape(images)[2:] == card["input"]["size"][::-1]
    assert ast.literal_eval(properties(models / "street.onnx")["imgsz"]) == shape(images)[2:]


def test_the_classifier_tells_the_colours_and_kinds_of_the_world(models: Path) -> None:
    path = models / "vehicle.onnx"
    said = properties(path)
    assert ast.literal_eval(said["colour"]) == list(PAINTS)
    assert ast.literal_eval(said["kind"]) == list(KINDS)
    widths = {value.name: shape(value)[1] for value in onnx.load(path).graph.output}
    assert widths == {"colour": len(PAINTS), "kind": len(KINDS)}


def test_the_reader_has_a_step_for_every_letter_of_plates_and_the_blank(models: Path) -> None:
    card = YAML(typ="safe").load((models / "plate_text.yaml").read_text(encoding="utf-8"))
    (letters,) = onnx.load(models / "plate_text.onnx").graph.output
    assert card["labels"] == list(ALPHABET)
    assert shape(letters)[1:] == [32, 1 + len(ALPHABET)]
    assert properties(models / "plate_text.onnx")["alphabet"] == ALPHABET


@pytest.mark.parametrize("name", ["plate", "plate_text"])
def test_models_of_plates_and_their_cards_agree_on_the_size_of_the_input(name: str, models: Path) -> None:
    card = YAML(typ="safe").load((models / f"{name}.yaml").read_text(encoding="utf-8"))
    (images,) = onnx.load(models / f"{name}.onnx").graph.input
    assert shape(images)[2:] == card["input"]["size"][::-1]
