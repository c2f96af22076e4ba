"""The chain of three models, all of this project's own making: each vehicle at the gate gets the text of its plate."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from sightline import Pipeline
from sightline.media.boxes import iou_matrix
from sightline.runtime.stats.report import Report
from sightline.testing import assert_accounted
from tests.conftest import REPOSITORY

CLIPS = REPOSITORY / "sample_videos"
CONFIG = REPOSITORY / "configs" / "plates.yaml"
READABLE_FRAMES = 12
"""Plates that are readable for less than this are not asked for."""

Lines = list[dict[str, Any]]


def chain(**changes: Any) -> list[Any]:
    """The steps of the configuration that find and read; `changes` go to those that look at objects."""
    steps: list[Any] = []
    for step in YAML(typ="safe").load(CONFIG)["pipeline"]:
        name, options = (step, {}) if isinstance(step, str) else next(iter(step.items()))
        if name in ("detect", "track", "read"):
            options = {**options, **(changes if "on" in options else {})}
            if "model" in options:
                options["model"] = str((CONFIG.parent / options["model"]).resolve())
            steps.append({name: options})
    return steps


def run(folder: Path, *, clips: Sequence[str] = ("gate",), size: int = 8, frames: int | None = None) -> Report:
    sources = {clip: str(CLIPS / f"{clip}.mp4") for clip in clips}
    steps = [*chain(), {"jsonl": {"path": "{stream}.jsonl"}}]
    report = Pipeline(sources=sources, steps=steps, batch={"size": size}, outputs=folder).run(frames=frames)
    assert_accounted(report)
    return report


def read_lines(path: Path) -> Lines:
    return [json.loads(line) for line in path.read_text().splitlines()]


def true_texts() -> Mapping[int, str]:
    """The text of each vehicle whose plate can be read for a while."""
    plates = json.loads((CLIPS / "gate.plates.json").read_text())["plates"]
    return {plate["id"]: plate["text"] for plate in plates if plate["readable_frames"] >= READABLE_FRAMES}


def read_texts(lines: Lines) -> dict[int, str]:
    """The last text of each vehicle of the truth, by where it is."""
    truth = np.loadtxt(CLIPS / "gate.mot.txt", delimiter=",")
    texts: dict[int, str] = {}
    for line in lines:
        rows = truth[truth[:, 0] == line["frame"] + 1]
        there = np.concatenate([rows[:, 2:4], rows[:, 2:4] + rows[:, 4:6]], axis=1).astype(np.float32)
        objects = line.get("objects", [])
        for thing in objects:
            if thing["label"] == "plate" and "text" in thing.get("attributes", {}):
                box = np.array([objects[thing["parent"]]["box"]], np.float32)
                overlap = iou_matrix(box, there)[0]
                if overlap.max() >= 0.5:
                    texts[int(rows[overlap.argmax(), 1])] = thing["attributes"]["text"]
    return texts


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Lines]:
    """What the chain says of the whole clip."""
    folder = tmp_path_factory.mktemp("gate")
    report = run(folder)
    return report, read_lines(folder / "gate.jsonl")


def test_each_vehicle_with_a_readable_plate_gets_its_text(gate: tuple[Report, Lines]) -> None:
    found, expected = read_texts(gate[1]), true_texts()

    assert len(expected) >= 9
    assert {track: found.get(track) for track in expected} == expected


def test_plates_lie_on_vehicles(gate: tuple[Report, Lines]) -> None:
    for line in gate[1]:
        objects = line.get("objects", [])
        for plate in (thing for thing in objects if thing["label"] == "plate"):
            left, top, right, bottom = plate["box"]
            around = objects[plate["parent"]]["box"]
            assert around[0] - 5 <= left < right <= around[2] + 5
            assert around[1] - 5 <= top < bottom <= around[3] + 5


def test_most_looks_are_saved(gate: tuple[Report, Lines]) -> None:
    totals = gate[0].totals
    runs = sum(totals[step]["runs"] for step in ("plates", "read-1"))
    saved = sum(totals[step]["saved"] for step in ("plates", "read-1"))

    assert saved / (runs + saved) >= 0.85


@pytest.mark.parametrize("size", [1, 5])
def test_answers_do_not_depend_on_batches_or_on_other_streams(
    gate: tuple[Report, Lines], tmp_path: Path, size: int
) -> None:
    run(tmp_path, clips=("gate", "dusk"), size=size, frames=120)

    assert read_lines(tmp_path / "gate.jsonl") == gate[1][:120]
