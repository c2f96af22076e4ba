"""`privacy` in whole pipelines: what is never shown, what the report proves, what is refused before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline import Pipeline
from sightline.config import InvalidConfiguration, load_description
from sightline.graph import Element
from sightline_plugins import Detect, Privacy, Track
from tests.unit.infer.tiny import LABELS, write_detector

FRAMES = 12
DETECT = "detect: {model: models/street.onnx}"


def totals(clip: Path, *steps: Element) -> dict[str, Any]:
    report = Pipeline(sources={"gate": clip}, steps=list(steps)).run(frames=FRAMES)
    counted: dict[str, Any] = dict(report.totals["privacy-1"]["gate"])
    return counted


@pytest.fixture
def clip(repository: Path) -> Path:
    return repository / "sample_videos" / "street.mp4"


@pytest.fixture
def street(repository: Path) -> Path:
    return repository / "models" / "street.onnx"


def test_the_report_counts_every_frame(clip: Path, street: Path) -> None:
    counted = totals(clip, Detect(model=street), Privacy(on=["car", "van"], detector="detect-1"))

    assert counted["frames"] == FRAMES == counted["objects_hidden"] + counted["clear"]
    assert counted["objects"] > 0


def test_frames_that_the_detector_left_out_are_hidden_whole(clip: Path, street: Path) -> None:
    counted = totals(clip, Detect(model=street, every=3), Privacy(on="car", detector="detect-1"))

    assert counted["wholly_hidden"] == FRAMES - FRAMES // 3


def test_frames_that_a_tracker_foresees_are_shown_when_that_is_trusted(clip: Path, street: Path) -> None:
    steps = [Detect(model=street, every=3), Track(), Privacy(on="car", detector="detect-1", trust_tracks=True)]

    assert totals(clip, *steps)["wholly_hidden"] == 0


def test_a_detector_that_gives_no_numbers_shows_nothing(clip: Path, tmp_path: Path) -> None:
    broken = write_detector(tmp_path / "broken.onnx", offset=float("nan"))
    steps = [Detect(model=broken, labels=LABELS), Privacy(on="pink", detector="detect-1")]
    pipeline = Pipeline(sources={"gate": clip}, steps=steps)

    spread = [float(np.abs(np.diff(view.surface.planes[0].astype(int), axis=1)).max()) for view in pipeline]
    assert max(spread) < 8


@pytest.mark.parametrize(
    ("steps", "place", "expected"),
    [
        ("- privacy: {on: car, detector: detect-1}", "pipeline.0.privacy", "needs objects"),
        (f"- {DETECT}\n- privacy: {{on: car, detector: detect-2}}", "pipeline.1.privacy.detector", "'detect-1'"),
        (
            f"- {DETECT}\n- privacy: {{on: face, detector: detect-1}}",
            "pipeline.1.privacy.on",
            "no step before it finds",
        ),
        (
            f"- {DETECT}\n- tee: {{a: [{{{DETECT}}}]}}\n- privacy: {{on: car, detector: detect-2}}",
            "pipeline.2.privacy.detector",
            "does not stand before",
        ),
        (
            f"- {DETECT}\n- detect: {{model: models/street.onnx, on: car}}\n- privacy: {{on: car, detector: detect-2}}",
            "pipeline.2.privacy.detector",
            "looks only at objects",
        ),
        (
            f"- {DETECT}\n- privacy: {{on: car, detector: detect-1, trust_tracks: true}}",
            "pipeline.1.privacy",
            "needs tracks",
        ),
    ],
)
def test_what_could_not_be_relied_on_is_refused_before_anything_runs(
    repository: Path, tmp_path: Path, steps: str, place: str, expected: str
) -> None:
    for name in ("models", "sample_videos"):
        (tmp_path / name).symlink_to(repository / name)
    file = tmp_path / "pipeline.yaml"
    indented = steps.replace("\n", "\n  ")
    file.write_text(f"sources: {{gate: sample_videos/street.mp4}}\npipeline:\n  {indented}\n")

    with pytest.raises(InvalidConfiguration) as caught:
        load_description(file, environment={})

    found = [(".".join(map(str, problem.key)), problem.message) for problem in caught.value.problems]
    assert any(key.startswith(place) and expected in message for key, message in found), found
