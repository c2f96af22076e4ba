"""The command `sightline` as people call it: a process of its own, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests import command_line

Sightline = Callable[..., subprocess.CompletedProcess[str]]

PIPELINE = """
name: street
sources:
  cam: {pattern: moving, size: [64, 48], frames: 20}
pipeline:
  - jsonl: {path: "out/{stream}.jsonl"}
"""

ENDLESS = """
sources:
  cam: {pattern: noise, size: [64, 48], frames: null, realtime: true}
pipeline:
  - jsonl: {path: out.jsonl}
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sightline.cli.main", *arguments]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "street.yaml").write_text(PIPELINE)
    (tmp_path / "endless.yaml").write_text(ENDLESS)
    return tmp_path


@pytest.fixture
def sightline(folder: Path) -> Sightline:
    def called(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command(*arguments),
            cwd=folder,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return called


@pytest.fixture
def called(folder: Path) -> Sightline:
    """The command in this process, for tests of what it says and writes."""
    return partial(command_line.called, folder=folder)
