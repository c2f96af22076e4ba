"""What is told of a quantised model: on the face, in a JSON file beside it, and inside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sightline_plugins.infer.precision.quantized_file import QuantizedNote
from sightline_plugins.quantize.judging import Judgement
from sightline_plugins.quantize.quantizer import Attempt, Method


@dataclass(frozen=True, slots=True)
class Speed:
    """What an image takes on an engine, both models measured in turns."""

    engine: str
    fp32_ms: float
    int8_ms: float

    @property
    def ratio(self) -> float:
        """How many times as fast the quantised model is."""
        return self.fp32_ms / self.int8_ms


@dataclass(frozen=True, slots=True)
class Tried:
    """What was left in float32, and what that was worth on each engine."""

    attempt: Attempt
    judgements: tuple[Judgement, ...]

    @property
    def worst(self) -> Judgement:
        """The engine on which most was lost."""
        return max(self.judgements, key=lambda judged: judged.lost_points)


@dataclass(frozen=True, slots=True)
class Report:
    """How a model was quantised, what it lost and what it gained.

    `tried` are all attempts in their order, the last of which `kept` is the best. `apart` says that it was judged by
    other images than it was calibrated on.
    """

    model: Path
    output: Path
    source_sha256: str
    method: Method
    clips: tuple[str, ...]
    calibrated_images: int
    judged_images: int
    apart: bool
    budget_points: float
    tried: tuple[Tried, ...]
    kept: Tried
    learned_layers: int
    speeds: tuple[Speed, ...]
    versions: Mapping[str, str]

    @property
    def is_within_budget(self) -> bool:
        """Whether the kept attempt lost no more than it may."""
        return self.kept.worst.lost_points <= self.budget_points

    def note(self) -> QuantizedNote:
        """What the file says of itself."""
        worst = self.kept.worst
        return QuantizedNote(
            source_sha256=self.source_sha256,
            measure=worst.measure,
            lost_points=round(worst.lost_points, 3),
            budget_points=self.budget_points,
        )

    def as_json(self) -> dict[str, Any]:
        """Everything, for programs."""
        return {
            "model": str(self.model),
            "source_sha256": self.source_sha256,
            "output": str(self.output),
            "within_budget": self.is_within_budget,
            "budget_points": self.budget_points,
            "lost_points": self.kept.worst.lost_points,
            "accuracy": [_judged(one) for one in self.kept.judgements],
            "speed": [asdict(one) | {"ratio": one.ratio} for one in self.speeds],
            "left_in_float32": list(self.kept.attempt.left_out),
            "layers": self.learned_layers,
            "tried": [
                {"attempt": one.attempt.title, "lost_points": one.worst.lost_points, "engine": one.worst.engine}
                for one in self.tried
            ],
            "calibration": {
                "clips": list(self.clips),
                "images": self.calibrated_images,
                "method": self.method,
                "judged_images": self.judged_images,
                "judged_by_others": self.apart,
            },
            "versions": dict(self.versions),
        }

    def as_text(self) -> str:
        """Everything that a person wants to know, in a few lines."""
        lines = [f"{self.model} in 8 bits: {self.kept.attempt.title}"]
        lines += [
            f"  accuracy  {one.engine:12} {one.measure}: fp32 {one.fp32_points:.2f}, int8 {one.int8_points:.2f}: "
            f"{_told_loss(one.lost_points)}"
            for one in self.kept.judgements
        ]
        lines += [
            f"  speed     {one.engine:12} fp32 {one.fp32_ms:.2f} ms, int8 {one.int8_ms:.2f} ms an image: "
            f"{one.ratio:.2f} times as fast"
            for one in self.speeds
        ]
        if len(self.tried) > 1:
            lines.append(
                "  tried     "
                + "; ".join(f"{one.attempt.title}: {_told_loss(one.worst.lost_points)}" for one in self.tried)
            )
        left = len(self.kept.attempt.left_out)
        lines.append(f"  layers    {self.learned_layers - left} of {self.learned_layers} in 8 bits")
        same = "others" if self.apart else "the same ones (there were no more)"
        lines.append(
            f"  images  calibrated on {self.calibrated_images} ({self.method}), judged by {self.judged_images}: {same}"
        )
        return "\n".join(lines)


def _judged(one: Judgement) -> dict[str, Any]:
    return asdict(one) | {"lost_points": one.lost_points}


def _told_loss(points: float) -> str:
    return f"{points:.2f} points lost" if points >= 0 else f"{-points:.2f} points gained"
