"""What models say on a GPU's run is what they say on the CPU's, to the byte: this project's models, and shared ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.devices.cuda.device import CudaDevice
from tests.fakes import FakeNvdec
from tests.integration.test_plates import chain

LINES = {"lines": {"middle": {"from": [0.5, 0], "to": [0.5, 1]}}}
VEHICLES = ["car", "van", "truck", "bus"]
CARS, FACES = "street-cars-640x360", "crowd-faces-800x450"
SHARED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "FastestDet": (CARS, "detect", {"head": "fastestdet", "labels": "coco80.names", "confidence": 0.4}),
    "yolox_nano": (CARS, "detect", {"head": "yolox", "labels": "coco80.names"}),
    "deimv2_hgnetv2_atto_coco": (CARS, "detect", {"labels": "coco80.names"}),
    "yunet_n_dynamic": (FACES, "detect", {"head": "yunet"}),
    "SqueezeNet_fp16": (CARS, "classify", {"labels": "imagenet1000.txt", "fit": "stretch", "mean": 0, "scale": 1}),
    "deeplab_v3_257": (CARS, "segment", {"fit": "stretch", "mean": 127.5, "scale": 127.5}),
}
"""Models of others, each with a clip on which it finds something, and its step."""


def records(clip: Path, steps: Sequence[Any], folder: Path, *, frames: int, gpu: CudaDevice | None = None) -> bytes:
    """What was found on the first frames of a clip."""
    source = {"clip": str(clip)}
    steps = [*steps, {"jsonl": {"path": "clip.jsonl"}}]
    Pipeline(sources=source, steps=steps, outputs=folder, gpu=gpu, batch={"size": 8}).run(frames=frames)
    return (folder / "clip.jsonl").read_bytes()


def assert_same(clip: Path, steps: Sequence[Any], folder: Path, *, frames: int, gpu: CudaDevice, found: bytes) -> None:
    on_cpu = records(clip, steps, folder / "cpu", frames=frames)
    on_gpu = records(clip, steps, folder / "gpu", frames=frames, gpu=gpu)

    assert on_gpu == on_cpu
    assert found in on_gpu


@pytest.mark.parametrize("clip", ["street", "dusk", "entrance", "gate"])
def test_the_street_is_seen_and_followed_as_on_the_cpu(
    repository: Path, tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec, clip: str
) -> None:
    steps = [{"detect": {"model": str(repository / "models" / "street.onnx")}}, "track", LINES]

    path = repository / "sample_videos" / f"{clip}.mp4"
    assert_same(path, steps, tmp_path, frames=8, gpu=gpu, found=b'"track_id"')


def test_plates_are_read_as_on_the_cpu(repository: Path, tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec) -> None:
    path = repository / "sample_videos" / "gate.mp4"

    assert_same(path, chain(), tmp_path, frames=48, gpu=gpu, found=b'"label":"plate"')


def test_vehicles_are_told_apart_as_on_the_cpu(
    repository: Path, tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec
) -> None:
    models = repository / "models"
    steps = [
        {"detect": {"model": str(models / "street.onnx"), "classes": VEHICLES}},
        {"classify": {"model": str(models / "vehicle.onnx"), "on": {"label": VEHICLES}}},
    ]

    path = repository / "sample_videos" / "street.mp4"
    assert_same(path, steps, tmp_path, frames=8, gpu=gpu, found=b'"colour"')


@pytest.mark.parametrize("model", SHARED)
def test_a_shared_model_finds_what_it_finds_on_the_cpu(
    shared_data: Path, tmp_path: Path, gpu: CudaDevice, nvdec: FakeNvdec, model: str
) -> None:
    clip, element, options = SHARED[model]
    models = shared_data / "models"
    given = {**options, **({"labels": str(models / options["labels"])} if "labels" in options else {})}
    steps: list[Any] = [{element: {"model": str(models / f"{model}.onnx"), **given}}]

    path = shared_data / "videos" / f"{clip}.mp4"
    followed = ["track", LINES] if element == "detect" else []
    assert_same(path, [*steps, *followed], tmp_path, frames=6, gpu=gpu, found=b'"confidence"')
