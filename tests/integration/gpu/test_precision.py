"""How exactly models are computed on a GPU: as their files say, halved, or whichever is the fastest."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from sightline.devices.cuda.device import CudaDevice
from tests.fakes import FakeNvdec
from tests.integration.gpu.agreement import overlap
from tests.integration.gpu.test_engines import recorded


def seeing(repository: Path, **options: Any) -> list[Any]:
    return [{"detect": {"model": str(repository / "models" / "street.onnx"), "confidence": 0.6, **options}}]


def boxes(content: bytes) -> list[list[list[float]]]:
    """The boxes of each frame."""
    return [[thing["box"] for thing in json.loads(line).get("objects", ())] for line in content.splitlines()]


def overlaps(one: bytes, other: bytes) -> list[float]:
    """The overlap of each box with its counterpart, in whatever order they stand."""
    frames = zip(boxes(one), boxes(other), strict=True)
    return [max(overlap(box, known) for known in exact) for found, exact in frames for box in found]


@pytest.mark.parametrize("engine", ["tensorrt", "onnxruntime"])
def test_halves_find_what_the_file_finds(
    repository: Path, tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec, engine: str, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(engine)
    clip = repository / "sample_videos" / "street.mp4"

    report, halved = recorded(clip, seeing(repository, precision="fp16"), tmp_path / "half", frames=6, gpu=gpu)

    _, exact = recorded(clip, seeing(repository), tmp_path / "exact", frames=6)
    assert report.totals["detect-1"]["precision"] == "fp16"
    assert [len(found) for found in boxes(halved)] == [len(found) for found in boxes(exact)]
    found = overlaps(halved, exact)
    assert min(found) > 0.8  # of two candidates for one thing, the other may be the surer one
    assert mean(found) > 0.99


def test_the_fastest_is_kept_and_why_is_told(
    repository: Path,
    tmp_path: Path,
    gpu: CudaDevice,
    nvdec: FakeNvdec,
    tensorrt: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    clip = repository / "sample_videos" / "gate.mp4"
    steps = [{"detect": {"model": str(repository / "models" / "plate.onnx"), "precision": "auto"}}]

    first, _ = recorded(clip, steps, tmp_path / "first", frames=2, gpu=gpu)
    again, _ = recorded(clip, steps, tmp_path / "again", frames=2, gpu=gpu)

    said = first.totals["detect-1"]
    assert said["precision"] in ("fp32", "fp16")
    assert "times as fast" in said["precision_reason"]
    assert again.totals["detect-1"]["precision_reason"] == said["precision_reason"]
