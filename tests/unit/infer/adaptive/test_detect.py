"""`detect: {every: auto}` on the street of the sample videos, and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.media import Batch
from sightline_plugins import Detect, Track
from sightline_plugins.infer.adaptive.budget import Budget

FRAMES = 60


def run(repository: Path, *, batch: int = 8, streams: int = 1, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run on the first frames; return what is on each (whether it was detected, and boxes), and the report."""
    model, clip = (str(repository / name) for name in ("models/street.onnx", "sample_videos/street.mp4"))
    detect = Detect.model_validate({"model": model, "every": "auto", "precision": "fp32", **options})
    sources = {f"cam{number}": clip for number in range(streams)}
    pipeline = Pipeline(sources=sources, steps=[detect, Track()], batch={"size": batch})
    found: dict[str, Any] = {}

    def keep(batch: Batch) -> None:
        for view in batch:
            detected = batch.columns.detected[view.row]
            found[f"{view.stream.name}/{view.index}"] = detected, view.objects.xyxy.tolist()

    pipeline.probe("track-1", keep)
    report = pipeline.run(frames=FRAMES)
    return found, report.totals["detect-1"]["adaptive"]


def test_frames_without_a_run_have_what_the_tracker_expects(repository: Path) -> None:
    found, report = run(repository, budget={"max_loss": 0.05})

    predicted = [boxes for detected, boxes in found.values() if not detected]
    assert len(predicted) == FRAMES - report["cam0"]["detected"] > 10
    assert all(predicted)


def test_results_do_not_depend_on_batches_and_other_streams(repository: Path) -> None:
    alone, _ = run(repository, batch=1)
    together, _ = run(repository, batch=8, streams=2)

    assert {name: found for name, found in together.items() if name.startswith("cam0/")} == alone
    assert [found for name, found in together.items() if name.startswith("cam1/")] == list(alone.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": {}}, "a budget is for every: auto"),
        ({"every": "auto", "on": "car"}, "every: auto decides for whole frames: leave out on"),
    ],
)
def test_options_that_do_not_fit_are_reported(repository: Path, options: dict[str, Any], message: str) -> None:
    detect = Detect.model_validate({"model": str(repository / "models/street.onnx"), **options})
    pipeline = Pipeline(sources={"cam": str(repository / "sample_videos/street.mp4")}, steps=[detect])

    with pytest.raises(ConfigurationError, match=message):
        pipeline.run(frames=1)


@pytest.mark.parametrize("wrong", [{"max_loss": 0.0}, {"max_interval": "2m"}, {"sampling": 2}, {"max_rate": 0}])
def test_a_budget_has_bounds(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        Budget(**wrong)


def test_regions_are_learned_from_together(repository: Path) -> None:
    found, report = run(repository, regions=[[0, 0, 0.6, 1], [0.4, 0, 1, 1]])

    assert 0 < report["cam0"]["detected"] < FRAMES
    assert np.mean([len(boxes) for _, boxes in found.values()]) > 5
