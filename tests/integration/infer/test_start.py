"""Starts of whole processes: one compiles, whoever else starts with it or after it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.infer.tiny import write_detector

CONFIG = """
sources: {{cam: {{pattern: bars, size: [64, 48], frames: 3}}}}
pipeline: [{{detect: {{model: m.onnx, labels: [yellow, pink], engine: {engine}}}}}]
"""


def start(folder: Path, name: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "SIGHTLINE_CACHE": str(folder / "cache")}
    command = [sys.executable, "-m", "sightline.cli.main", "run", "-q", "street.yaml", "--report", f"{name}.json"]
    return subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)


def origin(folder: Path, name: str, process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (0, "")
    return str(json.loads((folder / f"{name}.json").read_text())["totals"]["detect-1"]["model"])


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_of_processes_that_start_at_once_exactly_one_compiles(engine: str, tmp_path: Path) -> None:
    write_detector(tmp_path / "m.onnx")
    (tmp_path / "street.yaml").write_text(CONFIG.format(engine=engine))

    together = {name: start(tmp_path, name) for name in ("a", "b", "c")}

    assert sorted(origin(tmp_path, *item) for item in together.items()) == ["cached", "cached", "compiled"]
    assert origin(tmp_path, "later", start(tmp_path, "later")) == "cached"
