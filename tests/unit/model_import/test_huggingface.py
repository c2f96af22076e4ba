"""A folder of Hugging Face becomes a card: what its processor does with images, its labels, its licence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sightline.errors import ModelError
from sightline_plugins.model_import import ModelPackage, read_package

CONFIG = {
    "_name_or_path": "acme/vit-tiny-birds",
    "architectures": ["ViTForImageClassification"],
    "model_type": "vit",
    "id2label": {"0": "wren", "1": "robin", "2": "none"},
}
PROCESSOR = {
    "image_processor_type": "ViTImageProcessor",
    "do_resize": True,
    "size": {"height": 224, "width": 224},
    "resample": 2,
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
README = """---
license: apache-2.0
datasets:
- imagenet-1k
- inaturalist
---
# Birds
"""


@pytest.fixture
def folder(tmp_path: Path, repository: Path) -> Path:
    made = tmp_path / "birds"
    (made / "onnx").mkdir(parents=True)
    shutil.copy(repository / "models" / "street.onnx", made / "onnx" / "model.onnx")
    return made


def read(folder: Path, config: dict[str, Any] | None = None, processor: dict[str, Any] | None = None) -> ModelPackage:
    (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    if processor is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps({**PROCESSOR, **processor}))
    return read_package(folder)


def test_a_folder_becomes_a_card(folder: Path) -> None:
    (folder / "README.md").write_text(README)
    (folder / "onnx" / "model_fp16.onnx").touch()

    package = read(folder, processor={})

    assert package.model == folder / "onnx" / "model.onnx"
    assert package.name == "vit-tiny-birds"
    assert package.origin.kind == "huggingface"
    assert package.card == {
        "task": "classify",
        "head": "classify",
        "labels": ["wren", "robin", "none"],
        "input": {
            "color": "rgb",
            "resize": "antialias",
            "size": [224, 224],
            "fit": "stretch",
            "mean": [127.5, 127.5, 127.5],
            "scale": [127.5, 127.5, 127.5],
        },
        "licence": "apache-2.0",
        "trained_on": "imagenet-1k, inaturalist",
        "source": "a model of Hugging Face (acme/vit-tiny-birds)",
    }
    assert package.not_taken_over == (
        "model_fp16.onnx: model.onnx is what runs (`precision` in the pipeline sets another one)",
    )


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        ({"size": 256}, {"size": [256, 256], "fit": "stretch"}),
        (
            {"size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": {"height": 224, "width": 224}},
            {"size": [224, 224], "fit": "cover", "crop": 0.875},
        ),
        ({"size": 256, "do_center_crop": True, "crop_size": 224}, {"size": [224, 224], "fit": "cover", "crop": 0.875}),
        (
            {"size": 224, "image_processor_type": "ConvNextImageProcessor", "crop_pct": 0.95},
            {"size": [224, 224], "fit": "cover", "crop": 0.95},
        ),
        ({"size": 384, "image_processor_type": "ConvNextImageProcessor"}, {"size": [384, 384], "fit": "stretch"}),
        (
            {"size": {"shortest_edge": 800, "longest_edge": 1333}},
            {"size": [1333, 800], "fit": "letterbox", "align": "top_left", "pad": [128, 128, 128]},
        ),
        ({"resample": 0}, {"resize": "nearest"}),
        ({"do_normalize": False}, {"mean": [0.0], "scale": [255.0]}),
        ({"do_rescale": False}, {"mean": [0.5] * 3, "scale": [0.5] * 3}),
        ({"do_normalize": False, "rescale_factor": 1 / 127.5, "offset": True}, {"mean": [127.5], "scale": [127.5]}),
        (
            {"image_processor_type": "EfficientNetImageProcessor", "include_top": True, "image_std": [0.2, 0.5, 1.0]},
            {"scale": [10.2, 63.75, 255.0]},
        ),
        ({"do_flip_channel_order": True}, {"color": "bgr"}),
    ],
)
def test_a_processor_becomes_an_input(folder: Path, processor: dict[str, Any], expected: dict[str, Any]) -> None:
    found = read(folder, processor=processor).card["input"]

    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("config", "head"),
    [
        ({"architectures": ["DetrForObjectDetection"], "model_type": "detr"}, "detr"),
        ({"architectures": ["RTDetrV2ForObjectDetection"], "model_type": "rt_detr_v2"}, "rt_detr"),
        ({"architectures": ["NewForObjectDetection"], "model_type": "new"}, None),
        ({"problem_type": "multi_label_classification"}, "tags"),
    ],
)
def test_the_architecture_names_the_head(folder: Path, config: dict[str, Any], head: str | None) -> None:
    assert read(folder, config).card.get("head") == head


@pytest.mark.parametrize(
    ("config", "processor", "note"),
    [
        ({}, None, "there is no preprocessor_config.json: the usual pre-processing of the head is taken"),
        ({}, {"resample": 3}, "resample: 3 (bicubic): images are resized bilinearly"),
        ({}, {"brand_new": 7}, "brand_new: 7: has no counterpart here"),
        ({}, {"size": {"shortest_edge": 224}}, "without a crop: the middle of images is taken here"),
        ({}, {"do_pad": True, "pad_size": {"height": 9, "width": 9}}, "images are not padded to a size here"),
        ({}, {"do_resize": False}, "do_resize: false"),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, {}, "are no names: give them with --set labels=FILE"),
        (
            {"id2label": {"1": "cat", "3": "dog"}},
            {},
            "id2label leaves out 2 classes (0, 2): they are called class-N",
        ),
    ],
)
def test_what_has_no_counterpart_is_reported(
    folder: Path, config: dict[str, Any], processor: dict[str, Any] | None, note: str
) -> None:
    assert any(note in text for text in read(folder, config, processor).not_taken_over)


@pytest.mark.parametrize(
    ("config", "processor", "message"),
    [
        ({"id2label": ["cat"]}, {}, "config.json: id2label: names by class number are expected"),
        ({"id2label": {"0": "a", "999999999": "b"}}, {}, "id2label has 2 names, for classes 0 to 999999999"),
        ({}, {"image_std": [0.5, 0.0, 0.5]}, "preprocessor_config.json: image_std: [0.5, 0.0, 0.5]: must be above 0"),
        ({}, {"image_mean": ["a"]}, "image_mean: ['a']: one number or three are expected"),
        ({}, {"rescale_factor": "fast"}, "rescale_factor: 'fast': a number is expected"),
        ({}, {"rescale_factor": -1}, "must be above 0"),
        ({}, {"size": "large"}, "sides in pixels are expected"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(
    folder: Path, config: dict[str, Any], processor: dict[str, Any], message: str
) -> None:
    with pytest.raises(ModelError) as caught:
        read(folder, config, processor)

    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["{", "[]", "[" * 100_000])
def test_a_torn_configuration_is_one_sentence(folder: Path, text: str) -> None:
    read(folder, processor={})
    (folder / "config.json").write_text(text)

    with pytest.raises(ModelError, match=r"config\.json (is not valid JSON|does not hold an object)"):
        read_package(folder)


def test_a_folder_without_an_export_says_how_to_make_one(folder: Path) -> None:
    (folder / "onnx" / "model.onnx").unlink()
    (folder / "model.safetensors").touch()

    with pytest.raises(ModelError, match=r"model\.safetensors is for PyTorch.*optimum-cli export onnx"):
        read(folder)


def test_a_model_in_the_cache_of_the_hub_has_its_name(folder: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--acme--vit-birds" / "snapshots" / ("a" * 40)
    snapshot.parent.mkdir(parents=True)
    folder.rename(snapshot)

    assert read(snapshot, {"_name_or_path": "/home/me/run"}).name == "vit-birds"


def test_another_config_of_that_name_is_none(folder: Path) -> None:
    shutil.move(folder / "onnx" / "model.onnx", folder / "street.onnx")
    (folder / "config.json").write_text('{"port": 80}')

    assert read_package(folder).origin.kind == "onnx"
