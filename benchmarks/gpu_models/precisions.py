"""FP32, FP16 and INT8 side by side: how fast the engine is, and what the step finds of what is true."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
from benchmarks.gpu_models.case import REFUSALS, BenchmarkCase, EngineAlone
from benchmarks.gpu_models.figures import Goals, in_turn, print_table
from tests.reading import media, reader_of
from tools.train.precision import LEAST_SIDE_PX, LEAST_VISIBLE

from sightline.devices.cuda.streams import CudaStream
from sightline.graph import Pending
from sightline.media import Batch, Frame
from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.commands.evaluate.scores import DetectionScores, score_detections
from sightline_plugins.engines.protocol import GPU_PRECISIONS, CudaEngine, Precision
from sightline_plugins.infer.cuda_predictor import CudaPredictor
from sightline_plugins.infer.detections import DetectionPostprocessor, detection_rules
from sightline_plugins.infer.operator import ModelOperator, target_selector
from sightline_plugins.infer.options import DetectionElement

SAMPLES = ("street", "dusk", "entrance", "gate")
MOST_LOST_POINTS = 1.0
_ANY_CONFIDENCE = 0.01
"""Average precision wants to see what the model doubts, too."""
_IMAGES = 16
_ROWS = 32
_CLIP_FRAMES = 1_000_000


@dataclass(frozen=True, slots=True)
class Form:
    """A model in one precision, open."""

    precision: Precision
    engine: CudaEngine
    stream: CudaStream


def measure(
    case: BenchmarkCase, samples: Path, *, rounds: int, seconds: float, judged: int | None, goals: Goals
) -> None:
    """Print the table. `samples` is the folder of this project's clips, of which `judged` frames are judged by each."""
    forms = list(_opened(case))
    rows = [case.rows_for(form.engine, images=_ROWS) for form in forms]
    alone = {
        form.precision: EngineAlone(case, form.engine, rows=count, stream=form.stream)
        for form, count in zip(forms, rows, strict=True)
    }
    works: dict[str, Callable[[], float]] = {
        name: partial(engine.images_per_second, seconds) for name, engine in alone.items()
    }
    rates = in_turn(works, rounds=rounds)
    clips = [samples / f"{name}.mp4" for name in SAMPLES]
    truth = _joined([truth_of(clip, number=number, frames=judged) for number, clip in enumerate(clips)])
    scores = {form.precision: _scored(case, form, clips, truth=truth, frames=judged) for form in forms}
    table = []
    for form, count in zip(forms, rows, strict=True):
        name = form.precision
        lost = 100 * (scores["fp32"].ap - scores[name].ap)
        met = "" if name == "fp32" else goals.at_most(MOST_LOST_POINTS, lost, what=f"points of AP lost by {name}")
        ratio, ap, ap50 = rates[name].over(rates["fp32"]), 100 * scores[name].ap, 100 * scores[name].ap50
        table.append((name, count, rates[name].text(), ratio.text(2), f"{ap:.2f}", f"{ap50:.2f}", f"{lost:.2f}", met))
    head = ("precision", "batch", "engine alone, images/s", "times fp32", "AP", "AP50", "points lost", "goal")
    print_table(head, table)


def _opened(case: BenchmarkCase) -> Iterator[Form]:
    """The model in every precision that is available; the others are reported."""
    names: Sequence[Precision] = GPU_PRECISIONS
    for precision in names:
        stream = case.gpu.stream(precision)
        try:
            yield Form(precision, case.open(stream=stream, precision=precision), stream)
        except REFUSALS as error:
            if precision == "fp32":
                raise
            print(f"{precision} is not measured: {error}")


def truth_of(clip: Path, *, number: int, frames: int | None) -> Annotations:
    """What is true on the first frames of a sample clip, all when None; what can hardly be seen counts neither way."""
    labels = json.loads(clip.with_suffix(".truth.json").read_text())["classes"]
    table = np.loadtxt(clip.with_suffix(".mot.txt"), delimiter=",", ndmin=2)
    table = table[table[:, 0] <= (frames or _CLIP_FRAMES)]
    size_wh = table[:, 4:6]
    return Annotations.from_rows(
        frame=number * _CLIP_FRAMES + table[:, 0] - 1,
        xyxy=np.concatenate([table[:, 2:4], table[:, 2:4] + size_wh], axis=1),
        confidence=np.ones(len(table)),
        label=[labels[int(row)] for row in table[:, 7]],
        identity=table[:, 1],
        ignored=(table[:, 8] < LEAST_VISIBLE) | (size_wh.min(axis=1) < LEAST_SIDE_PX),
    )


def _scored(
    case: BenchmarkCase, form: Form, clips: Sequence[Path], *, truth: Annotations, frames: int | None
) -> DetectionScores:
    """What the step finds with this engine, which is closed then."""
    runner = _runner(case, form)
    try:
        found = [_found(runner, case, clip, number=number, frames=frames) for number, clip in enumerate(clips)]
    finally:
        runner.close()
    return score_detections(_joined(found), truth=truth)


def _runner(case: BenchmarkCase, form: Form) -> ModelOperator:
    """The step with an engine that is open, telling of everything that it believes in at all."""
    told = {"confidence": _ANY_CONFIDENCE, "class_confidence": {}}
    element: DetectionElement = case.element.model_copy(update=told)
    plan, _ = element.plan()
    assert plan is not None
    rules = detection_rules(element, plan)
    postprocessor = DetectionPostprocessor(plan, rules, element_id="detect-1", warn=print)
    predictor = CudaPredictor(plan, engine=form.engine, postprocessor=postprocessor, gpu=case.gpu, stream=form.stream)
    return ModelOperator(
        predictor,
        selector=target_selector(element, plan),
        postprocessor=postprocessor,
        plan=plan,
        element_id="detect-1",
        warn=print,
    )


def _found(runner: ModelOperator, case: BenchmarkCase, clip: Path, *, number: int, frames: int | None) -> Annotations:
    tables = []
    with reader_of(media(clip), case.gpu) as reader:
        images = islice(reader.frames(), frames)
        while some := tuple(islice(images, _IMAGES)):
            done = runner.process(Batch(some))
            tables.append(_table(done.result() if isinstance(done, Pending) else done, some, number=number))
    return _joined(tables)


def _table(batch: Batch, frames: Sequence[Frame], *, number: int) -> Annotations:
    objects = batch.objects
    names = zip(objects.origin.tolist(), objects.class_id.tolist(), strict=True)
    return Annotations.from_rows(
        frame=[number * _CLIP_FRAMES + frames[row].index for row in objects.frame.tolist()],
        xyxy=objects.xyxy,
        confidence=objects.confidence,
        label=[objects.origins[origin].label(class_id) for origin, class_id in names],
        identity=np.full(len(objects.frame), -1),
    )


def _joined(tables: Sequence[Annotations]) -> Annotations:
    names = ("frame", "xyxy", "confidence", "label", "identity", "ignored")
    return Annotations.from_rows(**{name: np.concatenate([getattr(one, name) for one in tables]) for name in names})
