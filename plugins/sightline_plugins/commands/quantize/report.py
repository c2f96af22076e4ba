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
from sightline.graph.ownership import is_foreign
from sightline_plugins.commands.quantize.judging import Judgement
from sightline_plugins.commands.quantize.options import QuantizeRequest
from sightline_plugins.commands.quantize.quantizer import Attempt
from sightline_plugins.infer.precision import QuantizedNote, is_quantized


@dataclass(frozen=True, slots=True)
class Speed:
    """Milliseconds per image on an engine; both models are measured in turn."""

    engine: str
    fp32_ms: float
    int8_ms: float

    @property
    def ratio(self) -> float:
        """How many times as fast the quantised model is."""
        return self.fp32_ms / self.int8_ms


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt, and its accuracy on each engine."""

    attempt: Attempt
    judgements: tuple[Judgement, ...]

    @property
    def worst(self) -> Judgement:
        """The judgement on the engine that lost most."""
        return max(self.judgements, key=lambda judged: judged.lost_points)


@dataclass(frozen=True, slots=True)
class Report:
    """How a model was quantised, what it lost and what it gained.

    `tried` are all attempts in order, of which `kept` is the best. `apart` means that no image that calibrated the
    model judged it, too.
    """

    request: QuantizeRequest
    source_sha256: str
    calibrated_images: int
    judged_images: int
    apart: bool
    tried: tuple[Tried, ...]
    kept: Tried
    learned_layers: int
    speeds: tuple[Speed, ...]
    versions: Mapping[str, str]

    @property
    def is_within_budget(self) -> bool:
        """Whether the kept attempt lost no more than it may."""
        return self.kept.worst.lost_points <= self.request.budget_points

    def note(self) -> QuantizedNote:
        """Return the note that the quantised file holds."""
        worst = self.kept.worst
        return QuantizedNote(
            source_sha256=self.source_sha256,
            measure=worst.measure,
            lost_points=round(worst.lost_points, 3),
            budget_points=self.request.budget_points,
        )

    def as_json(self) -> dict[str, Any]:
        """Return everything, for programs."""
        request = self.request
        return {
            "model": str(request.model),
            "source_sha256": self.source_sha256,
            "output": str(request.output),
            "within_budget": self.is_within_budget,
            "budget_points": request.budget_points,
            "lost_points": self.kept.worst.lost_points,
            "accuracy": [asdict(one) | {"lost_points": one.lost_points} for one in self.kept.judgements],
            "speed": [asdict(one) | {"ratio": one.ratio} for one in self.speeds],
            "left_in_float32": list(self.kept.attempt.left_out),
            "layers": self.learned_layers,
            "tried": [
                {"attempt": one.attempt.title, "lost_points": one.worst.lost_points, "engine": one.worst.engine}
                for one in self.tried
            ],
            "calibration": {
                "clips": list(request.frames),
                "images": self.calibrated_images,
                "method": request.method,
                "judged_images": self.judged_images,
                "judged_by_others": self.apart,
            },
            "versions": dict(self.versions),
        }

    def as_text(self) -> str:
        """Return the summary for people."""
        lines = [f"{self.request.model} in 8 bits: {self.kept.attempt.title}"]
        lines += [
            f"  accuracy  {one.engine:12} {one.measure}: fp32 {one.fp32_points:.2f}, int8 {one.int8_points:.2f}: "
            f"{_loss_text(one.lost_points)}"
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
                + "; ".join(f"{one.attempt.title}: {_loss_text(one.worst.lost_points)}" for one in self.tried)
            )
        left = len(self.kept.attempt.left_out)
        lines.append(f"  layers    {self.learned_layers - left} of {self.learned_layers} in 8 bits")
        same = "others" if self.apart else "the same ones (there were no more)"
        calibrated = f"calibrated on {self.calibrated_images} ({self.request.method})"
        lines.append(f"  images  {calibrated}, judged by {self.judged_images}: {same}")
        return "\n".join(lines)


def _loss_text(points: float) -> str:
    return f"{points:.2f} points lost" if points >= 0 else f"{-points:.2f} points gained"


def check_output(output: Path, *, model: Path) -> None:
    """Raise ConfigurationError early where the file cannot be written."""
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
    if not output.exists() and is_foreign(beside := output.with_suffix(".json")):
        raise ConfigurationError(f"--output {output}: its report would replace {beside}: name another file, or move it")
    if not os.access(output.parent, os.W_OK):
        raise ConfigurationError(f"--output {output}: no permission to write to {output.parent}; name a file elsewhere")


def write(model: onnx.ModelProto, report: Report) -> None:
    """Write the model, then its report. Raises OutputError."""
    output = report.request.output
    _replace(output, model.SerializeToString())
    _replace(output.with_suffix(".json"), json.dumps(report.as_json(), indent=2).encode() + b"\n")


def _replace(path: Path, content: bytes) -> None:
    """Write a file that is never seen incomplete."""
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
