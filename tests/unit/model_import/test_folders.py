"""What DeepStream and Ultralytics leave becomes a card, and what has no counterpart is reported."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import onnx
import pytest

from sightline.errors import ModelError
from sightline_plugins.model_import import read_package

LABELS = ("person", "bicycle", "car", "van", "truck", "bus")
METADATA = {
    "description": "Ultralytics YOLOv8n model trained on /datasets/coco.yaml",
    "author": "Ultralytics",
    "date": "2025-01-02",
    "version": "8.3.40",
    "license": "AGPL-3.0 License (https://ultralytics.com/license)",
    "task": "detect",
    "imgsz": "[288, 512]",
    "names": str(dict(enumerate(LABELS))),
}
PROPERTY = """
# a detector
[property]
gpu-id=0
net-scale-factor=0.0039215697906911373
model-color-format=1
onnx-file=../moved/street.onnx
labelfile-path=labels.txt
infer-dims=3;288;512
num-detected-classes=6
maintain-aspect-ratio=1
interval=2
process-mode=1
"""


@pytest.fixture
def deepstream(tmp_path: Path, repository: Path) -> Path:
    folder = tmp_path / "detector"
    folder.mkdir()
    shutil.copy(repository / "models" / "street.onnx", folder)
    (folder / "labels.txt").write_text("\n".join(LABELS) + "\n")
    return folder


def configured(folder: Path, text: str, *, name: str = "config_infer_primary.txt") -> Path:
    (folder / name).write_text(text)
    return folder


def test_a_folder_of_deepstream_becomes_a_card(deepstream: Path) -> None:
    text = (
        f"{PROPERTY}cluster-mode=2\n[class-attrs-all]\npre-cluster-threshold=0.3\nnms-iou-threshold=0.5\n"
        "[class-attrs-2]\npre-cluster-threshold=0.1\npost-cluster-threshold=0.6\n"
    )
    package = read_package(configured(deepstream, text))

    assert package.name == "street"
    assert package.origin.kind == "deepstream"
    assert package.card == {
        "task": "detect",
        "labels": list(LABELS),
        "input": {
            "color": "bgr",
            "mean": [0.0],
            "scale": [255.0],
            "size": [512, 288],
            "fit": "letterbox",
            "align": "top_left",
            "pad": [0],
            "resize": "bilinear",
        },
        "confidence": 0.3,
        "class_confidence": {"car": 0.6},
        "nms": {"method": "hard", "iou": 0.5},
        "source": "a model of DeepStream (config_infer_primary.txt)",
    }
    assert [text.partition(":")[0] for text in package.not_taken_over] == [
        "DeepStream takes the nearest pixel",
        "gpu-id",
        "interval=2",
    ]
    assert "`every: 3`" in package.not_taken_over[-1]


def test_the_form_of_yaml_says_the_same(deepstream: Path) -> None:
    lines = [line.replace("=", ": ", 1) for line in PROPERTY.splitlines()[3:]]
    plain = read_package(configured(deepstream, PROPERTY))
    (deepstream / "config_infer_primary.txt").unlink()
    text = "property:\n" + "".join(f"  {line}\n" for line in lines)

    in_yaml = read_package(configured(deepstream, text, name="config_infer_primary.yml"))

    assert {**in_yaml.card, "source": ""} == {**plain.card, "source": ""}
    assert in_yaml.not_taken_over == plain.not_taken_over


def test_offsets_and_what_is_left_out_have_the_defaults_of_nvinfer(deepstream: Path) -> None:
    package = read_package(
        configured(deepstream, "[property]\nonnx-file=street.onnx\noffsets=103.5;116.3;123.7\ncluster-mode=2\n")
    )

    assert package.card["input"] == {
        "color": "rgb",
        "mean": [103.5, 116.3, 123.7],
        "scale": [1.0],
        "fit": "stretch",
        "resize": "bilinear",
    }
    assert package.card["confidence"] == 0.2
    assert package.card["nms"] == {"method": "hard", "iou": 0.3}


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ("cluster-mode=0", "cluster-mode=0 (groupRectangles): overlapping boxes are suppressed (NMS) here"),
        ("cluster-mode=1", "cluster-mode=1 (DBSCAN)"),
        ("scaling-filter=4", "scaling-filter=4: images are resized bilinearly"),
        ("parse-bbox-func-name=ParseYolo", "compiled code is not run"),
        ("brand-new=1", "brand-new=1: has no counterpart here"),
        ("operate-on-class-ids=2", "`on: LABEL`"),
        ("[class-attrs-9]\nthreshold=0.5", "[class-attrs-9]: there is no label of that number"),
        ("[class-attrs-all]\ntopk=20", "in the pipeline, `max_per_class` and `class_limits` set it"),
        ("[class-attrs-1]\nnms-iou-threshold=0.6", "one value is for all classes here"),
        ("[tracker]\nenable=1", "[tracker]: is no section of nvinfer"),
    ],
)
def test_what_has_no_counterpart_is_reported(deepstream: Path, change: str, note: str) -> None:
    package = read_package(configured(deepstream, f"{PROPERTY}{change}\n"))

    assert any(note in text for text in package.not_taken_over)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("onnx-file=../moved/street.onnx", "onnx-file=other.onnx", "other.onnx: there is no such file"),
        ("onnx-file=../moved/street.onnx", "tlt-encoded-model=a.etlt", "a.etlt is an encrypted model of TAO"),
        ("onnx-file=../moved/street.onnx", "model-engine-file=a.engine", "names no onnx-file"),
        ("num-detected-classes=6", "num-detected-classes=4", "num-detected-classes=4, and labels.txt has 6 labels"),
        ("interval=2", "net-scale-factor=fast", "net-scale-factor=fast: numbers are expected"),
        ("interval=2", "net-scale-factor=0", "must be above 0"),
        ("interval=2", "cluster-mode=7", "cluster-mode=7: must be 0, 1, 2, 3 or 4"),
        ("interval=2", "model-color-format=5", "model-color-format=5: must be one of 0, 1, 2"),
        ("interval=2", "mean-file=mean.ppm", "use offsets"),
        ("interval=2", "interval", "line 12: 'interval' is neither"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(deepstream: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ModelError, match=r"config_infer_primary\.txt") as caught:
        read_package(configured(deepstream, PROPERTY.replace(old, new)) / "config_infer_primary.txt")

    assert message in str(caught.value)


def exported(path: Path, source: Path, metadata: Mapping[str, str]) -> Path:
    """An ONNX file with the metadata of an exporter."""
    model = onnx.load(source)
    del model.metadata_props[:]
    onnx.helper.set_model_props(model, dict(metadata))
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path


def test_a_key_of_encrypted_models_is_not_repeated(deepstream: Path) -> None:
    package = read_package(configured(deepstream, f"{PROPERTY}tlt-model-key=geheim\n"))

    assert "geheim" not in str(package)


@pytest.mark.parametrize(
    ("file", "name"),
    [("YOLOv8n_fp16.onnx", "yolov8n"), ("yolov8s.pt.onnx", "yolov8s"), ("script.onnx", "script"), ("-.onnx", "model")],
)
def test_a_model_is_called_after_its_file(tmp_path: Path, repository: Path, file: str, name: str) -> None:
    shutil.copy(repository / "models" / "street.onnx", tmp_path / file)

    assert read_package(tmp_path / file).name == name


def test_a_run_of_ultralytics_becomes_a_card(tmp_path: Path, repository: Path) -> None:
    run = tmp_path / "Plates_v2"
    exported(run / "weights" / "best.onnx", repository / "models" / "street.onnx", METADATA)
    (run / "weights" / "best.pt").touch()
    (run / "results.csv").write_text(
        "epoch,  metrics/mAP50(B), metrics/mAP50-95(B)\n1, 0.3, 0.2\n2, 0.6, 0.4\n3, 0.5, 0.39\n"
    )

    package = read_package(run)

    assert package.name == "plates-v2"
    assert package.card["labels"] == list(LABELS)
    assert package.card["licence"].startswith("AGPL-3.0")
    assert package.card["trained_on"] == "coco.yaml"
    assert "8.3.40" in package.card["source"]
    assert [(one.what, one.value) for one in package.accuracy] == [("mAP50-95", 0.4), ("mAP50", 0.6)]
    assert package.not_taken_over == ("best.pt: the ONNX file is what runs",)


def test_a_card_beside_a_model_goes_first(tmp_path: Path, repository: Path) -> None:
    model = exported(tmp_path / "yolo.onnx", repository / "models" / "street.onnx", METADATA)
    model.with_suffix(".yaml").write_text("licence: Enterprise\nlabels: names.txt\n")
    (tmp_path / "names.txt").write_text("\n".join("abcdef"))

    card = read_package(model).card

    assert card["licence"] == "Enterprise"
    assert card["labels"] == list("abcdef")
    assert card["trained_on"] == "coco.yaml"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ((), "has no ONNX file: export the model to ONNX"),
        (("best.pt",), "has no ONNX file; best.pt is a PyTorch file"),
        (("a.onnx", "b.onnx"), "has several models: give one of "),
        (("a.txt",), "has no ONNX file"),
    ],
)
def test_a_folder_that_is_no_model_is_one_sentence(tmp_path: Path, files: tuple[str, ...], message: str) -> None:
    for name in files:
        (tmp_path / name).touch()

    with pytest.raises(ModelError, match=message):
        read_package(tmp_path)
