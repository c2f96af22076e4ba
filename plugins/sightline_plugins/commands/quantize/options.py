"""What to quantise and how to judge it, from the command's options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sightline.errors import ConfigurationError, ModelError
from sightline_plugins.commands.evaluate.scores import require_scoring
from sightline_plugins.commands.model_step import model_step
from sightline_plugins.commands.quantize.quantizer import Method
from sightline_plugins.commands.verify.command import plan_of
from sightline_plugins.commands.verify.comparison import BoxSettings
from sightline_plugins.engines.address import address_of, file_of_name
from sightline_plugins.engines.kinds import by_priority
from sightline_plugins.infer.detections import minimum_confidence
from sightline_plugins.infer.options import DetectionElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.precision import quantized_path
from sightline_plugins.preprocess.definition import ImageForm

_BUDGET_AGAINST_TRUTH = 1.0
_BUDGET_OF_DIFFERENCES = 2.0
"""Without ground truth every difference counts as a loss, although about half of them are none."""
_ANY_CONFIDENCE = 0.01
"""Average precision needs uncertain detections, too."""


@dataclass(frozen=True, slots=True)
class QuantizeRequest:
    """What to quantise, on which images, and how much accuracy it may lose.

    `settings` are those of a model that finds boxes, with almost no minimum confidence; `mean_confidence` is the
    minimum confidence of the step. `truth` has one file for each of `judge`, or else of `frames`, or is empty.
    """

    model: Path
    output: Path
    plan: ModelPlan
    settings: BoxSettings | None
    mean_confidence: float
    engines: tuple[str, ...]
    frames: tuple[str, ...]
    judge: tuple[str, ...]
    truth: tuple[Path, ...]
    count: int
    method: Method
    budget_points: float

    @property
    def form(self) -> ImageForm:
        """The form in which engines take images."""
        return self.plan.preprocessing.image_form()


def quantize_request(
    model: str,
    *,
    frames: tuple[str, ...],
    count: int,
    output: Path | None = None,
    task: str | None = None,
    settings: tuple[str, ...] = (),
    judge: tuple[str, ...] = (),
    truth: tuple[Path, ...] = (),
    method: Method = "minmax",
    budget_points: float | None = None,
) -> QuantizeRequest:
    """Return the request of the command's options.

    Raises ConfigurationError and ModelError for models and options that cannot be used, and MissingExtra without the
    package that scores boxes.
    """
    path = _file(model)
    judged = judge or frames
    if truth and len(truth) != len(judged):
        raise ConfigurationError(
            f"--truth wants one file for each clip that is judged, in order: {len(judged)}, not {len(truth)}"
        )
    element, _ = model_step(path, task, settings)
    lenient = {"confidence": _ANY_CONFIDENCE, "class_confidence": {}}
    plan, boxes = plan_of(element.model_copy(update=lenient) if isinstance(element, DetectionElement) else element)
    if plan.stack is not None:
        raise ModelError(
            f"model {str(path)!r}: looks at {plan.stack.frames} images at once, which sightline quantize cannot "
            "calibrate: quantise it where it was trained"
        )
    if truth and boxes is None:
        raise ConfigurationError("--truth tells of boxes, which this model does not find: leave it out")
    if boxes is not None:
        require_scoring()
    if budget_points is None:
        budget_points = _BUDGET_AGAINST_TRUTH if truth else _BUDGET_OF_DIFFERENCES
    return QuantizeRequest(
        model=path,
        output=output or quantized_path(path),
        plan=plan,
        settings=boxes,
        mean_confidence=minimum_confidence(element, plan),
        engines=tuple(kind.name for kind in by_priority() if kind.library is not None and kind.is_installed),
        frames=frames,
        judge=judge,
        truth=truth,
        count=count,
        method=method,
        budget_points=budget_points,
    )


def _file(model: str) -> Path:
    try:
        served, named = address_of(model), file_of_name(model)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    if served is not None:
        raise ConfigurationError(f"model {model!r} is served elsewhere: give the ONNX file that its server has")
    return named or Path(model)
