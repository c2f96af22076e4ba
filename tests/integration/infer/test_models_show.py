"""`sightline models show` of the shipped models, and of real ones; `test_pages.py` calls it as people do."""

from __future__ import annotations

import json
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from sightline import Pipeline
from sightline.cli.main import execute
from sightline_plugins import Detect
from sightline_plugins.sinks.records import frame_records

TOLERANCE_PIXELS = 0.02


def show(*arguments: str | Path, folder: Path, code: int = 0) -> str:
    told = StringIO()
    with chdir(folder), redirect_stdout(told):
        assert execute(["models", "show", *map(str, arguments)]) == code
    return told.getvalue()


@pytest.fixture
def still(repository: Path, tmp_path: Path) -> Path:
    """The tenth frame of the street clip, as an image."""
    clip = cv2.VideoCapture(str(repository / "sample_videos" / "street.mp4"))
    for _ in range(10):
        _, bgr = clip.read()
    clip.release()
    path = tmp_path / "still.png"
    cv2.imwrite(str(path), bgr)
    return path


@pytest.mark.usefixtures("compiled_once")
def test_an_image_is_drawn_and_its_results_are_those_of_detect(repository: Path, still: Path, tmp_path: Path) -> None:
    model = repository / "models" / "street.onnx"

    found: dict[str, Any] = json.loads(show(model, "--image", still, "--json", folder=tmp_path))["image"]

    (view,) = Pipeline(sources={"still": {"uri": str(still)}}, steps=[Detect(model=model)])
    records = frame_records(view.batch)[0].objects
    expected = sorted(records, key=lambda record: -(record.confidence or 0))
    assert len(expected) > 5
    assert [one["label"] for one in found["objects"]] == [record.label for record in expected]
    assert [one["confidence"] for one in found["objects"]] == [record.confidence for record in expected]
    boxes, of_detect = ([list(box) for box in column] for column in _boxes(found, expected))
    assert np.allclose(boxes, of_detect, atol=TOLERANCE_PIXELS)
    drawn, given = cv2.imread(found["output"]), cv2.imread(str(still))
    assert drawn is not None
    assert given is not None
    assert Path(found["output"]) == tmp_path / "still-street.jpg"
    assert drawn.shape == given.shape
    assert (np.abs(drawn.astype(int) - given).max(axis=2) > 60).sum() > 500


def _boxes(found: dict[str, Any], expected: list[Any]) -> tuple[list[Any], list[Any]]:
    return [one["box"] for one in found["objects"]], [record.box for record in expected]


@pytest.mark.parametrize("name", ["street", "plate", "plate_text", "vehicle"])
def test_the_shipped_models_are_ready_to_run(repository: Path, tmp_path: Path, name: str) -> None:
    found = json.loads(show(repository / "models" / f"{name}.onnx", "--json", folder=tmp_path))

    assert found["step"]["origin"] == "card"
    assert found["problems"] == []
    assert found["engine"]["name"]


@pytest.mark.parametrize(
    ("name", "task", "head", "classes"),
    [
        ("FastestDet", "detect", "fastestdet", 80),
        ("SqueezeNet_fp16", "classify", "classify", 1000),
        ("deeplab_v3_257", "segment", "class_map", 21),
        ("deimv2_hgnetv2_atto_coco", "detect", "detr_deployed", None),
        ("osnet_x0_25_msmt17", "embed", "embed", None),
        ("yolox_nano", "detect", "yolox", 80),
        ("yunet_n_dynamic", "detect", "yunet", 1),
    ],
)
def test_real_models_without_a_card_are_recognised(
    shared_data: Path, tmp_path: Path, name: str, task: str, head: str, classes: int | None
) -> None:
    found = json.loads(show(shared_data / "models" / f"{name}.onnx", "--json", folder=tmp_path))

    assert (found["step"]["task"], found["step"]["origin"]) == (task, "outputs")
    assert (found["head"]["name"], found["head"]["origin"]) == (head, "outputs")
    assert found["labels"]["count"] == classes
    assert found["problems"] == []


def test_a_reader_of_text_asks_for_its_size_and_symbols(shared_data: Path, tmp_path: Path) -> None:
    models = shared_data / "models"
    model = models / "en_number_mobile_v2.0_rec.onnx"
    assert "set one, such as size" in show(model, folder=tmp_path, code=1)

    options = ["size=[320, 32]", f"labels={models / 'en_dict.txt'}", "head_options={space: true}"]
    word = shared_data / "truth" / "words" / "en_word_1.png"
    text = show(model, *(f"--set={option}" for option in options), "--image", word, folder=tmp_path)

    assert "text JOINT" in text
