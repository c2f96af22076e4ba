"""Predictors on a GPU's double, and what they find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.streams import GpuStream
from sightline.media import Batch, Frame, Stream
from sightline.media.convert import surface_from_rgb
from sightline_plugins import Detect
from sightline_plugins.engines.tensorrt.opening import open_tensorrt
from sightline_plugins.infer.cuda_predictor import CudaPredictor
from sightline_plugins.infer.detections import DetectionPostprocessor
from sightline_plugins.infer.options import plan_detections
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.requests import InferenceRequest, Predictor, Seen
from sightline_plugins.infer.targets import InferenceTarget
from tests.unit.infer.tiny import image

Blocks = Sequence[tuple[int, int, str]]
CELLS: list[Blocks] = [[(column, row, "yellow")] for row in range(1, 7) for column in range(1, 7)]
"""An image for each of 36 cells of the detector, with a block there."""


def planned(detect: Detect) -> tuple[ModelPlan, DetectionPostprocessor]:
    plan, rules, problems = plan_detections(detect)
    assert plan is not None
    assert rules is not None
    assert not problems
    return plan, DetectionPostprocessor(plan, rules, element_id="detect-1", warn=lambda text: None)


def by_tensorrt(
    detect: Detect, *, gpu: Gpu, stream: GpuStream, most_rows: int = 32
) -> tuple[CudaPredictor, DetectionPostprocessor]:
    plan, task = planned(detect)
    engine = open_tensorrt(
        str(detect.model), gpu=gpu, stream=stream, size_wh=plan.preprocessing.size_wh, most_rows=most_rows
    )
    return CudaPredictor(plan, engine=engine, task=task, gpu=gpu, stream=stream), task


def batch_of(images: Sequence[Blocks], *, gpu: Gpu | None = None) -> Batch:
    """Frames with those blocks, in the GPU's memory if one is given."""
    surfaces = [surface_from_rgb(image(*blocks)) for blocks in images]
    there = surfaces if gpu is None else [surface.to_device(gpu) for surface in surfaces]
    return Batch(tuple(Frame(Stream("cam"), index, index, surface) for index, surface in enumerate(there)))


def seen_of(batch: Batch, detect: Detect) -> list[Seen]:
    definition = planned(detect)[0].preprocessing
    whole = (0.0, 0.0, 1.0, 1.0)
    surfaces = [frame.surface for frame in batch.frames]
    return [
        (surface, InferenceTarget(row, definition.place_fractions(whole, surface)))
        for row, surface in enumerate(surfaces)
    ]


def cells_of(
    looks: Sequence[InferenceRequest | None], task: DetectionPostprocessor, seen: Sequence[Seen], batch: Batch
) -> list[Any]:
    """The cells (column, row) in which the looks found something."""
    found = []
    for look, (_, subject) in zip(looks, seen, strict=True):
        assert look is not None
        look.wait()
        boxes = look.read(task, subject, batch).answer.candidates.xyxy
        found.append([(int(left // 8), int(top // 8)) for left, top, _, _ in boxes])
    return found


def find(
    predictor: Predictor, task: DetectionPostprocessor, detect: Detect, images: Sequence[Blocks], *, gpu: Gpu
) -> list[Any]:
    batch = batch_of(images, gpu=gpu)
    seen = seen_of(batch, detect)
    return cells_of(list(predictor.submit(seen)), task, seen, batch)


def expected(images: Sequence[Blocks]) -> list[Any]:
    return [[(column, row) for column, row, _ in blocks] for blocks in images]
