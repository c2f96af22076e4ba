"""Every engine of the host keeps the contract of engines, and the contract catches one that does not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from examples.extensions.opencv_engine.opencv_engine import OPENCV

from sightline.errors import ConfigurationError
from sightline_plugins.engines import kinds
from sightline_plugins.engines.conformance import EngineConformance
from sightline_plugins.engines.function_library import Function, FunctionLibrary
from sightline_plugins.engines.kinds import ENGINES, ONNXRUNTIME, OPENVINO, EngineKind
from sightline_plugins.engines.protocol import Array


class TestOpenVino(EngineConformance):
    kind = OPENVINO


class TestOnnxRuntime(EngineConformance):
    kind = ONNXRUNTIME


class TestOpenCv(EngineConformance):
    kind = OPENCV


def test_every_registered_engine_of_the_host_is_tested() -> None:
    tested = {one.kind.name for one in EngineConformance.__subclasses__()}

    assert {kind.name for kind in ENGINES.values() if kind.library is not None} <= tested


def broken(compute: Function) -> EngineConformance:
    """The contract for an engine that computes in some wrong way."""
    kind = EngineKind(
        "broken",
        module="cv2",
        install="nothing",
        library=lambda concurrency, device: FunctionLibrary(
            "broken", version="1", load=lambda content: compute, concurrency=concurrency
        ),
    )
    made: EngineConformance = type("Broken", (EngineConformance,), {"kind": kind})()
    return made


def test_wrong_numbers_are_caught() -> None:
    def zeros(inputs: Mapping[str, Array]) -> list[Array]:
        return [np.zeros((1, 4, 10, 12), np.float32)]

    with pytest.raises(AssertionError, match="off by"):
        broken(zeros).test_results_are_right_and_come_in_order()


def test_an_engine_that_changes_its_inputs_is_caught() -> None:
    def clearing(inputs: Mapping[str, Array]) -> list[Array]:
        array = inputs["x"]
        array.setflags(write=True)
        array[:] = 0
        return [np.zeros((1, 4, 10, 12), np.float32)]

    with pytest.raises(AssertionError, match="input was changed"):
        broken(clearing).test_inputs_are_only_read()


def test_results_that_depend_on_other_images_are_caught() -> None:
    calls: list[int] = []

    def counting(inputs: Mapping[str, Array]) -> list[Array]:
        calls.append(1)
        return [np.full((1, 4, 10, 12), len(calls), np.float32)]

    with pytest.raises(AssertionError, match="depends on other images"):
        broken(counting).test_a_result_does_not_depend_on_what_else_is_computed()


def test_an_engine_without_a_library_is_no_engine_for_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "ENGINES", {"remote": EngineKind("remote", module="json", install="nothing")})

    with pytest.raises(ConfigurationError, match="engine remote computes no file on cpu: use auto"):
        kinds.choose("remote")
