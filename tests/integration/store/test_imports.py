"""What Hugging Face, Triton and TAO leave is added by one command, opened and run once, or refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import pytest

from sightline.cli.main import execute
from sightline_plugins.store import Store

LABELS = ("person", "bicycle", "car", "van", "truck", "bus")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmp_path / "store"))
    return Store()


def models(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Call `sightline models` in this process."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = execute(["models", *map(str, arguments)])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def classifier(path: Path, *, classes: int) -> None:
    """A network in the form of Hugging Face's exporter, which leaves all sizes of its input open."""
    image = onnx.helper.make_tensor_value_info(
        "pixel_values", onnx.TensorProto.FLOAT, ("batch_size", "num_channels", "height", "width")
    )
    logits = onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ("batch_size", classes))
    weights = np.random.default_rng(0).normal(size=(3, classes)).astype(np.float32)
    nodes = [
        onnx.helper.make_node("GlobalAveragePool", ["pixel_values"], ["pooled"]),
        onnx.helper.make_node("Flatten", ["pooled"], ["flat"]),
        onnx.helper.make_node("Gemm", ["flat", "weights"], ["logits"]),
    ]
    graph = onnx.helper.make_graph(
        nodes, "classifier", [image], [logits], [onnx.numpy_helper.from_array(weights, "weights")]
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    path.parent.mkdir(parents=True)
    onnx.save(model, path)


def hugging_face(folder: Path, *, classes: int) -> Path:
    classifier(folder / "onnx" / "model.onnx", classes=classes)
    config = {"architectures": ["ViTForImageClassification"], "id2label": {"0": "wren", "1": "robin", "2": "none"}}
    processor = {"size": 64, "resample": 3, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_normalize": True}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    return folder


def test_a_classifier_of_hugging_face_is_added(store: Store, tmp_path: Path) -> None:
    added = models("add", hugging_face(tmp_path / "Birds", classes=3))
    verified = models("verify", "--run")

    assert added.returncode == 0, added.stderr
    assert "store:birds@1: " in added.stdout
    assert "step      classify: its model card has task: classify" in added.stdout
    assert "labels    3: wren, robin, none" in added.stdout
    assert "- resample: 3 (bicubic): images are resized bilinearly with antialiasing here" in added.stdout
    assert verified.stdout == "store:birds@1: whole\n"
    assert store.find("birds").record.speed[0].size == (64, 64)


def test_labels_that_are_not_those_of_the_outputs_are_refused(store: Store, tmp_path: Path) -> None:
    added = models("add", hugging_face(tmp_path / "birds", classes=4))

    assert added.returncode in (1, 2)
    assert "the model has 4 classes, 3 labels are given" in added.stderr
    assert store.names() == ()


def test_a_model_that_wants_a_mask_is_refused_with_what_to_do(store: Store, tmp_path: Path) -> None:
    folder = hugging_face(tmp_path / "birds", classes=3)
    model = onnx.load(folder / "onnx" / "model.onnx")
    mask = onnx.helper.make_tensor_value_info("pixel_mask", onnx.TensorProto.INT64, ("batch_size", "height", "width"))
    model.graph.input.append(mask)
    onnx.save(model, folder / "onnx" / "model.onnx")

    added = models("add", folder)

    assert "takes pixel_mask beside the image, which is not supported: export it without" in added.stderr
    assert store.names() == ()


def test_a_model_of_a_triton_repository_is_added(store: Store, repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "repository" / "street"
    (folder / "1").mkdir(parents=True)
    shutil.copy(repository / "models" / "street.onnx", folder / "1" / "model.onnx")
    (folder / "labels.txt").write_text("\n".join(LABELS) + "\n")
    (folder / "config.pbtxt").write_text(
        'platform: "onnxruntime_onnx" max_batch_size: 4\n'
        'input { name: "images" data_type: TYPE_FP32 dims: [3, 288, 512] }\n'
        'output { name: "output0" data_type: TYPE_FP32 dims: [10, 3024] label_filename: "labels.txt" }\n'
    )

    added = models("add", folder.parent)

    assert added.returncode == 0, added.stderr
    assert "store:street@1: " in added.stdout
    assert "labels    6: person" in added.stdout
    assert "- colours, mean, scale and how images are resized: Triton leaves them to its clients" in added.stdout
    assert store.find("street").record.origin.kind == "triton"


def test_an_export_of_tao_is_added(store: Store, repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "streetnet"
    folder.mkdir()
    shutil.copy(repository / "models" / "street.onnx", folder)
    (folder / "labels.txt").write_text("\n".join(LABELS) + "\n")
    (folder / "nvinfer_config.txt").write_text("net-scale-factor=0.0039215697906911373\nnum-detected-classes=6\n")

    added = models("add", folder)

    assert added.returncode == 0, added.stderr
    assert "labels    6: person" in added.stdout
    assert store.find("street").record.origin.kind == "tao"
