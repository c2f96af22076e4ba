"""What a GPU's models are compared with the CPU's on: all shared ones on all shared clips, and this project's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline_plugins.infer.options import CONFIDENCE
from tests.integration.gpu.test_engines import FIXED
from tests.integration.gpu.test_models import SHARED as ON_CLIPS

CLIPS = (
    "car-detection",
    "one-by-one-person-detection",
    "bottle-detection",
    "street-cars-640x360",
    "crowd-faces-800x450",
)
WORDS = "truth/words/*.png"
EVERY = 20
"""Images of a clip are compared so far apart: two hundred of all clips."""
_IMAGENET: dict[str, Any] = {"mean": [123.675, 116.28, 103.53], "scale": [58.395, 57.12, 57.375]}
SHARED: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (element, {**options, **FIXED.get(name, {})}) for name, (_, element, options) in ON_CLIPS.items()},
    "osnet_x0_25_msmt17": ("embed", {"fit": "stretch", **_IMAGENET}),
    "en_number_mobile_v2.0_rec": (
        "read",
        {"labels": "en_dict.txt", "head_options": {"space": True}, "size": [320, 32]},
    ),
}
"""Models of others: the step, and its options."""
OWN = ("street", "plate", "plate_text", "vehicle")


@dataclass(frozen=True, slots=True)
class Case:
    """Sources by name, the steps without an engine, and the confidence from which objects count."""

    sources: dict[str, str]
    steps: tuple[dict[str, dict[str, Any]], ...]
    least: float = 0.0

    def steps_by(self, engine: str) -> list[dict[str, dict[str, Any]]]:
        """The steps, all models computed by one engine."""
        return [
            {name: {**options, "engine": engine} if "model" in options else options}
            for step in self.steps
            for name, options in step.items()
        ]


def shared_case(data: Path, model: str) -> Case:
    """A shared model on all clips; on images of words when it reads."""
    element, options = SHARED[model]
    models = data / "models"
    given = {**options, **({"labels": str(models / options["labels"])} if "labels" in options else {})}
    step = {element: {"model": str(models / f"{model}.onnx"), "every": EVERY, **given}}
    if element == "read":
        return Case({"words": str(data / WORDS)}, ({"read": {**step["read"], "every": 1}},))
    least = options.get("confidence", CONFIDENCE) if element == "detect" else 0.0
    return Case({clip: str(data / "videos" / f"{clip}.mp4") for clip in CLIPS}, (step,), least)


def own_case(repository: Path, model: str) -> Case:
    """A model of this project: the detector on all samples, the others on what is truly there, or on plates of that."""
    file = str(repository / "models" / f"{model}.onnx")
    samples = repository / "sample_videos"
    if model == "street":
        clips = ("street", "dusk", "entrance", "gate")
        detect = {"detect": {"model": file, "confidence": CONFIDENCE, "every": EVERY // 2}}
        return Case({clip: str(samples / f"{clip}.mp4") for clip in clips}, (detect,), CONFIDENCE)
    clip = "street" if model == "vehicle" else "gate"
    truth = {"replay": {"path": str(samples / f"{clip}.mot.txt"), "label": "car"}}
    return Case({clip: str(samples / f"{clip}.mp4")}, (truth, *_looks(repository, model)), 0.0)


def _looks(repository: Path, model: str) -> Sequence[dict[str, dict[str, Any]]]:
    file = str(repository / "models" / f"{model}.onnx")
    if model == "vehicle":
        return ({"classify": {"model": file, "on": "car", "confidence": 0}},)
    plates = {"detect": {"model": str(repository / "models" / "plate.onnx"), "on": "car"}}
    if model == "plate":
        return (plates,)
    return (plates, {"read": {"model": file, "on": "plate"}})
