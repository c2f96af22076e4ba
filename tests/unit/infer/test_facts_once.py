"""The facts of a model file are read once for all steps that use it, and again when the file is another."""

from __future__ import annotations

import os
from pathlib import Path

from sightline_plugins.infer.facts import read_facts
from tests.unit.infer.tiny import write_detector


def test_a_file_is_read_once_for_all_steps(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "m.onnx")
    assert read_facts(model) is read_facts(model)


def test_a_file_that_was_written_anew_is_read_again(tmp_path: Path) -> None:
    model = write_detector(tmp_path / "m.onnx")
    before = read_facts(model)
    os.utime(model, ns=(1, 1))
    assert read_facts(model) is not before
