"""Two runs into the same files: the second one stops, and the files of the first one stay whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import av
import pytest

from sightline import Pipeline
from sightline.errors import OperatorError

FRAMES = 30
STEPS: dict[str, dict[str, Any]] = {
    "jsonl": {"path": "{stream}.jsonl"},
    "csv": {"path": "{stream}.csv"},
    "mot": {"path": "{stream}.txt"},
    "video": {"path": "{stream}.mp4"},
}


def pipeline(folder: Path, step: str, *, frames: int) -> Pipeline:
    source = {"pattern": "counter", "size": [64, 64], "frames": frames}
    return Pipeline(sources={"gate": source}, steps=[{step: STEPS[step]}], outputs=folder)


@pytest.mark.parametrize("step", STEPS)
def test_the_second_run_stops_and_the_first_one_is_whole(tmp_path: Path, step: str) -> None:
    for frame in pipeline(tmp_path, step, frames=FRAMES):
        if frame.index == 10:
            with pytest.raises(OperatorError, match="another run is writing it; end that run, or name another file"):
                pipeline(tmp_path, step, frames=FRAMES // 2).run()

    path = tmp_path / STEPS[step]["path"].format(stream="gate")
    if step == "jsonl":
        assert [json.loads(line)["frame"] for line in path.read_text().splitlines()] == list(range(FRAMES))
    if step == "video":
        with av.open(str(path)) as container:
            assert sum(1 for _ in container.decode(video=0)) == FRAMES
    assert pipeline(tmp_path, step, frames=3).run().frames == 3
