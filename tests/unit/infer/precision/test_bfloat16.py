"""bfloat16 is computed by engines alone: what rewriting is compared with stays float32, and reports say what ran."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline import Pipeline
from sightline.devices.processor import processor_flags
from sightline_plugins import Detect
from sightline_plugins.engines.kinds import OPENVINO
from sightline_plugins.engines.opening import open_engine
from sightline_plugins.engines.openvino import OpenVino
from sightline_plugins.infer import precision_speeds
from sightline_plugins.infer.precision_speeds import CpuSpeeds
from tests.unit.engines.graphs import random, small_network

NEEDS_BFLOAT16 = pytest.mark.skipif(
    processor_flags().isdisjoint({"avx512_bf16", "amx_bf16", "bf16"}),
    reason="this processor does not compute bfloat16",
)


def speeds(engine: str) -> CpuSpeeds:
    return CpuSpeeds(engine, form=None, warn=pytest.fail)


def outputs(*, bfloat16: bool) -> list[Any]:
    engine = open_engine(small_network().SerializeToString(), engine="openvino", bfloat16=bfloat16)
    with closing(engine):
        shape = [size or 1 for size in engine.inputs[0].shape]
        return list(engine.submit([random(*shape)]).result())


@pytest.mark.parametrize("flags", [{"avx512_bf16"}, {"amx_bf16"}, {"bf16"}])
def test_processors_that_compute_it_are_known_by_their_flags(flags: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision_speeds, "processor_flags", lambda: frozenset({"sse2", *flags}))

    assert speeds("openvino").no_bfloat16 is None


def test_a_processor_without_it_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision_speeds, "processor_flags", lambda: frozenset({"avx2", "avx512_vnni"}))

    assert "no instructions for bf16" in str(speeds("openvino").no_bfloat16)


def test_an_engine_without_it_is_the_reason() -> None:
    assert speeds("onnxruntime").no_bfloat16 == "onnxruntime on the CPU does not compute bf16"


@NEEDS_BFLOAT16
def test_the_engine_computes_bfloat16() -> None:
    exact, rounded = outputs(bfloat16=False), outputs(bfloat16=True)

    assert any(not np.array_equal(one, other) for one, other in zip(exact, rounded, strict=True))
    for one, other in zip(exact, rounded, strict=True):
        np.testing.assert_allclose(one, other, rtol=0.05, atol=0.05 * float(np.abs(one).max()))


def test_results_that_rewriting_is_compared_with_stay_float32() -> None:
    model = small_network()
    feeds = [{model.graph.input[0].name: random(1, 3, 24, 32)}]

    [exact] = OpenVino(concurrency=1).compute(model, feeds)
    [same] = OpenVino(concurrency=1, bfloat16=True).compute(model, feeds)

    for one, other in zip(exact, same, strict=True):
        assert np.array_equal(one, other)


def test_compiled_models_of_both_precisions_are_kept_apart() -> None:
    make = OPENVINO.bfloat16
    assert make is not None

    assert make(1, "cpu").settings != OpenVino(concurrency=1).settings


@NEEDS_BFLOAT16
def test_a_pipeline_reports_bf16(repository: Path) -> None:
    report = run(repository, engine="openvino")

    assert (report["precision"], report["precision_reason"]) == ("bf16", "asked for")


def test_a_pipeline_reports_why_it_stays_at_fp32(repository: Path) -> None:
    report = run(repository, engine="onnxruntime")

    assert report["precision"] == "fp32"
    assert "onnxruntime on the CPU does not compute bf16" in report["precision_reason"]


def run(repository: Path, *, engine: str) -> dict[str, Any]:
    pipeline = Pipeline(
        sources={"street": repository / "sample_videos" / "street.mp4"},
        steps=[Detect(model=repository / "models" / "street.onnx", precision="bf16", engine=engine)],
    )
    return dict(pipeline.run(frames=2).totals["detect-1"])
