"""What a model's options come to, each with its origin: for `sightline explain` and `sightline models show`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sightline.graph.chosen import ChosenValue
from sightline_plugins.heads.head import Candidates
from sightline_plugins.infer.card import card_path
from sightline_plugins.infer.detections import detection_rules, minimum_confidence
from sightline_plugins.infer.options import PRECISION_VARIABLE, DetectionElement, ModelElement
from sightline_plugins.infer.plan import ModelPlan

_UNUSED_BY_FIT = {
    "align": ("letterbox",),
    "crop": ("cover",),
    "multiple": ("native",),
    "pad": ("letterbox", "height", "native"),
}
"""Values of the pre-processing that have a meaning with some values of `fit` only."""
_OF_FILE = {"fit": "the input has one size", "color": "the input has one channel", "mean": "the input takes bytes"}
_OF_FILE["scale"] = _OF_FILE["mean"]


def preprocessing_values(plan: ModelPlan) -> Iterator[tuple[str, ChosenValue]]:
    """Yield what the pre-processing comes to, without what has no meaning here; origins are `ValueOrigin`s."""
    wanted, origins = plan.preprocessing, plan.origins
    size = ("as the image", origins["fit"]) if wanted.size_wh is None else (wanted.size_wh, origins["size"])
    yield "size", ChosenValue(*size)
    for name in ("fit", "align", "crop", "multiple", "pad", "resize", "convert", "color", "mean", "scale"):
        fits = _UNUSED_BY_FIT.get(name)
        if fits is None or wanted.fit in fits:
            yield name, ChosenValue(getattr(wanted, name), origins[name])
    if plan.stack is not None:
        for name in ("frames", "stride"):
            yield name, ChosenValue(getattr(plan.stack, name), origins[name])


def box_values(element: DetectionElement, plan: ModelPlan) -> Iterator[tuple[str, ChosenValue]]:
    """Yield what decides which boxes become objects; nothing for a head that finds no boxes. Origins as above."""
    if plan.head is None or plan.head.result_type is not Candidates:
        return
    card, rules = plan.card, detection_rules(element, plan)
    origin = _first(element.confidence, card.confidence, "default")
    yield "confidence", ChosenValue(minimum_confidence(element, plan), origin)
    if card.class_confidence and element.confidence is None and not element.class_confidence:
        yield "class_confidence", ChosenValue(dict(card.class_confidence), "card")
    for name in ("method", "iou", "class_agnostic", "max_detections"):
        own = element.nms.method if name == "method" else getattr(element, name)
        origin = _first(own, getattr(card.nms, name), "head")
        yield name, ChosenValue(getattr(rules.nms, name), origin)


def chosen_values(element: ModelElement, plan: ModelPlan) -> dict[str, ChosenValue]:
    """Return by option what those come to that were not given, as plain data."""
    found: dict[str, ChosenValue] = {}
    head = "" if plan.head is None else plan.head.name
    if plan.head is not None:
        found["head"] = ChosenValue(head, plan.origins["head"])
    if plan.labels:
        found["labels"] = ChosenValue(plan.labels, plan.origins["labels"])
    found |= dict(preprocessing_values(plan))
    if isinstance(element, DetectionElement):
        found |= dict(box_values(element, plan))
        if "method" in found:
            found["nms"] = ChosenValue({"method": found["method"].value}, found.pop("method").origin)
    if element.has_precision and "precision" not in element.model_fields_set:
        found["precision"] = ChosenValue(element.wanted_precision, f"environment {PRECISION_VARIABLE}")
    return {
        name: ChosenValue(
            list(value.value) if isinstance(value.value, tuple) else value.value,
            origin_text(value.origin, name=name, model=element.model, head=head),
        )
        for name, value in found.items()
    }


def origin_text(origin: str, *, name: str, model: Path | str, head: str) -> str:
    """Return the origin of a value (`ValueOrigin`) in words; `name` is that of the option."""
    if origin == "file" and name in _OF_FILE:
        return _OF_FILE[name]
    card = f" {card_path(model).name}" if isinstance(model, Path) else ""
    names = {
        "option": "option",
        "card": f"model card{card}",
        "metadata": "metadata of the file",
        "file": "shape of the input",
        "head": f"head {head}",
        "outputs": "recognised by the outputs",
        "default": "default",
    }
    return names.get(origin, origin)


def _first(own: object, of_card: object, usual: str) -> str:
    return "option" if own is not None else "card" if of_card is not None else usual
