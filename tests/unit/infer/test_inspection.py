"""What a model tells of one frame: its input, and boxes and scores before anything is left out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sightline import Pipeline
from sightline.graph.inspection import ModelWork
from sightline.runtime.inspection import FrameInspection
from sightline_plugins import Classify, Detect

ROOT = Path(__file__).resolve().parents[3]
GATE = {"uri": str(ROOT / "sample_videos" / "gate.mp4"), "start": "3s", "loop": True}
MODELS = ROOT / "models"


@pytest.fixture(scope="module")
def inspection() -> FrameInspection:
    """A frame with vehicles, which are classified on every frame."""
    steps = [
        Detect(id="find", model=str(MODELS / "street.onnx"), confidence=0.4, precision="fp32"),
        Classify(id="kind", model=str(MODELS / "vehicle.onnx"), on={"label": ["car", "bus", "truck"]}),
        Detect(id="rarely", model=str(MODELS / "street.onnx"), every=10_000),
    ]
    with Pipeline(sources={"gate": GATE}, steps=steps) as pipeline:
        pipeline.inspect("gate")
        return pipeline.inspect("gate")


def works(inspection: FrameInspection, step: str) -> list[ModelWork]:
    return inspection.steps[step].works


def test_the_raw_boxes_hold_what_became_objects(inspection: FrameInspection) -> None:
    (work,) = works(inspection, "find")
    found = work.explain()

    kept = sorted((box.label, round(box.confidence, 4)) for box in found.boxes if box.is_kept)
    objects = inspection.steps["find"].after
    assert objects is not None
    assert len(objects) > 0
    assert kept == sorted((one.label, round(one.confidence, 4)) for one in objects)
    assert len(found.boxes) > len(kept)
    assert all(box.survives for box in found.boxes if box.is_kept)
    assert found.threshold == pytest.approx(0.4)
    confidences = [box.confidence for box in found.boxes]
    assert confidences == sorted(confidences, reverse=True)
    assert confidences[-1] < 0.4


def test_the_input_of_the_network_is_the_frame_in_its_size(inspection: FrameInspection) -> None:
    (work,) = works(inspection, "find")
    surface, _ = inspection.image()
    assert surface is not None

    image = work.input_of(surface)

    assert image.dtype == np.uint8
    assert image.ndim == 3
    assert [tuple(map(int, corner)) for corner in work.corners] == [(0, 0), (960, 0), (960, 540), (0, 540)]
    assert image.std() > 10


def test_scores_name_the_likeliest_classes_of_each_object(inspection: FrameInspection) -> None:
    parts = works(inspection, "kind")
    before = inspection.steps["kind"].before
    after = inspection.steps["kind"].after
    assert parts
    assert after is not None

    for part in parts:
        assert before[part.object_row].label in ("car", "bus", "truck")
        scores = part.explain().scores
        values = [one.value for one in scores if one.output == scores[0].output]
        assert values == sorted(values, reverse=True)
        assert after[part.object_row].attributes[scores[0].output] == scores[0].label


def test_a_model_that_did_not_run_shows_nothing(inspection: FrameInspection) -> None:
    assert inspection.steps["rarely"].is_model
    assert works(inspection, "rarely") == []
