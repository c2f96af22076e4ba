"""The report of a quantization, and writing its file."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx

from sightline.errors import ConfigurationError, OutputError
from sightline_plugins.commands.quantize.judging import Judgement
from sightline_plugins.commands.quantize.quantizer import Attempt, Method
from sightline_plugins.infer.precision import QuantizedNote, is_quantized


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


def check_output(output: Path, *, model: Path) -> None:
    """Raise ConfigurationError where nothing can be written, before anything is computed."""
    if output.suffix != ".onnx":
        raise ConfigurationError(f"--output {output}: give a name that ends in .onnx")
    if not output.parent.is_dir():
        raise ConfigurationError(f"--output {output}: there is no folder {output.parent}")
    if output.exists() and model.exists() and output.samefile(model):
        raise ConfigurationError(f"--output {output}: is the model itself; the float32 file is needed further on")
    if output.exists() and not is_quantized(output):
        raise ConfigurationError(
            f"--output {output}: is there already, and sightline quantize did not make it: name another file, or "
            "remove it"
        )
    if not os.access(output.parent, os.W_OK):
        raise ConfigurationError(f"--output {output}: no permission to write to {output.parent}; name a file elsewhere")


def write(model: onnx.ModelProto, report: Report) -> None:
    """Write the model, then its report. Raises OutputError."""
    _replace(report.output, model.SerializeToString())
    _replace(report.output.with_suffix(".json"), json.dumps(report.as_json(), indent=2).encode() + b"\n")


def _replace(path: Path, content: bytes) -> None:
    """The file appears whole."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".part", delete=False) as aside:
            part = Path(aside.name)
            try:
                aside.write(content)
                aside.close()
                part.chmod(0o644)
                part.replace(path)
            except OSError:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error
