"""Judge a model before it goes into the store: the graph is asked whether its card is true, and the network runs once.

The plan of the step that would run it finds what contradicts its inputs and outputs. Then an engine opens it, it runs
on a noise image, and its head reads what comes out: labels, keypoints and classes have to be those of the outputs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sightline.devices import resolve_device
from sightline.devices.processor import processor_name
from sightline.errors import ModelError
from sightline.graph import CheckContext, Outputs
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Array, Engine, TensorSpec
from sightline_plugins.heads.head import Candidates, MatchScore, Points, Scores
from sightline_plugins.heads.registry import heads_of, match_scores
from sightline_plugins.infer.card import ModelCard, read_card, read_metadata
from sightline_plugins.infer.facts import ModelFacts, read_facts
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.infer.tasks import choose_task, signature_of
from sightline_plugins.store import Speed

_OPEN_SIDE, _OPEN_FRAMES = 320, 16
"""Size of the noise where model and card leave it open."""
_MEASURED_SECONDS = 0.4
_FEWEST_RUNS, _MOST_RUNS = 3, 64
_LOWEST_CONFIDENCE = 0.01
_NEEDS_LABELS = ("detect", "classify", "segment", "read")


@dataclass(frozen=True, slots=True)
class Judged:
    """What a model turned out to be. `classes` is None where the outputs have none; `doubts` are no mistakes."""

    task: str
    reason: str
    head: str | None
    classes: int | None
    labels: tuple[str, ...]
    speed: Speed
    doubts: tuple[str, ...]


def judge(model: Path) -> Judged:
    """Return what a model is, with the card that lies beside it.

    Raises ModelError with everything that is wrong: a file that is damaged or that no engine opens, a card that
    contradicts the graph, outputs that its head cannot read.
    """
    facts, card = read_facts(model), read_card(model)
    choice = choose_task(model)
    element = _element(choice.task, model)
    plan, _ = element.plan()
    found = [problem.message for problem in element.check(CheckContext(resolve_device("cpu"), ("image",), Outputs()))]
    found += _contradictions(card, facts, plan)
    if found or plan is None:
        raise ModelError(_one_text(model, found))
    with closing(open_engine(model)) as engine:
        arrays = _noise(engine, plan)
        outputs = engine.submit(arrays).result()
        size_wh = _size_wh(engine, plan)
        result = _read(model, plan, outputs, size_wh)
        lies = _lies(card, plan, result)
        if lies:
            raise ModelError(_one_text(model, lies))
        milliseconds = _milliseconds(engine, arrays)
        speed = Speed(engine.name, "the CPU", "fp32", milliseconds, size_wh, processor_name())
    head = None if plan.head is None else plan.head.name
    count = None if plan.head is None else plan.head.count_classes([output.shape for output in plan.outputs])
    doubts = (*_doubts(card, facts, plan, element), *_label_doubts(choice.task, plan, count))
    return Judged(choice.task, choice.reason, head, count or len(plan.labels) or None, plan.labels, speed, doubts)


def _element(task: str, model: Path) -> ModelElement:
    from sightline.config import parse_steps

    (element,) = parse_steps([{task: {"model": str(model)}}])
    assert isinstance(element, ModelElement)
    return element


def _contradictions(card: ModelCard, facts: ModelFacts, plan: ModelPlan | None) -> list[str]:
    """Return what the card says of the input and the graph does not; the plan has judged the rest."""
    if plan is None:
        return []
    image = facts.inputs[plan.inputs.image]
    found = []
    layout = "nhwc" if plan.inputs.channels_last else "nchw"
    if card.input.layout not in (None, layout) and plan.stack is None:
        found.append(f"its card says layout {card.input.layout}, and its input is {layout} ({image})")
    if card.input.dtype not in (None, image.dtype.name):
        found.append(f"its card says dtype {card.input.dtype}, and its input is {image}")
    return found


def _lies(card: ModelCard, plan: ModelPlan, result: object) -> list[str]:
    """Return what the card says of the outputs and a result does not."""
    found: list[str] = []
    points: int | None = None
    labels = len(plan.labels)
    if isinstance(result, Candidates):
        points = None if result.points is None else result.points.shape[1]
        highest = int(result.class_id.max(initial=-1))
        if labels and highest >= labels:
            found.append(f"its outputs name class {highest}, and there are {labels} labels (0 to {labels - 1})")
    elif isinstance(result, Points):
        points = result.values.shape[0]
    elif isinstance(result, Scores):
        counts = [len(values) for values in result.values]
        attributes = card.attributes
        if attributes is not None and counts != [len(names) for names in attributes.values()]:
            found.append(f"its outputs have {counts} classes, and its card names attributes with others")
        elif attributes is None and labels and counts != [labels]:
            found.append(f"its outputs have {counts} classes, and there are {labels} labels")
    if card.keypoints is not None and points is not None and points != len(card.keypoints):
        found.append(f"its outputs have {points} keypoints, and its card names {len(card.keypoints)}")
    return found


def _doubts(card: ModelCard, facts: ModelFacts, plan: ModelPlan, element: ModelElement) -> list[str]:
    """Return what is unusual: a head that the card names while the outputs are those of another family."""
    if card.head is None:
        return []
    signature = signature_of(
        facts, read_metadata(facts.metadata), size_wh=plan.preprocessing.size_wh, labels=plan.labels
    )
    scores = match_scores(signature, heads_of(element.task).values())
    likely = [name for name, score in scores.items() if score is MatchScore.CERTAIN and name != card.head]
    if not likely or scores.get(card.head) is MatchScore.CERTAIN:
        return []
    looks = f"its outputs look like those of {' or '.join(likely)}"
    return [f"its card names head {card.head}, and {looks}: `sightline verify` compares"]


def _label_doubts(task: str, plan: ModelPlan, count: int | None) -> list[str]:
    if plan.labels or plan.card.attributes or task not in _NEEDS_LABELS:
        return []
    classes = "" if count is None else f" of its {count} classes"
    return [f"the names{classes} are not known: give `labels` in the card, or --set labels=FILE"]


def _noise(engine: Engine, plan: ModelPlan) -> list[Array]:
    """Return an image of noise as the network wants it, and its size where it takes that."""
    extras = plan.inputs.extra_values(_size_wh(engine, plan))
    return [
        _image(spec, engine, plan) if place == plan.inputs.image else np.array([extras[place]]).astype(spec.dtype)
        for place, spec in enumerate(engine.inputs)
    ]


def _image(spec: TensorSpec, engine: Engine, plan: ModelPlan) -> Array:
    width, height = _size_wh(engine, plan)
    frames = _OPEN_FRAMES if plan.stack is None else plan.stack.frames
    sizes = {"h": height, "w": width, "c": plan.inputs.channels, "t": frames}
    axes = _axes(plan)
    shape = (1, *(size or sizes[axis] for axis, size in zip(axes, spec.shape[1:], strict=True)))
    levels = np.random.default_rng(0).integers(0, 256, shape)
    if spec.dtype.kind in "iu":
        return levels.astype(spec.dtype)
    across = [1] * len(shape)
    across[1 + axes.index("c")] = -1
    mean, scale = (np.reshape(values, across) for values in (plan.preprocessing.mean, plan.preprocessing.scale))
    return np.ascontiguousarray((levels - mean) / scale, spec.dtype)


def _axes(plan: ModelPlan) -> str:
    if plan.inputs.stack is not None:
        return plan.inputs.stack.order
    return "hwc" if plan.inputs.channels_last else "chw"


def _size_wh(engine: Engine, plan: ModelPlan) -> tuple[int, int]:
    """Return width and height of the input: those of the plan, else a size that every stride divides."""
    axes, shape = _axes(plan), engine.inputs[plan.inputs.image].shape[1:]
    width, height = plan.preprocessing.size_wh or (_OPEN_SIDE, _OPEN_SIDE)
    return shape[axes.index("w")] or width, shape[axes.index("h")] or height


def _read(model: Path, plan: ModelPlan, outputs: Sequence[Array], size_wh: tuple[int, int]) -> object:
    """Return what the head reads. Raises ModelError when it cannot, and for outputs that are no numbers."""
    for spec, output in zip(plan.outputs, outputs, strict=True):
        if output.dtype.kind == "f" and np.isnan(output).any():
            raise ModelError(f"model {str(model)!r}: gives NaN in its output {spec.name!r} on a noise image")
    if plan.head is None:
        return None
    failure = f"model {str(model)!r}: its head {plan.head.name!r} cannot read its outputs"
    try:
        result: Any = plan.decode(outputs, size_wh=size_wh, confidence=_LOWEST_CONFIDENCE)
    except ModelError as error:
        raise ModelError(f"{failure}: {error}") from error
    except (ValueError, TypeError, LookupError, ArithmeticError) as error:
        named = zip(plan.outputs, outputs, strict=True)
        shapes = "; ".join(f"{spec.name} {output.shape}" for spec, output in named)
        raise ModelError(f"{failure} ({shapes}): name another `head` in its card") from error
    return result


def _milliseconds(engine: Engine, arrays: Sequence[Array]) -> float:
    """Return milliseconds of processor time per image, which what else the machine does hardly changes."""
    start, runs = time.process_time(), 0
    while runs < _FEWEST_RUNS or (runs < _MOST_RUNS and time.process_time() - start < _MEASURED_SECONDS):
        engine.submit(arrays).result()
        runs += 1
    return round((time.process_time() - start) / runs * 1000, 3)


def _one_text(model: Path, problems: Sequence[str]) -> str:
    text = "; ".join(dict.fromkeys(problems))
    return text if str(model) in text else f"model {str(model)!r}: {text}"
