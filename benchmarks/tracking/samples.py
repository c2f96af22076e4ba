"""The sample clips as this project's own detector (`models/street.onnx`) sees them, with their exact truth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from benchmarks.tracking.sequences import Boxes, Floats, Integers, Sequence

from sightline import Pipeline
from sightline.graph.tracker import Vectors
from sightline.media import Batch
from sightline.media.boxes import xyxy_from_ltwh

ROOT = Path(__file__).resolve().parents[2]
CLIPS = ("street", "entrance", "dusk", "gate")
LEAST_CONFIDENCE, LEAST_VISIBLE = 0.1, 0.1
"""Confidence from which the detector passes boxes on, and share of an object in view from which the truth holds it."""
PERSON = 0


@dataclass(slots=True)
class _Seen:
    """A probe that keeps the detections of a clip; frames count from 1."""

    frame: list[Integers] = field(default_factory=list)
    xyxy: list[Floats] = field(default_factory=list)
    confidence: list[Floats] = field(default_factory=list)
    class_id: list[Integers] = field(default_factory=list)
    vectors: list[Vectors] = field(default_factory=list)

    def __call__(self, batch: Batch) -> None:
        objects = batch.objects
        if not len(objects):
            return
        self.frame.append(np.array([frame.index + 1 for frame in batch.frames], np.int64)[objects.frame])
        self.xyxy.append(objects.xyxy)
        self.confidence.append(objects.confidence)
        self.class_id.append(objects.class_id.astype(np.int64))
        if "embedding" in objects.extra:
            self.vectors.append(objects.extra["embedding"].astype(np.float32))

    def boxes(self) -> Boxes:
        """Return the detections, without identities."""
        frame = np.concatenate(self.frame)
        return Boxes(frame, np.full(len(frame), -1), np.concatenate(self.xyxy), np.concatenate(self.confidence))


def sample_clip(name: str) -> Sequence:
    """Return a clip with all its objects."""
    return _sequence(name, _seen(name).boxes(), people_only=False)


def people_of(name: str, *, model: Path) -> tuple[Sequence, list[Vectors]]:
    """Return a clip with its people only, and their embeddings (N, D) on each frame by a model."""
    seen = _seen(name, {"embed": {"model": str(model), "on": "person"}}, classes=["person"])
    sequence = _sequence(name, boxes := seen.boxes(), people_only=True)
    vectors = np.concatenate(seen.vectors)
    return sequence, [vectors[boxes.frame == frame] for frame in range(1, sequence.frame_count + 1)]


def _seen(name: str, *steps: Mapping[str, object], **options: object) -> _Seen:
    model = str(ROOT / "models" / "street.onnx")
    detect = {"detect": {"model": model, "confidence": LEAST_CONFIDENCE, **options}}
    pipeline = Pipeline(sources={name: str(ROOT / "sample_videos" / f"{name}.mp4")}, steps=[detect, *steps])
    pipeline.probe("embed-1" if steps else "detect-1", seen := _Seen())
    pipeline.run()
    return seen


def _sequence(name: str, detections: Boxes, *, people_only: bool) -> Sequence:
    folder = ROOT / "sample_videos"
    facts = json.loads((folder / f"{name}.truth.json").read_text())
    rows = np.loadtxt(folder / f"{name}.mot.txt", delimiter=",")
    known: npt.NDArray[np.bool_] = rows[:, 8] >= LEAST_VISIBLE
    if people_only:
        known &= rows[:, 7] == PERSON
    rows = rows[known]
    frame, identity = rows[:, :2].astype(np.int64).T
    truth = Boxes(frame, identity, xyxy_from_ltwh(rows[:, 2:6].astype(np.float32)), np.ones(len(rows), np.float32))
    return Sequence(name, facts["fps"], facts["frames"], detections, truth)
