"""Engines are measured once for each pair of files; what was measured is kept."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sightline_plugins.engines.protocol import Engine
from sightline_plugins.infer import precision_speeds
from sightline_plugins.infer.precision import Candidate
from sightline_plugins.infer.precision_speeds import CpuSpeeds
from sightline_plugins.preprocess.definition import ImageForm
from tests.unit.infer.precision.quantized_pair import write_pair


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """How many engines each measurement compared; takes the place of measuring."""
    counts = list[int]()

    def count(engines: Sequence[Engine], **options: Any) -> list[float]:
        del options
        counts.append(len(engines))
        return [0.5, 0.25]

    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(precision_speeds, "interleaved_seconds", count)
    return counts


def candidates(model: Path) -> list[Candidate]:
    return [Candidate("fp32", model), Candidate("int8", model.with_suffix(".int8.onnx"))]


def seconds(model: Path) -> Sequence[float]:
    speeds = CpuSpeeds("openvino", form=ImageForm(scale=(1 / 255,)), warn=pytest.fail)
    return speeds.seconds(candidates(model))


def test_what_was_measured_is_not_measured_again(tmp_path: Path, measured: list[int]) -> None:
    model = write_pair(tmp_path)

    assert [list(seconds(model)), list(seconds(model))] == [[0.5, 0.25]] * 2
    assert measured == [2]


def test_another_quantised_file_is_measured_anew(tmp_path: Path, measured: list[int]) -> None:
    model = write_pair(tmp_path)
    seconds(model)

    write_pair(tmp_path, lost_points=0.5)
    seconds(model)

    assert measured == [2, 2]


def test_a_damaged_verdict_is_measured_anew(tmp_path: Path, measured: list[int]) -> None:
    model = write_pair(tmp_path)
    seconds(model)
    [kept] = (tmp_path / "cache" / "precision").iterdir()

    kept.write_text("[1")
    seconds(model)

    assert measured == [2, 2]


def test_nothing_is_kept_where_there_is_no_cache(
    tmp_path: Path, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", "off")
    model = write_pair(tmp_path)

    seconds(model)
    seconds(model)

    assert measured == [2, 2]


def test_engines_are_measured_in_turns(tmp_path: Path) -> None:
    speeds = CpuSpeeds("auto", form=ImageForm(scale=(1 / 255,)), warn=pytest.fail)

    both = speeds.seconds(candidates(write_pair(tmp_path)))

    assert len(both) == 2
    assert all(one > 0 for one in both)
