"""What it costs to save the state of a camera: of `track`, `lines` and `zones` with many objects.

    python -m benchmarks.saving [--objects 200] [--rules 50]

Frames wait while the steps say what they know (`save`); the thread that writes encodes it and replaces the file. Both
happen every two seconds. Standard output gets one line of JSON with medians in milliseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from sightline.devices import Device
from sightline.graph import Element, KeepsState, Outputs, Site
from sightline.media import Batch, Objects, Origin, Stream
from sightline.runtime.state.file import SavedState, StateFile
from sightline.testing import make_frames
from sightline_plugins import Lines, Track, Zones

CAMERA = Stream("gate", live=True)
SIZE_WH = (1920, 1080)
FRAMES, ROUNDS, FPS = 60, 50, 25


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description="What it costs to save state.")
    parser.add_argument("--objects", type=int, default=200)
    parser.add_argument("--rules", type=int, default=50, help="lines, and as many zones")
    given = parser.parse_args()
    operators = [(one.name, one.build(Site(Device(), element_id=one.name))) for one in steps(given.rules)]
    for batch in crowd(given.objects):
        for _, operator in operators:
            result = operator.process(batch)
            assert isinstance(result, Batch)
            batch = result
    keeping = [(name, operator) for name, operator in operators if isinstance(operator, KeepsState)]
    saved = [SavedState(name, name, CAMERA.name, 0, operator.save(CAMERA) or {}) for name, operator in keeping]
    figures = {f"{name}_save_ms": milliseconds(partial(operator.save, CAMERA)) for name, operator in keeping}
    figures["encode_ms"] = milliseconds(lambda: [one.line() for one in saved])
    lines = [one.line() for one in saved]
    with tempfile.TemporaryDirectory() as folder:
        file = StateFile(Path(folder) / "gate.state", pipeline="gate", outputs=Outputs(Path(folder)))
        figures["write_ms"] = milliseconds(lambda: file.write(lines))
    sys.stdout.write(json.dumps({**vars(given), "bytes": sum(map(len, lines)), **figures}) + "\n")


def steps(rules: int) -> list[Element]:
    """The steps that keep state."""
    heights = [0.05 + 0.9 * number / rules for number in range(rules)]
    lines = {f"line{number}": {"from": [0.1, y], "to": [0.9, y]} for number, y in enumerate(heights)}
    zones = {
        f"zone{number}": {"polygon": [[0.1, y], [0.9, y], [0.9, y + 0.05], [0.1, y + 0.05]], "dwell": "10s"}
        for number, y in enumerate(heights)
    }
    return [Track(), Lines.model_validate(lines), Zones.model_validate(zones)]


def crowd(objects: int) -> list[Batch]:
    """Frames of objects that walk about without meeting much."""
    random = np.random.default_rng(1)
    frame = make_frames(1, size_wh=SIZE_WH)[0]
    places = random.uniform((0, 0), (SIZE_WH[0] - 60, SIZE_WH[1] - 90), (objects, 2))
    speeds = random.normal(0, 2, (objects, 2))
    batches = []
    for index in range(FRAMES):
        corner = places + speeds * index
        table = Objects.from_columns(
            frame=np.zeros(objects),
            xyxy=np.concatenate([corner, corner + np.array((60, 90))], axis=1),
            confidence=np.full(objects, 0.9),
            class_id=np.zeros(objects),
            source=Origin("detect", ("person",)),
        )
        own = replace(frame, stream=CAMERA, index=index, pts_ns=index * 1_000_000_000 // FPS)
        batches.append(Batch((own,), table))
    return batches


def milliseconds(work: Callable[[], object]) -> float:
    """How long it takes, the median of several times."""
    took = []
    for _ in range(ROUNDS):
        begun = perf_counter()
        work()
        took.append(perf_counter() - begun)
    return round(median(took) * 1e3, 3)


if __name__ == "__main__":
    main()
