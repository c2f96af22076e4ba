"""What a chain of three models costs (vehicle, plate, text), and what remembering tracks saves without other answers.

    python -m benchmarks.chain [--rounds 7] [--write]

`configs/plates.yaml` runs on four streams: `gate.mp4` from its start and from 5 s on, `street.mp4` and `dusk.mp4`, in
which no plate can be read. It runs as it is, and with `reinfer_interval: 0s`, so that the second and third model look
at every object of every frame. The answer of a track is the text that its plate has on the last frame on which it has
one. What pre-processing costs a crop is measured on the boxes of the vehicles of that run, on one thread.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
from ruamel.yaml import YAML

from benchmarks.pipelines.document import machine
from sightline import Pipeline
from sightline.media import Batch, PixelFormat, Surface
from sightline.media.convert import surface_from_rgb
from sightline.runtime.stats.report import Report
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.definition import Preprocessing
from sightline_plugins.preprocess.placement import Region

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "benchmarks" / "chain.md"
CONFIG = ROOT / "configs" / "plates.yaml"
CLIPS = ROOT / "sample_videos"
VEHICLES = ("car", "van", "truck", "bus")
SECONDARY = ("plates", "read-1")
INPUTS = (
    ("64x64, colour", Preprocessing((64, 64), fit="stretch")),
    ("64x64, colour, letterbox", Preprocessing((64, 64))),
    ("128x128, colour", Preprocessing((128, 128), fit="stretch")),
    ("128x32, grey", Preprocessing((128, 32), fit="stretch", color="gray")),
)
TITLE = """# A chain of three models

{date}, {machine}; `python -m benchmarks.chain --write`. `configs/plates.yaml` (vehicle, plate, text) on four
streams: `gate.mp4` from its start and from 5 s on, `street.mp4` and `dusk.mp4`, where no plate is large enough to be
read. It runs as it is, and with `reinfer_interval: 0s`, where the second and the third model run on every object of
every frame. A track's answer is the text that its plate has on the last frame on which it has one.

{looks}

Answers: {answers}. CPU per frame, all threads: {plain_ms:.1f} ms without reuse, {cached_ms:.1f} ms with reuse.

CPU milliseconds of pre-processing per crop (placement, gathering from the planes, resizing, colours): boxes
of {boxes} vehicles, one thread, medians of {rounds} rounds.

