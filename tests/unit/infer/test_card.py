from __future__ import annotations

from pathlib import Path

import pytest

from sightline.errors import ModelError
from sightline_plugins.infer import card as card_module
from sightline_plugins.infer.card import ModelCard, read_card, read_labels


def card(folder: Path, text: str) -> ModelCard:
    (folder / "street.yaml").write_text(text, "utf-8")
    return read_card(folder / "street.onnx")


def test_a_model_without_a_card_has_an_empty_one(tmp_path: Path) -> None:
    assert read_card(tmp_path / "street.onnx") == ModelCard()


def test_the_example_of_the_documentation_is_a_card(tmp_path: Path) -> None:
    text = str(card_module.__doc__).split("```yaml\n")[1].split("```")[0]

    read = card(tmp_path, text)

    assert read.labels == ("car", "van", "person")
    assert read.input.scale == (1.0,)
    assert read.nms.iou == 0.45


def test_a_labels_file_is_relative_to_the_card(tmp_path: Path) -> None:
    assert card(tmp_path, "labels: street.names").labels == tmp_path / "street.names"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "input: {fit: crop}",
            "street.yaml:1:14: input.fit: must be letterbox, stretch, expand, cover, height or native",
        ),
        ("input: {scale: 0}", "input.scale: must be more than 0"),
        ("input: {mean: [1, 2]}", "give one value, or three"),
        ("confidenz: 0.3", "street.yaml:1:1: confidenz: there is no such option; did you mean 'confidence'?"),
        ("confidence: 3", "confidence: must be at most 1"),
        ("- a list", "must be a mapping"),
        ("labels: [unclosed", "the closing bracket of [ is missing"),
    ],
)
def test_a_wrong_card_is_an_error_that_names_file_and_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ModelError) as error:
        card(tmp_path, text)

    assert str(tmp_path / "street.yaml") in str(error.value)
    assert message in str(error.value)


def test_labels_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "names"
    path.write_text("car\n traffic light \nperson\n\n\n")

    assert read_labels(path) == ("car", "traffic light", "person")


def test_a_missing_labels_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"labels file .*names cannot be read: No such file"):
        read_labels(tmp_path / "names")


def test_a_labels_file_that_is_no_text_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "names"
    path.write_bytes(b"\xff\xfe\x00")

    with pytest.raises(ModelError, match="is not UTF-8 text"):
        read_labels(path)
