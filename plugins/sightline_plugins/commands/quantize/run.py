"""Quantise a model: calibrate it, judge attempts until one is within the budget, and measure its speed."""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import msgspec
import numpy as np
import onnx

from sightline.errors import ModelError
from sightline_plugins.commands.quantize.judging import Findings, find_all, judge
from sightline_plugins.commands.quantize.options import QuantizeRequest
from sightline_plugins.commands.quantize.quantizer import attempts, calibrate, quantize
from sightline_plugins.commands.quantize.report import Report, Speed, Tried
from sightline_plugins.commands.quantize.samples import Images, gather, read_truth
from sightline_plugins.commands.quantize.source_model import read_source
from sightline_plugins.engines.model_file import metadata_of
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Array, Engine
from sightline_plugins.infer.facts import read_facts
from sightline_plugins.infer.precision import NOTE_KEY, file_digest
from sightline_plugins.infer.precision_speeds import interleaved_seconds

_MEASURED_SECONDS = 1.5
_PACKAGES = ("onnxruntime", "onnxruntime-gpu", "openvino", "onnx", "sightline")


def run(request: QuantizeRequest, *, progress: Callable[[str], None]) -> tuple[onnx.ModelProto, Report]:
    """Return the best quantised model, with its note inside, and the report.

    Attempts leave more and more sensitive layers in float32, until one is within the budget. Raises ModelError and
    ConfigurationError for models and clips that cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="sightline-") as name:
        folder = Path(name)
        source = read_source(request.model, folder=folder)
        preprocessing = request.plan.preprocessing
        images = gather(preprocessing, request.frames, judge=request.judge, count=request.count, progress=progress)
        truth = read_truth(request.truth, images.judged)
        progress(f"judging {request.model.name} by {len(images.judged)} images")
        before = {engine: _findings(request, engine, request.model, images) for engine in request.engines}
        progress(f"calibrating on {len(images.calibration)} images")
        ranges = calibrate(
            source,
            images.calibration,
            method=request.method,
            definition=preprocessing,
            extras=_extras(request, images),
            folder=folder,
        )

    made, refused = list[tuple[Tried, onnx.ModelProto]](), ""
    for attempt in attempts(source):
        progress(f"trying {attempt.title}")
        model = quantize(source, ranges, attempt=attempt)
        content, usual = model.SerializeToString(), request.mean_confidence
        try:
            judgements = tuple(
                judge(engine, fp32, _findings(request, engine, content, images), truth=truth, mean_confidence=usual)
                for engine, fp32 in before.items()
            )
        except ModelError as error:
            refused = f"model {str(request.model)!r}, quantised with {attempt.title}: {error}"
            continue
        made.append((Tried(attempt, judgements), model))
        if made[-1][0].worst.lost_points <= request.budget_points:
            break
    if not made:
        raise ModelError(refused)
    kept, model = min(made, key=lambda pair: pair[0].worst.lost_points)
    progress("measuring speed")
    report = Report(
        request=request,
        source_sha256=file_digest(request.model),
        calibrated_images=len(images.calibration),
        judged_images=len(images.judged),
        apart=images.apart,
        tried=tuple(tried for tried, _ in made),
        kept=kept,
        learned_layers=len(source.places.learned),
        speeds=tuple(_speed(request, engine, model) for engine in request.engines),
        versions=_versions(),
    )
    note = msgspec.json.encode(report.note()).decode()
    onnx.helper.set_model_props(model, {**metadata_of(source.model), NOTE_KEY: note})
    return model, report


def _extras(request: QuantizeRequest, images: Images) -> Mapping[str, Array]:
    """Return the model's inputs besides the image, by name."""
    inputs = read_facts(request.model).inputs
    values = request.plan.inputs.extra_values(images.judged[0].placement.size_wh)
    return {inputs[place].name: np.array([value], inputs[place].dtype) for place, value in values.items()}


def _open(request: QuantizeRequest, engine: str, model: Path | bytes) -> Engine:
    return open_engine(model, engine=engine, image=request.form)


def _findings(request: QuantizeRequest, engine: str, model: Path | bytes, images: Images) -> Findings:
    with closing(_open(request, engine, model)) as opened:
        return find_all(opened, request.plan, images.judged, settings=request.settings)


def _speed(request: QuantizeRequest, engine: str, model: onnx.ModelProto) -> Speed:
    with ExitStack() as stack:
        models = (request.model, model.SerializeToString())
        opened = [stack.enter_context(closing(_open(request, engine, content))) for content in models]
        fp32, int8 = interleaved_seconds(opened, budget_seconds=_MEASURED_SECONDS)
    return Speed(engine, fp32 * 1e3, int8 * 1e3)


def _versions() -> dict[str, str]:
    versions = dict[str, str]()
    for package in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions
