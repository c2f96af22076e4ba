"""Which file a step computes, and in which precision, decided once where the step is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sightline.errors import ConfigurationError, ModelError
from sightline_plugins.engines.address import ModelSource
from sightline_plugins.engines.protocol import Precision
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.precision.quantized_file import QuantizedFile, find_quantized

LEAST_GAIN = 1.05
"""How many times as fast something less exact has to be, so that `auto` takes it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that could be computed, and in which precision."""

    precision: Precision
    model: Path


class Speeds(Protocol):
    """What measures candidates on the engine at hand.

    `place` names the engine in a sentence. `supports_half` says whether it computes in 16 bits at all. `obstacle` says
    why it cannot compute in 8 bits as exactly as a file was judged; None where it can.
    """

    @property
    def place(self) -> str: ...
    @property
    def supports_half(self) -> bool: ...
    @property
    def obstacle(self) -> str | None: ...
    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        """The time for an image of each. Raises ModelError when one cannot be computed."""
        ...


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model to open, the precision that it is computed in, and why.

    `reason` is empty where the file is taken as it is because that was asked for.
    """

    model: ModelSource
    precision: Precision
    reason: str = ""

    def report(self) -> Mapping[str, str]:
        """What the run report says of it: nothing where the file is taken as it is."""
        return {"precision": self.precision, "precision_reason": self.reason} if self.reason else {}


def choose_model(element: ModelElement, *, speeds: Speeds) -> Chosen:
    """What a step computes. Raises ConfigurationError where `precision: int8` finds no file that fits.

    Only `auto` measures, and only where there is something to choose from.
    """
    model = element.model
    if element.precision == "fp32" or isinstance(model, str):
        return Chosen(model, "fp32")
    match element.precision:
        case "int8":
            return _quantized(model, speeds)
        case "fp16" if speeds.supports_half:
            return Chosen(model, "fp16", "asked for")
        case "fp16":
            return Chosen(model, "fp32", f"{speeds.place} computes fp16 as fp32: 16 bits are for GPUs")
    return _fastest(model, speeds)


def precision_problem(element: ModelElement) -> str | None:
    """What is wrong with a step's precision; None when nothing is. Reads files, measures nothing."""
    if element.precision == "fp32":
        return None
    if isinstance(element.model, str):
        return "the model is served: its server decides how exactly it computes; leave precision out"
    if element.precision != "int8":
        return None
    try:
        find_quantized(element.model)
    except ModelError as error:
        return str(error)
    return None


def _quantized(model: Path, speeds: Speeds) -> Chosen:
    try:
        found = find_quantized(model)
    except ModelError as error:
        raise ConfigurationError(f"precision int8: {error}") from error
    doubt = "" if speeds.obstacle is None else f"; {speeds.obstacle}, so results may be worse than that"
    return Chosen(found.path, "int8", f"asked for; {_loss(found)}{doubt}")


def _fastest(model: Path, speeds: Speeds) -> Chosen:
    candidates = [Candidate("fp32", model)]
    if speeds.supports_half:
        candidates.append(Candidate("fp16", model))
    reason = ""
    try:
        found = find_quantized(model)
        reason = _against(found, speeds)
        if not reason:
            candidates.append(Candidate("int8", found.path))
    except ModelError as error:
        reason = str(error)
    if len(candidates) == 1:
        return Chosen(model, "fp32", reason)
    try:
        seconds = speeds.seconds(candidates)
    except ModelError as error:
        return Chosen(model, "fp32", f"it could not be compared: {error}")
    gains = [seconds[0] / one for one in seconds]
    best = max(range(len(gains)), key=gains.__getitem__)
    if gains[best] < LEAST_GAIN:
        return Chosen(model, "fp32", "; ".join(filter(None, [_no_gain(candidates, gains, speeds), reason])))
    winner = candidates[best]
    told = f"{winner.precision} is {gains[best]:.2f} times as fast as fp32 with {speeds.place}"
    loss = _loss(found) if winner.precision == "int8" else reason
    return Chosen(winner.model, winner.precision, "; ".join(filter(None, [told, loss])))


def _against(found: QuantizedFile, speeds: Speeds) -> str:
    """Why a quantised file that fits is not even tried; empty when it is."""
    if not found.note.is_within_budget:
        return f"{found.path}: {_loss(found)}, more than its budget of {found.note.budget_points:g}"
    return speeds.obstacle or ""


def _no_gain(candidates: Sequence[Candidate], gains: Sequence[float], speeds: Speeds) -> str:
    told = ", ".join(
        f"{one.precision} is {gain:.2f} times as fast" for one, gain in zip(candidates[1:], gains[1:], strict=True)
    )
    return f"{told} with {speeds.place}: not worth what it loses"


def _loss(found: QuantizedFile) -> str:
    return f"int8 lost {found.note.lost_points:.2f} points of {found.note.measure}"
