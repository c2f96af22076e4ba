"""`sightline verify`: a sound model passes, and each fault is found at the stage where it is."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline_plugins import Detect
from sightline_plugins.commands.verify import comparison
from sightline_plugins.commands.verify.comparison import BoxSettings, Stages, unmatched
from sightline_plugins.commands.verify.images import images_of
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.infer.detections import detection_rules
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import Preprocessing
from sightline_plugins.preprocess.placement import Placement
from tests.command_line import called

Boxes = npt.NDArray[np.float32]


def verify(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return called("verify", *map(str, arguments))


def stages_of(repository: Path) -> Stages:
    """The stages of the street detector on five images, with whatever the test has put out of order."""
    element = Detect(model=repository / "models" / "street.onnx")
    plan, _ = element.plan()
    assert plan is not None
    rules = detection_rules(element, plan)
    images = images_of(str(repository / "sample_videos" / "street.mp4"), count=5)
    return comparison.compare(element, plan, images, boxes=BoxSettings(rules.nms, rules.confidence)).stages


def first(stages: Stages) -> str | None:
    differs = stages.first_difference
    return None if differs is None else differs.name


def test_a_sound_model_passes_every_stage(repository: Path) -> None:
    done = verify(
        repository / "models" / "street.onnx",
        "--frames",
        repository / "sample_videos" / "street.mp4",
        "--json",
        "--set",
        "convert=image",
    )

    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert list(report["stages"]) == ["input", "outputs", "decoded", "suppressed", "placed", "answers"]
    assert report["differs"] is None


def test_swapped_channels_are_found_in_the_input(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(definition: Preprocessing) -> HostPreprocessor:
        return HostPreprocessor(dataclasses.replace(definition, color="bgr" if definition.color == "rgb" else "rgb"))

    monkeypatch.setattr(comparison, "HostPreprocessor", swapped)

    assert first(stages_of(repository)) == "input"


def test_a_wrong_scale_is_found_in_the_outputs(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def scaled(model: Path, **options: Any) -> Engine:
        form = dataclasses.replace(options["image"], scale=(1 / 128,))
        return open_engine(model, **{**options, "image": form})

    monkeypatch.setattr(comparison, "open_engine", scaled)

    assert first(stages_of(repository)) == "outputs"


def test_boxes_that_are_not_thinned_out_are_found_in_suppression(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "suppress", lambda xyxy, *columns, options: np.arange(len(xyxy)))

    assert first(stages_of(repository)) == "suppressed"


def test_a_forgotten_offset_is_found_in_placing(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Placement.boxes_in_image
    monkeypatch.setattr(Placement, "boxes_in_image", lambda self, xyxy: right(self, xyxy) + np.float32(3))

    assert first(stages_of(repository)) == "placed"


def test_truth_without_the_images_that_it_describes_is_refused(repository: Path, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    truth.write_text("{}")

    done = verify(repository / "models" / "street.onnx", "--truth", truth)

    assert done.returncode == 2
    assert "give --frames" in done.stderr


def test_a_setting_that_the_step_does_not_have_is_one_clear_error(repository: Path) -> None:
    done = verify(repository / "models" / "street.onnx", "--set", "confidense=0.3")

    assert done.returncode == 2
    assert "confidense" in done.stderr
    assert "Traceback" not in done.stderr


def test_boxes_without_a_match_on_either_side_count() -> None:
    def found(*boxes: list[float]) -> tuple[Boxes, Boxes, npt.NDArray[np.int32]]:
        return (
            np.array(boxes, np.float32).reshape(-1, 4),
            np.ones(len(boxes), np.float32),
            np.zeros(len(boxes), np.int32),
        )

    one, other = [0.0, 0.0, 10.0, 10.0], [50.0, 50.0, 60.0, 60.0]

    assert unmatched(found(one), found(one)) == 0
    assert unmatched(found(one, other), found(one)) == pytest.approx(1 / 3)
    assert unmatched(found(one), found(other)) == 1
    assert unmatched(found(), found()) == 0
