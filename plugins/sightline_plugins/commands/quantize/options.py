"""What to quantise and how to judge it, from the command's options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sightline.errors import ConfigurationError, ModelError
from sightline_plugins.commands.evaluate.scores import require_scoring
from sightline_plugins.commands.quantize.quantizer import Method
from sightline_plugins.commands.verify.command import element_of, plan_of
from sightline_plugins.commands.verify.comparison import BoxSettings
from sightline_plugins.engines.address import address_of
from sightline_plugins.engines.kinds import by_priority
from sightline_plugins.infer.options import CONFIDENCE, DetectionElement, ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.precision import quantized_path
from sightline_plugins.preprocess.cpu import ImageForm

_BUDGET_AGAINST_TRUTH = 1.0
_BUDGET_OF_DIFFERENCES = 2.0
_ANY_CONFIDENCE = 0.01
"""Average precision wants to see what the model doubts, too."""


@dataclass(frozen=True, slots=True)
class QuantizeOptions:
    """The options of the command."""

    model: str
    output: Path | None
    task: str | None
    settings: tuple[str, ...]
    frames: tuple[str, ...]
    judge: tuple[str, ...]
    truth: tuple[Path, ...]
    count: int
    method: Method
    budget_points: float | None


@dataclass(frozen=True, slots=True)
class QuantizeRequest:
    """What is to be quantised, by what, and how much it may lose.

    `settings` are those of boxes, for models that find some, with next to no least confidence; `mean_confidence` is
    the one that the step has. `truth` has one file for each of `judge`, or else of `frames`, or is empty.
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
        """How engines are handed images."""
        return self.plan.preprocessing.image_form()


def order_of(wish: QuantizeOptions) -> QuantizeRequest:
    """The order that follows from a wish.

    Raises ConfigurationError and ModelError for what cannot be done, MissingExtra without what boxes are scored by.
    """
    model = _file(wish.model)
    judged = wish.judge or wish.frames
    if wish.truth and len(wish.truth) != len(judged):
        raise ConfigurationError(
            f"--truth wants one file for each clip that is judged, in order: {len(judged)}, not {len(wish.truth)}"
        )
    element = element_of(model, wish.task, wish.settings)
    plan, settings = plan_of(_doubting(element))
    if plan.stack is not None:
        raise ModelError(
            f"model {str(model)!r}: looks at {plan.stack.frames} images at once, which sightline quantize cannot "
            "calibrate: quantise it where it was trained"
        )
    if wish.truth and settings is None:
        raise ConfigurationError("--truth tells of boxes, which this model does not find: leave it out")
    if settings is not None:
        require_scoring()
    return QuantizeRequest(
        model=model,
        output=wish.output or quantized_path(model),
        plan=plan,
        settings=settings,
        mean_confidence=_mean_confidence(element, plan),
        engines=tuple(kind.name for kind in by_priority() if kind.library is not None and kind.is_installed),
        frames=wish.frames,
        judge=wish.judge,
        truth=wish.truth,
        count=wish.count,
        method=wish.method,
        budget_points=_budget(wish),
    )


def _budget(wish: QuantizeOptions) -> float:
    """Without truth every difference counts as a loss, although about half of them are none."""
    if wish.budget_points is not None:
        return wish.budget_points
    return _BUDGET_AGAINST_TRUTH if wish.truth else _BUDGET_OF_DIFFERENCES


def _file(model: str) -> Path:
    try:
        served = address_of(model)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    if served is not None:
        raise ConfigurationError(f"model {model!r} is served elsewhere: give the ONNX file that its server has")
    return Path(model)


def _doubting(element: ModelElement) -> ModelElement:
    """The step, telling of everything that it believes in at all."""
    if not isinstance(element, DetectionElement):
        return element
    return element.model_copy(update={"confidence": _ANY_CONFIDENCE, "class_confidence": {}})


def _mean_confidence(element: ModelElement, plan: ModelPlan) -> float:
    own = element.confidence if isinstance(element, DetectionElement) else None
    return next(value for value in (own, plan.card.confidence, CONFIDENCE) if value is not None)
