"""Predictors on a GPU's double, and what they find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.media import Batch, Frame, Stream
from sightline.media.convert import surface_from_rgb
from sightline_plugins import Detect
from sightline_plugins.engines.batch_sizes import BatchRange
from sightline_plugins.engines.tensorrt_model import open_tensorrt
from sightline_plugins.infer.cuda_predictor import CudaPredictor
from sightline_plugins.infer.detections import DetectionPostprocessor, detection_rules
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.requests import InferenceRequest, Predictor, RequestInput
from sightline_plugins.infer.targets import InferenceTarget
from tests.unit.infer.tiny import image

Blocks = Sequence[tuple[int, int, str]]
CELLS: list[Blocks] = [[(column, row, "yellow")] for row in range(1, 7) for column in range(1, 7)]
"""An image for each of 36 cells of the detector, with a block there."""


def planned(detect: Detect) -> tuple[ModelPlan, DetectionPostprocessor]:
    plan, problems = detect.plan()
    assert plan is not None
    assert not problems
    rules = detection_rules(detect, plan)
    return plan, DetectionPostprocessor(plan, rules, element_id="detect-1", warn=lambda text: None)


def by_tensorrt(
    detect: Detect, *, gpu: CudaDevice, stream: CudaStream, most_rows: int = 32
) -> tuple[CudaPredictor, DetectionPostprocessor]:
    plan, postprocessor = planned(detect)
    engine = open_tensorrt(
        str(detect.model),
        gpu=gpu,
        stream=stream,
        size_wh=plan.preprocessing.size_wh,
        batches=BatchRange(most_rows, most_rows),
    )
    return CudaPredictor(plan, engine=engine, postprocessor=postprocessor, gpu=gpu, stream=stream), postprocessor


def batch_of(images: Sequence[Blocks], *, gpu: CudaDevice | None = None) -> Batch:
    """Frames with those blocks, in the GPU's memory if one is given."""
    surfaces = [surface_from_rgb(image(*blocks)) for blocks in images]
    there = surfaces if gpu is None else [surface.to_device(gpu) for surface in surfaces]
    return Batch(tuple(Frame(Stream("cam"), index, index, surface) for index, surface in enumerate(there)))


def inputs_of(batch: Batch, detect: Detect) -> list[RequestInput]:
    definition = planned(detect)[0].preprocessing
    whole = (0.0, 0.0, 1.0, 1.0)
    surfaces = [frame.surface for frame in batch.frames]
    return [
        (surface, InferenceTarget(row, definition.place_fractions(whole, surface)))
        for row, surface in enumerate(surfaces)
    ]


def cells_of(
    requests: Sequence[InferenceRequest | None],
    postprocessor: DetectionPostprocessor,
    inputs: Sequence[RequestInput],
    batch: Batch,
) -> list[Any]:
    """The cells (column, row) in which the requests found something."""
    found = []
    for request, (_, target) in zip(requests, inputs, strict=True):
        assert request is not None
        request.wait()
        boxes = request.read(postprocessor, target, batch).result.candidates.xyxy
        found.append([(int(left // 8), int(top // 8)) for left, top, _, _ in boxes])
    return found


def find(
    predictor: Predictor,
    postprocessor: DetectionPostprocessor,
    detect: Detect,
    images: Sequence[Blocks],
    *,
    gpu: CudaDevice,
) -> list[Any]:
    batch = batch_of(images, gpu=gpu)
    inputs = inputs_of(batch, detect)
    return cells_of(list(predictor.submit(inputs)), postprocessor, inputs, batch)


def expected(images: Sequence[Blocks]) -> list[Any]:
    return [[(column, row) for column, row, _ in blocks] for blocks in images]
