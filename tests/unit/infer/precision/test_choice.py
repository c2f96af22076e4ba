"""What is computed: the file as it is unless asked otherwise, and with `auto` the fastest that is good enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sightline.errors import ConfigurationError, CudaFailed, GpuOutOfMemory, ModelError
from sightline_plugins import Detect
from sightline_plugins.infer.precision import Candidate, Chosen, Verdict, choose_model, precision_problem
from tests.unit.infer.precision.quantized_pair import write_pair
from tests.unit.infer.precision.verdicts import GivenVerdicts, agreeing


@dataclass
class Told:
    """Speeds as the test says them, in seconds by precision."""

    times: dict[str, float] = field(default_factory=lambda: {"fp32": 1.0, "fp16": 0.4, "int8": 0.5})
    supports_half: bool = False
    no_bfloat16: str | None = "no instructions"
    obstacle: str | None = None
    place: str = "an engine"
    computes: Mapping[str, Any] = field(default_factory=dict)
    asked: int = 0

    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        self.asked += 1
        return [self.times[one.precision] for one in candidates]


class Broken(Told):
    """An engine that cannot compute one of them."""

    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        raise ModelError("no kernel")


def chosen(
    model: Path | str, precision: str, speeds: Told | None = None, *, judge: GivenVerdicts | None = None
) -> Chosen:
    return choose_model(step(model, precision), speeds=speeds or Told(), judge=judge or GivenVerdicts())


def step(model: Path | str, precision: str) -> Detect:
    options: dict[str, Any] = {"model": model, "precision": precision}
    return Detect(**options)


def test_the_file_runs_as_it_is_by_default(tmp_path: Path) -> None:
    model, speeds = write_pair(tmp_path), Told()

    taken = choose_model(Detect(model=model), speeds=speeds, judge=agreeing())

    assert (taken.model, taken.precision, taken.report(), speeds.asked) == (model, "fp32", {}, 0)


def test_int8_takes_the_quantised_file_and_measures_nothing(tmp_path: Path) -> None:
    model, speeds = write_pair(tmp_path), Told()

    taken = chosen(model, "int8", speeds)

    assert (taken.model, taken.precision, speeds.asked) == (tmp_path / "small.int8.onnx", "int8", 0)
    assert taken.report()["precision_reason"] == "asked for; int8 lost 0.25 points of AP"


def test_int8_without_a_quantised_file_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"precision int8: .*is missing.*sightline quantize"):
        chosen(tmp_path / "small.onnx", "int8")


def test_int8_on_a_processor_that_may_overflow_is_reported(tmp_path: Path) -> None:
    taken = chosen(write_pair(tmp_path), "int8", Told(obstacle="no VNNI"))

    assert "no VNNI, so results may be worse" in taken.reason


def test_fp16_is_fp32_where_16_bits_are_not_computed(tmp_path: Path) -> None:
    model = write_pair(tmp_path)

    taken = chosen(model, "fp16")

    assert (taken.model, taken.precision) == (model, "fp32")
    assert "computes fp16 as fp32" in taken.reason


def test_fp16_stays_where_16_bits_are_computed(tmp_path: Path) -> None:
    assert chosen(write_pair(tmp_path), "fp16", Told(supports_half=True)).precision == "fp16"


def test_bf16_is_taken_where_it_is_computed_natively(tmp_path: Path) -> None:
    model, speeds = write_pair(tmp_path), Told(no_bfloat16=None)

    taken = chosen(model, "bf16", speeds)

    assert (taken.model, taken.precision, taken.reason, speeds.asked) == (model, "bf16", "asked for", 0)


def test_bf16_is_fp32_with_the_reason_where_it_is_not_computed(tmp_path: Path) -> None:
    model = write_pair(tmp_path)

    taken = chosen(model, "bf16")

    assert (taken.model, taken.precision, taken.reason) == (model, "fp32", "no instructions")


def test_auto_takes_the_faster_file_and_reports_how_much_faster_it_is(tmp_path: Path) -> None:
    taken = chosen(write_pair(tmp_path), "auto")

    assert (taken.model, taken.precision) == (tmp_path / "small.int8.onnx", "int8")
    assert taken.reason == "int8 is 2.00 times as fast as fp32 with an engine; int8 lost 0.25 points of AP"


def test_auto_keeps_fp32_where_int8_gains_nothing_and_reports_it(tmp_path: Path) -> None:
    model = write_pair(tmp_path)

    taken = chosen(model, "auto", Told({"fp32": 1.0, "int8": 0.98}))

    assert (taken.model, taken.precision) == (model, "fp32")
    assert taken.reason == "int8 is 1.02 times as fast with an engine: not worth it"


def test_auto_does_not_try_a_file_that_lost_more_than_its_budget(tmp_path: Path) -> None:
    speeds = Told()

    taken = chosen(write_pair(tmp_path, lost_points=3.5), "auto", speeds)

    assert (taken.precision, speeds.asked) == ("fp32", 0)
    assert "lost 3.50 points of AP, more than its budget of 1" in taken.reason


def test_auto_does_not_trust_a_processor_that_may_overflow(tmp_path: Path) -> None:
    speeds = Told(obstacle="no VNNI")

    taken = chosen(write_pair(tmp_path), "auto", speeds)

    assert (taken.precision, taken.reason, speeds.asked) == ("fp32", "no VNNI", 0)


def test_auto_without_a_quantised_file_keeps_fp32_and_reports_how_to_make_one(tmp_path: Path) -> None:
    taken = chosen(tmp_path / "small.onnx", "auto")

    assert taken.precision == "fp32"
    assert "sightline quantize" in taken.reason


def test_auto_keeps_fp32_where_the_engine_cannot_run_the_other(tmp_path: Path) -> None:
    taken = chosen(write_pair(tmp_path), "auto", Broken())

    assert (taken.precision, taken.reason) == ("fp32", "int8 could not be compared: no kernel")


class Failing(Told):
    """A GPU on which an engine fails."""

    def __init__(self, error: Exception) -> None:
        super().__init__(supports_half=True, obstacle="no")
        self.error = error

    def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
        raise self.error


def test_a_gpu_without_memory_to_compare_keeps_fp32(tmp_path: Path) -> None:
    taken = chosen(write_pair(tmp_path), "auto", Failing(GpuOutOfMemory("cuda:0: out of memory")))

    assert (taken.precision, taken.reason) == ("fp32", "fp16 could not be compared: cuda:0: out of memory; no")


def test_a_gpu_that_fails_ends_the_choice(tmp_path: Path) -> None:
    with pytest.raises(CudaFailed, match="an illegal address"):
        chosen(write_pair(tmp_path), "auto", Failing(CudaFailed("cuda:0: an illegal address")))


def test_auto_takes_16_bits_where_they_are_the_fastest(tmp_path: Path) -> None:
    model = write_pair(tmp_path)

    taken = chosen(model, "auto", Told(supports_half=True), judge=agreeing(0.991))

    assert (taken.model, taken.precision) == (model, "fp16")
    assert taken.reason == (
        "fp16 is 2.50 times as fast as fp32 with an engine; 99.1% of its results agree with those of fp32"
    )


@pytest.mark.parametrize("share", [0.979, 0.5])
def test_auto_does_not_take_fp16_whose_results_differ(tmp_path: Path, share: float) -> None:
    taken = chosen(write_pair(tmp_path), "auto", Told(supports_half=True), judge=agreeing(share))

    assert taken.precision == "int8"


def test_auto_takes_the_other_where_one_cannot_run(tmp_path: Path) -> None:
    class WithoutHalf(Told):
        def seconds(self, candidates: Sequence[Candidate]) -> Sequence[float]:
            if candidates[1].precision == "fp16":
                raise ModelError("FP16 cannot hold its constant")
            return super().seconds(candidates)

    taken = chosen(write_pair(tmp_path), "auto", WithoutHalf(supports_half=True))

    assert taken.precision == "int8"


def test_auto_reports_every_reason_against_the_others(tmp_path: Path) -> None:
    model = write_pair(tmp_path, lost_points=3.5)
    speeds = Told({"fp32": 1.0, "fp16": 0.99}, supports_half=True)

    taken = chosen(model, "auto", speeds)

    assert taken.precision == "fp32"
    assert taken.reason == (
        f"fp16 is 1.01 times as fast with an engine: not worth it; {tmp_path / 'small.int8.onnx'}: "
        "int8 lost 3.50 points of AP, more than its budget of 1"
    )


def test_what_cannot_be_judged_is_not_measured(tmp_path: Path) -> None:
    model, speeds = write_pair(tmp_path), Told(supports_half=True)
    (tmp_path / "small.int8.onnx").unlink()

    taken = chosen(model, "auto", speeds, judge=GivenVerdicts(obstacles={"fp16": "no frames"}))

    assert (taken.precision, speeds.asked) == ("fp32", 0)
    assert taken.reason.startswith("fp16 was not judged: no frames; ")


def test_a_gpu_reports_why_it_computes_fp32_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SIGHTLINE_PRECISION")
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    speeds, judge = Told(supports_half=True, obstacle="no"), GivenVerdicts(obstacles={"fp16": "no frames"})

    taken = choose_model(Detect(model=write_pair(tmp_path)), speeds=speeds, judge=judge)

    assert taken.report() == {"precision": "fp32", "precision_reason": "fp16 was not judged: no frames; no"}


@pytest.mark.parametrize("precision", ["auto", "bf16", "fp16", "int8"])
def test_a_served_model_has_no_precision_of_ours(precision: str) -> None:
    wrong = precision_problem(step("grpc://127.0.0.1:8001/street", precision))

    assert wrong is not None
    assert "leave precision out" in wrong


def test_the_check_tells_of_a_missing_quantised_file(tmp_path: Path) -> None:
    wrong = precision_problem(step(tmp_path / "small.onnx", "int8"))

    assert wrong is not None
    assert "sightline quantize" in wrong


@pytest.mark.parametrize("precision", ["auto", "bf16", "fp16", "fp32", "int8"])
def test_the_check_has_nothing_against_a_pair_that_fits(precision: str, tmp_path: Path) -> None:
    assert precision_problem(step(write_pair(tmp_path), precision)) is None


WITH_BFLOAT16 = Told({"fp32": 1.0, "bf16": 0.5, "int8": 0.8}, no_bfloat16=None)


def test_auto_takes_bf16_where_it_is_fastest_and_its_results_agree(tmp_path: Path) -> None:
    model = write_pair(tmp_path)

    taken = chosen(model, "auto", WITH_BFLOAT16, judge=agreeing(0.997))

    assert (taken.model, taken.precision) == (model, "bf16")
    assert taken.reason == (
        "bf16 is 2.00 times as fast as fp32 with an engine; 99.7% of its results agree with those of fp32"
    )


def test_auto_takes_the_next_best_where_the_results_of_bf16_differ(tmp_path: Path) -> None:
    taken = chosen(write_pair(tmp_path), "auto", WITH_BFLOAT16, judge=agreeing(0.93))

    assert taken.precision == "int8"


def test_auto_keeps_fp32_and_reports_what_bf16_would_gain_and_lose(tmp_path: Path) -> None:
    model = write_pair(tmp_path)
    (tmp_path / "small.int8.onnx").unlink()

    taken = chosen(model, "auto", WITH_BFLOAT16, judge=agreeing(0.93))

    assert taken.precision == "fp32"
    assert "bf16 is 2.00 times as fast" in taken.reason
    assert "but 93.0% of its results agree with those of fp32, and 98% have to" in taken.reason


def test_auto_keeps_fp32_where_bf16_could_not_be_judged(tmp_path: Path) -> None:
    model = write_pair(tmp_path)
    (tmp_path / "small.int8.onnx").unlink()

    taken = chosen(model, "auto", WITH_BFLOAT16, judge=GivenVerdicts({"bf16": Verdict(None, "no frames")}))

    assert (taken.precision, taken.model) == ("fp32", model)
    assert "but was not judged: no frames" in taken.reason


def test_bf16_that_gains_nothing_is_not_judged(tmp_path: Path) -> None:
    model = write_pair(tmp_path)
    (tmp_path / "small.int8.onnx").unlink()

    taken = chosen(model, "auto", Told({"fp32": 1.0, "bf16": 0.99}, no_bfloat16=None))

    assert taken.precision == "fp32"
    assert "bf16 is 1.01 times as fast with an engine: not worth it" in taken.reason
