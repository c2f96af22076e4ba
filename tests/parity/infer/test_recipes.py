"""`detect` finds what the published recipes find, on real videos."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.media import Frame
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.detect import Detect
from tests.reference import detection as plain

CLIPS = ("one-by-one-person-detection", "bottle-detection", "street-cars-640x360", "crowd-faces-800x450")
RECIPES = {"FastestDet": plain.fastestdet, "yolox_nano": plain.yolox}

Samples = list[tuple[Frame, plain.Image]]
Expected = dict[str, list[plain.Found]]


@pytest.fixture(scope="module")
def samples(shared_data: Path) -> Samples:
    paths = [shared_data / "videos" / f"{clip}.mp4" for clip in CLIPS]
    return [sample for path in paths for sample in plain.sampled_frames(path, step=20, most=7)]


@pytest.fixture(scope="module")
def expected(shared_data: Path, samples: Samples) -> Expected:
    """What each recipe finds with a confidence of at least 0.5."""
    found: Expected = {}
    for model, recipe in RECIPES.items():
        session = plain.session(shared_data / "models" / f"{model}.onnx")
        found[model] = [recipe(bgr, session, confidence=0.5) for _, bgr in samples]
    return found


def share_found(data: Path, samples: Samples, expected: Expected, *, model: str, **options: str) -> float:
    """The share of the recipe's detections that `detect` finds."""
    files = {"model": data / "models" / f"{model}.onnx", "labels": data / "models" / "coco80.names"}
    detect = Detect.model_validate({**files, "confidence": 0.4, **options})
    results = run_element(detect, make_batches([frame for frame, _ in samples], size=4))
    views = [view for batch in results for view in batch]
    hits = sum(
        plain.matched(wanted, plain.found_in(view.objects)) for wanted, view in zip(expected[model], views, strict=True)
    )
    total = sum(len(wanted.xyxy) for wanted in expected[model])
    assert total > 50
    return hits / total


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_98_of_100_detections_of_the_published_fastestdet_recipe_are_found(
    shared_data: Path, samples: Samples, expected: Expected, engine: str
) -> None:
    assert share_found(shared_data, samples, expected, model="FastestDet", engine=engine) >= 0.98


def test_98_of_100_detections_of_the_published_yolox_recipe_are_found(
    shared_data: Path, samples: Samples, expected: Expected
) -> None:
    assert share_found(shared_data, samples, expected, model="yolox_nano", convert="image") >= 0.98


def test_converting_at_the_networks_size_keeps_95_of_100_detections_of_yolox(
    shared_data: Path, samples: Samples, expected: Expected
) -> None:
    assert share_found(shared_data, samples, expected, model="yolox_nano") >= 0.95
