"""A model of a Triton repository becomes a card, and what its configuration says has to be true of the graph."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sightline.errors import ModelError
from sightline_plugins.model_import import read_package

LABELS = ("person", "bicycle", "car", "van", "truck", "bus")
CONFIG = """\
# a detector
name: "street"
backend: 'onnxruntime'
max_batch_size: 0
input [
  { name: "images" data_type: TYPE_FP32, format: FORMAT_NCHW; dims: [ 1, 3, 288, 512 ] }
]
output {
  name: "output0"
  data_type: TYPE_FP32
  dims: 1
  dims: 10
  dims: -1
  label_filename: "labels" ".txt"
}
instance_group [ { count: 2 kind: KIND_CPU } ]
dynamic_batching { max_queue_delay_microseconds: 100 }
parameters: { key: "x" value: { string_value: "a } b" } }
"""


@pytest.fixture
def folder(tmp_path: Path, repository: Path) -> Path:
    made = tmp_path / "repository" / "street"
    for version in ("1", "2", "10"):
        (made / version).mkdir(parents=True)
        shutil.copy(repository / "models" / "street.onnx", made / version / "model.onnx")
    (made / "labels.txt").write_text("\n".join(LABELS) + "\n")
    return made


def configured(folder: Path, text: str = CONFIG) -> Path:
    (folder / "config.pbtxt").write_text(text)
    return folder


def test_a_model_of_a_repository_becomes_a_card(folder: Path) -> None:
    package = read_package(configured(folder))

    assert package.model == folder / "10" / "model.onnx"
    assert package.name == "street"
    assert package.origin.kind == "triton"
    assert package.card == {
        "input": {"dtype": "float32", "layout": "nchw"},
        "labels": list(LABELS),
        "source": "a model of Triton (street, version 10)",
    }
    assert [note.partition(":")[0] for note in package.not_taken_over] == [
        "colours, mean, scale and how images are resized",
        "versions 1, 2",
        "max_batch_size, instance_group, dynamic_batching, parameters",
    ]


def test_a_repository_with_one_model_is_that_model(folder: Path) -> None:
    assert read_package(configured(folder).parent).name == "street"


def test_of_several_models_one_has_to_be_named(folder: Path) -> None:
    shutil.copytree(configured(folder), folder.with_name("other"))

    with pytest.raises(ModelError, match=r"is a repository of several models: give one of .*other, .*street"):
        read_package(folder.parent)


def test_a_configuration_may_be_missing(folder: Path) -> None:
    package = read_package(folder)

    assert (package.origin.kind, package.model.parent.name) == ("triton", "10")


def test_the_versions_that_are_served_are_those_of_the_policy(folder: Path) -> None:
    text = CONFIG + "version_policy: { specific { versions: [1, 2] } }\n"

    assert read_package(configured(folder, text)).model.parent.name == "2"


def test_a_model_with_weights_of_its_own_is_a_folder(folder: Path) -> None:
    model = folder / "10" / "model.onnx"
    shutil.move(model, folder / "moved")
    model.mkdir()
    shutil.move(folder / "moved", model / "model.onnx")

    assert read_package(configured(folder)).model == model / "model.onnx"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("'onnxruntime'", '"tensorrt"', "is a model of the backend tensorrt: only ONNX models are read"),
        ("'onnxruntime'", '"python" ensemble_scheduling { }', "is an ensemble of models: give the folder of the one"),
        ('name: "images"', 'name: "image"', "names input 'image', and the model has images"),
        ("288, 512", "640, 640", "input 'images' has dims [1, 3, 640, 640], and the model has "),
        ("dims: 10", "dims: 11", "output 'output0' has dims [1, 11, -1]"),
        ("dims: 10", "dims: ten", "output 'output0': dims must be whole numbers"),
        ("max_batch_size: 0", "max_batch_size: many", "max_batch_size: many is no whole number"),
        ('"labels" ".txt"', '"../../labels.txt"', "'../../labels.txt' is not in the folder of the model"),
        ("backend: ", "default_model_filename: 'other.onnx' backend: ", "other.onnx is expected"),
        ("backend: ", "default_model_filename: '../a.onnx' backend: ", "'../a.onnx' is no name of a file"),
        ("dynamic_batching {", "dynamic_batching", "is not in protobuf's text format, line 17"),
        ("output {", "output { { ", "is not in protobuf's text format, line 8"),
        ("{ count: 2", '{ count: "2', "is not in protobuf's text format, line 16"),
        ("kind: KIND_CPU }", "kind: }", "is not in protobuf's text format, line 16"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(folder: Path, old: str, new: str, message: str) -> None:
    assert old in CONFIG

    with pytest.raises(ModelError) as caught:
        read_package(configured(folder, CONFIG.replace(old, new, 1)))

    assert message in str(caught.value)


def test_a_configuration_that_never_ends_is_one_sentence(folder: Path) -> None:
    with pytest.raises(ModelError, match="is not in protobuf's text format"):
        read_package(configured(folder, "a {" * 5000))
