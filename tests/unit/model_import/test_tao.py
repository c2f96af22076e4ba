"""What an export of TAO leaves becomes a card: settings of nvinfer without a section, labels, and the ONNX file."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sightline.errors import ModelError
from sightline_plugins.model_import import read_package

LABELS = ("person", "bicycle", "car", "van", "truck", "bus")
SETTINGS = """\
net-scale-factor=0.0039215697906911373
offsets=0;0;0
infer-dims=3;288;512
tlt-model-key=geheim
network-type=0
num-detected-classes=6
model-color-format=0
maintain-aspect-ratio=0
output-tensor-meta=0
"""


@pytest.fixture
def folder(tmp_path: Path, repository: Path) -> Path:
    made = tmp_path / "streetnet"
    made.mkdir()
    shutil.copy(repository / "models" / "street.onnx", made / "resnet18_street.onnx")
    (made / "labels.txt").write_text("\n".join(LABELS) + "\n")
    (made / "nvinfer_config.txt").write_text(SETTINGS)
    return made


@pytest.mark.parametrize("name", [".", "nvinfer_config.txt"])
@pytest.mark.parametrize("section", ["", "[property]\n"])
def test_an_export_becomes_a_card(folder: Path, name: str, section: str) -> None:
    (folder / "nvinfer_config.txt").write_text(section + SETTINGS)

    package = read_package(folder / name)

    assert package.name == "resnet18-street"
    assert package.origin.kind == "tao"
    assert package.card == {
        "task": "detect",
        "labels": list(LABELS),
        "input": {
            "color": "rgb",
            "mean": [0.0, 0.0, 0.0],
            "scale": [255.0],
            "size": [512, 288],
            "fit": "stretch",
            "resize": "bilinear",
        },
        "confidence": 0.2,
        "nms": {"method": "hard", "iou": 0.45},
        "source": "a model of NVIDIA TAO (nvinfer_config.txt)",
    }
    assert "output-tensor-meta=0: has no counterpart here" in package.not_taken_over
    assert "geheim" not in str(package)


def test_a_configuration_of_deepstream_beside_it_goes_first(folder: Path) -> None:
    (folder / "config_infer_primary.txt").write_text("[property]\nonnx-file=resnet18_street.onnx\n")

    assert read_package(folder).origin.kind == "deepstream"


def test_the_configuration_of_newer_models_is_one_of_deepstream(folder: Path) -> None:
    (folder / "nvinfer_config.txt").unlink()
    (folder / "nvdsinfer_config.yaml").write_text("property:\n  onnx-file: resnet18_street.onnx\n")

    assert read_package(folder).origin.kind == "deepstream"


def test_an_encrypted_model_is_refused_with_what_to_do(folder: Path) -> None:
    (folder / "resnet18_street.onnx").rename(folder / "resnet18_street.etlt")

    with pytest.raises(
        ModelError, match=r"resnet18_street\.etlt is an encrypted model of TAO 4 or older: give the ONNX"
    ):
        read_package(folder)
    (folder / "nvinfer_config.txt").unlink()
    with pytest.raises(
        ModelError, match=r"resnet18_street\.etlt is an encrypted model of TAO 4 or older: give the ONNX"
    ):
        read_package(folder)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: (folder / "resnet18_street.onnx").unlink(), "no ONNX file: put the exported model beside it"),
        (
            lambda folder: (folder / "b.onnx").touch(),
            "several models (b.onnx, resnet18_street.onnx): add a line onnx-file",
        ),
        (
            lambda folder: (folder / "labels.txt").write_text("car\n"),
            "num-detected-classes=6, and labels.txt has 1 labels",
        ),
        (lambda folder: (folder / "nvinfer_config.txt").write_text("what"), "line 1: 'what' is neither"),
    ],
)
def test_a_folder_that_is_not_whole_is_one_sentence(folder: Path, make: object, message: str) -> None:
    make(folder)  # type: ignore[operator]

    with pytest.raises(ModelError) as caught:
        read_package(folder)

    assert message in str(caught.value)
