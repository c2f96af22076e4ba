"""Run a step once on an image, as in a pipeline, and draw what it found."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sightline.errors import ConfigurationError
from sightline.graph import Outputs
from sightline.graph.messages import MessageKind
from sightline.pipeline import Pipeline
from sightline_plugins.draw.draw import Draw
from sightline_plugins.encode.images import encode_jpeg
from sightline_plugins.infer.options import ModelElement
from sightline_plugins.infer.plan import ModelPlan
from sightline_plugins.sinks.records import ObjectRecord, frame_records

SUFFIXES = (".jpg", ".jpeg")
_LARGEST_WH = (16_384, 16_384)


@dataclass(frozen=True, slots=True)
class Target:
    """Where the drawn image goes: an opener of files that protects those of others, and the path."""

    outputs: Outputs
    path: Path


@dataclass(frozen=True, slots=True)
class ImageResult:
    """The results of one image. `objects` are records as `jsonl` writes them, `warnings` those of the run."""

    file: str
    size: tuple[int, int]
    output: str
    objects: list[dict[str, Any]]
    warnings: tuple[str, ...]


def check_output(image: Path, model: Path | str, *, output: Path | None, overwrite: bool) -> Target:
    """Return where the drawn image goes. Raises ConfigurationError when nothing may be written there."""
    outputs = Outputs()
    outputs.may_overwrite = overwrite
    outputs.protect(image, "the image that is read")
    if isinstance(model, Path):
        outputs.protect(model, "the model")
    name = model.stem if isinstance(model, Path) else model.rpartition("/")[2]
    path = outputs.root / (output or Path(f"{image.stem}-{name}.jpg"))
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigurationError(f"--output {path}: must end in {' or '.join(SUFFIXES)}")
    obstacle = outputs.obstacle(path)
    if obstacle is not None:
        raise ConfigurationError(f"--output: {obstacle}")
    return Target(outputs, path)


def run_on_image(element: ModelElement, plan: ModelPlan, image: Path, *, target: Target) -> ImageResult:
    """Run the step on an image, or on the first frame of a clip, and write the drawn image.

    Raises ConfigurationError for a model that takes several frames, StreamError for an image that cannot be read, and
    OutputError.
    """
    if plan.stack is not None:
        raise ConfigurationError(
            f"--image: the model takes {plan.stack.frames} frames at once, and an image is one: run it in a pipeline"
        )
    warnings: list[str] = []
    pipeline = Pipeline(sources={"image": {"uri": str(image)}}, steps=[element, Draw()])
    pipeline.on_message(lambda message: warnings.append(message.text) if message.kind is MessageKind.WARNING else None)
    frames = iter(pipeline)
    with closing(frames):  # type: ignore[type-var]
        view = next(frames)
        record = frame_records(view.batch, embeddings=True)[view.row]
        jpeg = encode_jpeg(view.surface, largest_wh=_LARGEST_WH)
    with closing(target.outputs.open_lines(target.path)) as file:
        file.write(jpeg)
    objects = msgspec.to_builtins(_by_confidence(record.objects))
    return ImageResult(str(image), view.size_wh, str(target.path), objects, tuple(dict.fromkeys(warnings)))


def _by_confidence(objects: list[ObjectRecord]) -> list[ObjectRecord]:
    return sorted(objects, key=lambda record: -(record.confidence or 0.0))
