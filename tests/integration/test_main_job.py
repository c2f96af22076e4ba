"""The main job on real video: every frame once, exact times, the same bytes however it is batched."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.testing import FrameOrder, assert_accounted

CLIPS = ["street-cars-640x360.mp4", "crowd-faces-800x450.mp4"]


def facts(shared_data: Path) -> dict[str, dict[str, Any]]:
    everything = json.loads((shared_data / "truth" / "video_facts.json").read_text())
    return {name: fact for name, fact in everything.items() if not name.startswith("_")}


def test_every_undamaged_clip_gives_every_frame_once_in_order_with_exact_times(shared_data: Path) -> None:
    wrong = []
    for name, fact in facts(shared_data).items():
        if name.startswith("hostile/"):
            continue
        expected = [round(pts * Fraction(fact["time_base"]) * 1_000_000_000) for pts in fact["pts"]]
        got = [(frame.index, frame.pts_ns) for frame in Pipeline(sources={"clip": shared_data / "videos" / name})]
        if got != list(enumerate(expected)):
            wrong.append(name)

    assert wrong == []


def detect_track_and_write(shared_data: Path, folder: Path, *, clips: list[str], size: int) -> dict[str, bytes]:
    pipeline = Pipeline(
        sources={clip: shared_data / "videos" / clip for clip in clips},
        steps=[
            {
                "detect": {
                    "model": str(shared_data / "models" / "FastestDet.onnx"),
                    "head": "fastestdet",
                    "labels": str(shared_data / "models" / "coco80.names"),
                    "confidence": 0.4,
                }
            },
            "track",
            {"lines": {"middle": {"from": [0.5, 0], "to": [0.5, 1]}}},
            {"jsonl": {"path": "{stream}.jsonl"}},
        ],
        batch={"size": size},
        outputs=folder,
    )
    order = FrameOrder()
    pipeline.probe("jsonl-1", order)
    report = pipeline.run(frames=60)
    assert_accounted(report)
    order.check(report)
    return {clip: (folder / f"{clip}.jsonl").read_bytes() for clip in clips}


@pytest.fixture(scope="module")
def plain_run(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The clips one by one, each frame a batch."""
    folder = tmp_path_factory.mktemp("plain")
    return {clip: detect_track_and_write(shared_data, folder, clips=[clip], size=1)[clip] for clip in CLIPS}


def test_the_plain_run_finds_and_follows_something(plain_run: dict[str, bytes]) -> None:
    for lines in plain_run.values():
        objects = [thing for line in lines.splitlines() for thing in json.loads(line).get("objects", [])]
        assert len(objects) > 60
        assert any("track_id" in thing for thing in objects)


@pytest.mark.parametrize("size", [1, 4, 16])
def test_the_bytes_do_not_depend_on_batch_size_or_the_number_of_streams(
    shared_data: Path, tmp_path: Path, plain_run: dict[str, bytes], size: int
) -> None:
    together = detect_track_and_write(shared_data, tmp_path, clips=CLIPS, size=size)

    assert together == plain_run


def test_two_runs_give_the_same_bytes(shared_data: Path, tmp_path: Path, plain_run: dict[str, bytes]) -> None:
    again = detect_track_and_write(shared_data, tmp_path, clips=CLIPS[:1], size=16)

    assert again[CLIPS[0]] == plain_run[CLIPS[0]]
