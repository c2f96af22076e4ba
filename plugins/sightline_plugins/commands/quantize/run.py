"""From a model and clips to a quantised model and its report: calibrate, judge, try again, measure."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import onnx

from sightline.errors import ModelError
from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.commands.quantize.judging import Findings, Judgement, find_all, judge
from sightline_plugins.commands.quantize.options import QuantizeRequest
from sightline_plugins.commands.quantize.quantizer import Attempt, Calibration, attempts, calibrate, quantize
from sightline_plugins.commands.quantize.report import Report, Speed, Tried
from sightline_plugins.commands.quantize.samples import Images, gather, read_truth
from sightline_plugins.commands.quantize.source_model import SourceModel, read_source
from sightline_plugins.engines.model_file import metadata_of
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Array, Engine
from sightline_plugins.infer.facts import read_facts
from sightline_plugins.infer.precision import NOTE_KEY, file_digest
from sightline_plugins.infer.precision_speeds import interleaved_seconds

_MEASURED_SECONDS = 1.5
_PACKAGES = ("onnxruntime", "onnxruntime-gpu", "openvino", "onnx", "sightline")


def run(order: QuantizeRequest, *, tell: Callable[[str], None]) -> tuple[onnx.ModelProto, Report]:
    """The best quantised model that was found, with its note inside, and the report. `tell` hears of the progress.

    Attempts that leave more and more sensitive layers in float32 follow one another until one is within the budget.
    Raises ModelError and ConfigurationError for what cannot be quantised or judged.
    """
    with tempfile.TemporaryDirectory(prefix="sightline-") as name:
        folder = Path(name)
        source = read_source(order.model, folder=folder)
        images = gather(order.plan.preprocessing, order.frames, judge=order.judge, count=order.count, tell=tell)
        truth = read_truth(order.truth, images.judged)
        tell(f"judging {order.model.name} by {len(images.judged)} images")
        before = {engine: _findings(order, engine, order.model, images) for engine in order.engines}
        tell(f"calibrating on {len(images.calibration)} images")
        calibration = calibrate(
            source,
            images.calibration,
            method=order.method,
            definition=order.plan.preprocessing,
            extras=_extras(order, images),
            folder=folder,
        )
    made = _tried(order, source, calibration, judging=_Judging(order, images, before, truth), tell=tell)
    kept, model = min(made, key=lambda one: one[0].worst.lost_points)
    tell("measuring speed")
    report = _report(order, source, images, [tried for tried, _ in made], kept, speeds=_speeds(order, model))
    note = msgspec.json.encode(report.note()).decode()
    onnx.helper.set_model_props(model, {**metadata_of(source.model), NOTE_KEY: note})
    return model, report


@dataclass(frozen=True, slots=True, eq=False)
class _Judging:
    """What quantised models are judged by: images, what the original finds in them, and perhaps the truth."""

    order: QuantizeRequest
    images: Images
    before: Mapping[str, Findings]
    truth: Annotations | None

    def tried(self, attempt: Attempt, model: onnx.ModelProto) -> Tried:
        """What an attempt is worth on each engine. Raises ModelError where one cannot compute it."""
        content, order = model.SerializeToString(), self.order
        judgements = list[Judgement]()
        for engine, fp32 in self.before.items():
            int8 = _findings(order, engine, content, self.images)
            judgements.append(judge(engine, fp32, int8, truth=self.truth, mean_confidence=order.mean_confidence))
        return Tried(attempt, tuple(judgements))


def _tried(
    order: QuantizeRequest,
    source: SourceModel,
    calibration: Calibration,
    *,
    judging: _Judging,
    tell: Callable[[str], None],
) -> list[tuple[Tried, onnx.ModelProto]]:
    """All attempts up to the first within the budget; those that an engine refuses are passed over."""
    made, refused = list[tuple[Tried, onnx.ModelProto]](), ""
    for attempt in attempts(source):
        tell(f"trying {attempt.title}")
        model = quantize(source, calibration, attempt=attempt)
        try:
            made.append((judging.tried(attempt, model), model))
        except ModelError as error:
            refused = f"model {str(order.model)!r}, quantised with {attempt.title}: {error}"
            continue
        if made[-1][0].worst.lost_points <= order.budget_points:
            break
    if not made:
        raise ModelError(refused)
    return made


def _extras(order: QuantizeRequest, images: Images) -> Mapping[str, Array]:
    """The model's inputs besides the image, by their names."""
    inputs = read_facts(order.model).inputs
    values = order.plan.inputs.extra_values(images.judged[0].placement.size_wh)
    return {inputs[place].name: np.array([value], inputs[place].dtype) for place, value in values.items()}


def _open(order: QuantizeRequest, engine: str, model: Path | bytes) -> Engine:
    return open_engine(model, engine=engine, image=order.form)


def _findings(order: QuantizeRequest, engine: str, model: Path | bytes, images: Images) -> Findings:
    opened = _open(order, engine, model)
    try:
        return find_all(opened, order.plan, images.judged, settings=order.settings)
    finally:
        opened.close()


def _speeds(order: QuantizeRequest, model: onnx.ModelProto) -> list[Speed]:
    speeds = list[Speed]()
    for engine in order.engines:
        with ExitStack() as stack:
            opened = [_open(order, engine, one) for one in (order.model, model.SerializeToString())]
            for one in opened:
                stack.callback(one.close)
            fp32, int8 = interleaved_seconds(opened, budget_seconds=_MEASURED_SECONDS)
        speeds.append(Speed(engine, fp32 * 1e3, int8 * 1e3))
    return speeds


def _report(
    order: QuantizeRequest,
    source: SourceModel,
    images: Images,
    tried: Sequence[Tried],
    kept: Tried,
    *,
    speeds: Sequence[Speed],
) -> Report:
    return Report(
        model=order.model,
        output=order.output,
        source_sha256=file_digest(order.model),
        method=order.method,
        clips=order.frames,
        calibrated_images=len(images.calibration),
        judged_images=len(images.judged),
        apart=images.apart,
        budget_points=order.budget_points,
        tried=tuple(tried),
        kept=kept,
        learned_layers=len(source.places.learned),
        speeds=tuple(speeds),
        versions=_versions(),
    )


def _versions() -> dict[str, str]:
    versions = dict[str, str]()
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions
