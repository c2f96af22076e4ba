"""A run whose output is not whole does not end with 0, and says what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from sightline import Pipeline
from sightline.cli.run import _code_of_outputs
from sightline.graph import Element, Message, MessageKind, Operator, Sink, Site
from sightline.media import Batch


def run(folder: Path, steps: str) -> subprocess.CompletedProcess[str]:
    (folder / "run.yaml").write_text(f"sources: {{cam: {{pattern: bars, frames: 50}}}}\npipeline: {steps}\n")
    command = [sys.executable, "-m", "sightline.cli.main", "run", "run.yaml", "--report", "report.json"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def test_a_step_that_may_be_skipped_and_lost_output_ends_with_3(tmp_path: Path) -> None:
    done = run(tmp_path, "[{jsonl: {path: /dev/full, on_error: skip}}, {csv: whole.csv}]")

    assert done.returncode == 3, done.stderr
    assert "not written completely\n  jsonl-1: " in done.stderr
    lost = json.loads((tmp_path / "report.json").read_text())["lost_outputs"]
    assert list(lost) == ["jsonl-1"]
    assert "No space left" in lost["jsonl-1"] or "the disk is full" in lost["jsonl-1"]


def test_a_run_with_whole_outputs_ends_with_0(tmp_path: Path) -> None:
    done = run(tmp_path, "[{jsonl: {path: a.jsonl, on_error: skip}}]")

    assert (done.returncode, "not written" in done.stderr) == (0, False)
    assert json.loads((tmp_path / "report.json").read_text())["lost_outputs"] == {}


class Losing(Element):
    """Goes on although it cannot write, as `record` does on a full disk."""

    name: ClassVar[str] = "losing"
    sink: ClassVar[bool] = True

    def build(self, site: Site) -> Operator:
        return _Losing(site)


class _Losing(Sink):
    def __init__(self, site: Site) -> None:
        self._site = site

    def consume(self, batch: Batch) -> None:
        text = f"the disk is full at frame {batch.frames[0].index}"
        self._site.post(Message(MessageKind.SINK_DEGRADED, text, element=self._site.element_id))


@pytest.mark.parametrize(("policies", "code"), [(["stop"], 1), (["skip"], 3), (["skip", "stop"], 1), ([], 0)])
def test_lost_output_is_a_failure_unless_it_may_be_skipped(policies: list[str], code: int) -> None:
    steps = [Losing.model_validate({"on_error": policy}) for policy in policies]
    pipeline = Pipeline(sources={"cam": {"pattern": "bars", "frames": 3}}, steps=steps)
    report = pipeline.run()

    assert _code_of_outputs(report, pipeline) == code
    assert len(report.lost_outputs) == len(policies)
    assert all(text == "the disk is full at frame 0" for text in report.lost_outputs.values())