{costs}
"""
FORMATS = (PixelFormat.I420, PixelFormat.NV12)
SIZES = ((960, 540), (1920, 1080))


@dataclass(slots=True)
class Seen:
    """What the chain said: the text of each track of each stream, and where vehicles were in the clip `gate`."""

    texts: dict[tuple[str, int], str] = field(default_factory=dict)
    boxes: list[Region] = field(default_factory=list)

    def look(self, batch: Batch) -> None:
        """Note what a batch holds; a probe."""
        for frame in batch:
            for thing in frame.objects:
                vehicle, text = thing.parent, thing.attributes.get("text")
                if vehicle is not None and text and vehicle.track_id is not None:
                    self.texts[frame.stream.name, vehicle.track_id] = text
                if frame.stream.name == "gate" and thing.label in VEHICLES and thing.xyxy[2] - thing.xyxy[0] >= 128:
                    self.boxes.append(thing.xyxy)


def run(*, reinfer_interval: str | None = None) -> tuple[Report, Seen]:
    """Run the chain on the four streams; `reinfer_interval` instead of the value in the file."""
    pipeline = Pipeline(
        sources={
            "gate": str(CLIPS / "gate.mp4"),
            "later": {"uri": str(CLIPS / "gate.mp4"), "start": "5s"},
            "street": str(CLIPS / "street.mp4"),
            "dusk": str(CLIPS / "dusk.mp4"),
        },
        steps=steps(reinfer_interval),
    )
    seen = Seen()
    pipeline.probe("read-1", seen.look)
    return pipeline.run(), seen


def steps(reinfer_interval: str | None) -> list[Any]:
    """The steps of the configuration, without those that draw and write."""
    found = []
    for step in YAML(typ="safe").load(CONFIG)["pipeline"]:
        name, options = (step, {}) if isinstance(step, str) else next(iter(step.items()))
        if name in ("detect", "track", "read"):
            changes = {"reinfer_interval": reinfer_interval} if reinfer_interval is not None and "on" in options else {}
            paths = {"model": str((CONFIG.parent / options["model"]).resolve())} if "model" in options else {}
            found.append({name: {**options, **paths, **changes}})
    return found


def costs(boxes: Sequence[Region], *, rounds: int) -> list[list[str]]:
    """Milliseconds of CPU a crop: rows of input, and one column for each format and size of the image."""
    surfaces = [surface(size, pixel_format) for size in SIZES for pixel_format in FORMATS]
    return [[name, *(f"{cost(one, definition, boxes, rounds):.3f}" for one in surfaces)] for name, definition in INPUTS]


def surface(size_wh: tuple[int, int], pixel_format: PixelFormat) -> Surface:
    """A frame of the clip at a size and in a format."""
    with av.open(str(CLIPS / "gate.mp4")) as container:
        frame = next(islice(container.decode(video=0), 100, None)).to_ndarray(format="rgb24")
    return surface_from_rgb(np.asarray(cv2.resize(frame, size_wh), np.uint8), pixel_format=pixel_format)


def cost(image: Surface, definition: Preprocessing, boxes: Sequence[Region], rounds: int) -> float:
    """The median over rounds, all boxes in each: placing, gathering, resizing, colours."""
    preprocessor = HostPreprocessor(definition)
    figures = []
    for _ in range(rounds):
        began = time.thread_time()
        for box in boxes:
            preprocessor.recycle(preprocessor.prepare(image, definition.place(box)))
        figures.append((time.thread_time() - began) * 1000 / len(boxes))
    return statistics.median(figures)


def looks(cached: Report, plain: Report) -> list[list[str]]:
    """Rows of a step: its runs without and with memory, what was saved, and crops per frame."""
    counts = [(step, plain.totals[step]["runs"], cached.totals[step]["runs"]) for step in SECONDARY]
    counts.append(("both", sum(every for _, every, _ in counts), sum(few for _, _, few in counts)))
    return [
        [
            step,
            f"{every}",
            f"{few}",
            f"{1 - few / every:.1%}",
            f"{every / plain.frames:.2f}",
            f"{few / cached.frames:.2f}",
        ]
        for step, every, few in counts
    ]


def compared(cached: Seen, plain: Seen) -> str:
    """How the texts of tracks with and without memory differ."""
    keys = sorted(cached.texts.keys() | plain.texts.keys())
    unlike = [key for key in keys if cached.texts.get(key) != plain.texts.get(key)]
    said = f"{len(keys) - len(unlike)} of {len(keys)} tracks with a text have the same one with and without reuse"
    shown = "; ".join(f"{key}: {plain.texts.get(key)} -> {cached.texts.get(key)}" for key in unlike)
    return f"{said} ({shown})" if shown else said


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(rounds: int) -> str:
    """Measure everything; the page."""
    cached, seen = run()
    plain, all_seen = run(reinfer_interval="0s")
    boxes = seen.boxes[:: max(len(seen.boxes) // 500, 1)]
    sizes = [f"{width}x{height} {one.value}" for width, height in SIZES for one in FORMATS]
    steps_header = [
        "step",
        "runs with `reinfer_interval: 0s`",
        "runs",
        "saved",
        "crops per frame with `0s`",
        "crops per frame",
    ]
    return TITLE.format(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=machine(),
        looks=table(steps_header, looks(cached, plain)),
        answers=compared(seen, all_seen),
        plain_ms=1000 * plain.cpu_seconds / plain.frames,
        cached_ms=1000 * cached.cpu_seconds / cached.frames,
        boxes=len(boxes),
        rounds=rounds,
        costs=table(["input", *sizes], costs(boxes, rounds=rounds)),
    )


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description="The chain of three models: looks, answers, costs.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    asked = parser.parse_args()
    cv2.setNumThreads(1)
    text = page(asked.rounds)
    print(text)
    if asked.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
