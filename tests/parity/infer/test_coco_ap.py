"""Average precision of the pipeline beside the plain recipe, on the shared COCO images: the judge of every detector.

A swap of red and blue, a shift of half a pixel or a scale gone wrong still "works"; AP tells.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np
import pytest

from sightline import Pipeline
from sightline_plugins import Detect
from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.commands.evaluate.scores import score_detections
from sightline_plugins.commands.verify.comparison import BoxSettings, compare
from sightline_plugins.commands.verify.images import images_of
from sightline_plugins.infer.detections import detection_rules
from sightline_plugins.sources.images.reader import find_images

LIMIT = 0.003
DETECTORS: dict[str, dict[str, Any]] = {
    "FastestDet.onnx": {},
    "yolox_nano.onnx": {},
    "deimv2_hgnetv2_atto_coco.onnx": {},
}


def element(shared_data: Path, model: str, **options: Any) -> Detect:
    models = shared_data / "models"
    return Detect.model_validate(
        {"model": models / model, "labels": models / "coco80.names", "confidence": 0.01, **DETECTORS[model], **options}
    )


@pytest.fixture(scope="module")
def truth(shared_data: Path) -> Annotations:
    """The YOLO boxes of the images (class, centre and size in shares), in the order in which they are read."""
    labels = (shared_data / "models" / "coco80.names").read_text().split("\n")
    rows: list[tuple[int, list[float], str]] = []
    for number, path in enumerate(find_images(str(shared_data / "truth" / "coco" / "val"))):
        height, width = np.asarray(cv2.imread(str(path))).shape[:2]
        for line in path.with_suffix(".txt").read_text().splitlines():
            kind, x, y, w, h = (float(value) for value in line.split())
            box = [(x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height]
            rows.append((number, box, labels[int(kind)].strip()))
    return Annotations.from_rows(
        frame=[row[0] for row in rows],
        xyxy=[row[1] for row in rows],
        confidence=np.ones(len(rows)),
        label=[row[2] for row in rows],
        identity=np.full(len(rows), -1),
    )


@pytest.fixture(scope="module", params=sorted(DETECTORS))
def plain(request: pytest.FixtureRequest, shared_data: Path, truth: Annotations) -> tuple[str, float]:
    """A detector, and the AP of its plain recipe."""
    detect = element(shared_data, request.param)
    plan, problems = detect.plan()
    assert plan is not None, problems
    rules = detection_rules(detect, plan)
    images = images_of(str(shared_data / "truth" / "coco" / "val"), count=32)
    compared = compare(detect, plan, images, boxes=BoxSettings(rules.nms, rules.confidence))
    assert compared.plain is not None
    return request.param, score_detections(compared.plain, truth=truth).ap


def in_pipeline(shared_data: Path, detect: Detect, *, batch: int) -> Annotations:
    """What the pipeline finds on the images."""
    pipeline = Pipeline(
        sources={"val": str(shared_data / "truth" / "coco" / "val")}, steps=[detect], batch={"size": batch}
    )
    rows = [(frame.index, thing.xyxy, thing.confidence, thing.label) for frame in pipeline for thing in frame.objects]
    return Annotations.from_rows(
        frame=[row[0] for row in rows],
        xyxy=[row[1] for row in rows],
        confidence=[row[2] for row in rows],
        label=[row[3] for row in rows],
        identity=np.full(len(rows), -1),
    )


@pytest.mark.parametrize(("engine", "batch"), [("openvino", 8), ("onnxruntime", 1)])
def test_the_pipeline_is_as_precise_as_the_plain_recipe(
    shared_data: Path,
    truth: Annotations,
    plain: tuple[str, float],
    engine: Literal["openvino", "onnxruntime"],
    batch: int,
) -> None:
    model, expected = plain

    found = in_pipeline(shared_data, element(shared_data, model, engine=engine), batch=batch)

    assert expected > 0.2
    assert score_detections(found, truth=truth).ap == pytest.approx(expected, abs=LIMIT)


def test_swapped_channels_cost_more_than_the_limit(shared_data: Path, truth: Annotations) -> None:
    right = in_pipeline(shared_data, element(shared_data, "yolox_nano.onnx"), batch=8)
    swapped = in_pipeline(shared_data, element(shared_data, "yolox_nano.onnx", color="rgb"), batch=8)

    lost = score_detections(right, truth=truth).ap - score_detections(swapped, truth=truth).ap
    assert lost > LIMIT
