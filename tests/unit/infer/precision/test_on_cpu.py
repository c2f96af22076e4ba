"""Engines are measured once for each pair of files; what was measured is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sightline.devices import Device
from sightline.errors import ModelError
from sightline.graph import Site
from sightline_plugins import Detect
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.protocol import Engine
from sightline_plugins.infer import precision_speeds
from sightline_plugins.infer.host_opening import HostOpening
from sightline_plugins.infer.precision import Candidate, choose_model, precision_problem
from sightline_plugins.infer.precision_speeds import CpuSpeeds, measured_once
from sightline_plugins.preprocess.definition import ImageForm
from tests.unit.infer.precision.quantized_pair import write_pair
from tests.unit.infer.precision.verdicts import agreeing
from tests.unit.infer.tiny import LABELS, write_detector


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


@dataclass
class TwiceAsFast:
    """Speeds of a machine on which all other precisions are twice as fast as fp32."""

    computes: Mapping[str, Any] = field(default_factory=dict)
    no_bfloat16: str | None = None
    place: str = "a test"
    supports_half: bool = False
    obstacle: str | None = "no INT8 here"

    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        return [1.0, *[0.5] * (len(candidates) - 1)]


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


@pytest.fixture
def nothing_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a user's machine: a cache, and no precision in the environment."""
    monkeypatch.delenv("SIGHTLINE_PRECISION")
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))


def test_auto_is_what_one_gets_who_says_nothing(tmp_path: Path, nothing_asked: None) -> None:
    element = Detect(model=write_pair(tmp_path))

    assert (element.wanted_precision, element.has_precision) == ("auto", False)
    assert choose_model(element, speeds=TwiceAsFast(), judge=agreeing()).precision == "bf16"


def test_the_environment_goes_before_the_default(
    tmp_path: Path, nothing_asked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_PRECISION", "fp32")
    model = write_pair(tmp_path)

    assert choose_model(Detect(model=model), speeds=TwiceAsFast(), judge=agreeing()).precision == "fp32"
    assert (
        choose_model(Detect(model=model, precision="bf16"), speeds=TwiceAsFast(), judge=agreeing()).precision == "bf16"
    )


def test_a_wrong_precision_in_the_environment_is_told(
    tmp_path: Path, nothing_asked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_PRECISION", "fp23")
    model = write_pair(tmp_path)

    assert precision_problem(Detect(model=model)) == "SIGHTLINE_PRECISION=fp23: must be auto, fp32, bf16, fp16, int8"


def test_nobody_waits_for_what_cannot_be_kept(
    tmp_path: Path, nothing_asked: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", "off")
    model = write_pair(tmp_path)

    assert choose_model(Detect(model=model), speeds=TwiceAsFast(), judge=agreeing()).precision == "fp32"
    assert (
        choose_model(Detect(model=model, precision="auto"), speeds=TwiceAsFast(), judge=agreeing()).precision == "bf16"
    )


def test_a_default_without_a_choice_gives_no_reason(tmp_path: Path, nothing_asked: None) -> None:
    model = write_detector(tmp_path / "m.onnx")

    assert choose_model(Detect(model=model), speeds=TwiceAsFast(no_bfloat16="no"), judge=agreeing()).report() == {}
    asked = choose_model(Detect(model=model, precision="auto"), speeds=TwiceAsFast(no_bfloat16="no"), judge=agreeing())
    assert "m.int8.onnx is missing" in asked.reason


def test_engines_are_measured_in_turns(tmp_path: Path) -> None:
    speeds = CpuSpeeds("auto", form=ImageForm(scale=(1 / 255,)), warn=pytest.fail)

    both = speeds.seconds(candidates(write_pair(tmp_path)))

    assert len(both) == 2
    assert all(one > 0 for one in both)


def test_that_one_cannot_run_is_found_out_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    pair, tries = candidates(write_pair(tmp_path)), list[int]()

    def refuse(given: Sequence[Candidate]) -> Sequence[float]:
        tries.append(len(given))
        raise ModelError("FP16 would undo that")

    reasons = []
    for _ in range(2):
        with pytest.raises(ModelError) as raised:
            measured_once(pair, {"engine": "a test"}, measure=refuse)
        reasons.append(str(raised.value))

    assert reasons == ["FP16 would undo that", "it could not run at an earlier start"]
    assert tries == [2]


def test_a_measurement_that_was_stopped_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    pair = candidates(write_pair(tmp_path))

    def end(given: Sequence[Candidate]) -> Sequence[float]:
        raise ModelError("compiling it was stopped")

    with pytest.raises(ModelError, match="stopped"):
        measured_once(pair, {"engine": "a test"}, measure=end, is_stopped=lambda: True)

    assert list(measured_once(pair, {"engine": "a test"}, measure=lambda _: [2.0, 1.0])) == [2.0, 1.0]


@pytest.mark.parametrize(("precision", "reason"), [("fp16", "one by one"), ("fp32", None)])
def test_a_model_of_single_images_on_a_gpu_reports_why_it_computes_fp32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, reason: str | None
) -> None:
    element = Detect.model_validate(
        {"model": write_detector(tmp_path / "m.onnx"), "head": "fastestdet", "labels": LABELS, "precision": precision}
    )
    plan, problems = element.plan()
    assert plan is not None, problems
    devices = []

    def on_the_cpu(model: Path, *, device: str, **options: Any) -> Engine:
        devices.append(device)
        return open_engine(model, **options)

    monkeypatch.setattr("sightline_plugins.infer.host_opening.open_engine", on_the_cpu)

    predictor = HostOpening(element, plan, Site(device=Device())).predictor(device="cuda:0", place={})
    report = predictor.report
    predictor.close()

    assert devices == ["cuda:0"]
    assert report.get("precision") == (None if reason is None else "fp32")
    assert (reason or "") in report.get("precision_reason", "")
