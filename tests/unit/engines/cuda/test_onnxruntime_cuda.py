"""ONNX Runtime on a GPU: which options its CUDA provider gets, and that nothing moves to the CPU unseen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import DeviceUnavailable, ModelError
from sightline_plugins.engines import onnxruntime_cuda
from sightline_plugins.engines.batch_sizes import BatchRange
from sightline_plugins.engines.cache import ModelCache
from sightline_plugins.engines.cuda_model import BatchModel, prepare_batches
from sightline_plugins.engines.libraries import About
from sightline_plugins.engines.onnxruntime import (
    ON_CPU,
    ON_CUDA,
    OnnxRuntime,
    Placement,
    cuda_provider,
    new_session,
    placement_of,
    reason_of,
)
from sightline_plugins.engines.onnxruntime_cuda import OnnxRuntimeCuda
from tests.fakes import FakeCudaDriver
from tests.fakes.onnxruntime import FakeOnnxRuntime, fake_onnxruntime
from tests.unit.engines.graphs import small_network

FACTS = {
    "device_id": "0",
    "cudnn_conv_algo_search": "HEURISTIC",
    "use_tf32": "0",
    "arena_extend_strategy": "kSameAsRequested",
}
NO_GPU = (
    "/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_execution_provider_info.cc:63 static "
    "onnxruntime::CUDAExecutionProviderInfo onnxruntime::CUDAExecutionProviderInfo::FromProviderOptions(const "
    "onnxruntime::ProviderOptions&) [ONNXRuntimeError] : 1 : FAIL : provider_options_utils.h:187 Parse Failed to parse "
    'provider option "device_id": CUDA failure 100: no CUDA-capable device is detected ; GPU=-1 ; hostname=here ; '
    "file=/onnxruntime_src/onnxruntime/core/providers/cuda/cuda_execution_provider_info.cc ; line=70 ; "
    "expr=cudaGetDeviceCount(&num_devices);"
)
"""What ONNX Runtime 1.31.1 says where the driver finds no GPU."""


@pytest.fixture
def stream(gpu: CudaDevice) -> CudaStream:
    return gpu.stream("models")


@pytest.fixture
def fake(gpu: CudaDevice, driver: FakeCudaDriver) -> FakeOnnxRuntime:
    return fake_onnxruntime(gpu, driver)


def prepared(model: onnx.ModelProto | None = None) -> BatchModel:
    content = (small_network() if model is None else model).SerializeToString()
    return prepare_batches(
        content, size_wh=(32, 24), precision="fp32", input_range=(0.0, 1.0), cache=ModelCache(None, warn=pytest.fail)
    )


Opened = Callable[..., OnnxRuntimeCuda]


@pytest.fixture
def opened(gpu: CudaDevice, stream: CudaStream) -> Iterator[Opened]:
    """Opens engines, and closes them."""
    engines = []

    def open_engine(**options: Any) -> OnnxRuntimeCuda:
        engines.append(OnnxRuntimeCuda(prepared(), gpu=gpu, stream=stream, **options))
        return engines[-1]

    yield open_engine
    for engine in engines:
        engine.close()


def test_the_provider_searches_by_heuristic_and_computes_on_our_stream(
    fake: FakeOnnxRuntime, opened: Opened, stream: CudaStream
) -> None:
    opened()

    assert fake.providers == [[(ON_CUDA, {**FACTS, "user_compute_stream": str(stream.handle)}), ON_CPU]]


def test_a_limit_of_memory_bounds_the_arena(fake: FakeOnnxRuntime, opened: Opened) -> None:
    opened(memory_limit_bytes=2**30)

    assert fake.providers[0][0][1]["gpu_mem_limit"] == "1073741824"  # type: ignore[index]


def test_the_provider_on_arrays_of_the_host_has_the_same_options() -> None:
    assert cuda_provider(0) == (ON_CUDA, FACTS)
    assert cuda_provider(1) == (ON_CUDA, {**FACTS, "device_id": "1"})


def test_no_more_rows_are_computed_than_the_pipeline_needs(fake: FakeOnnxRuntime, opened: Opened) -> None:
    engine = opened(batches=BatchRange.around(5))

    assert (engine.most_rows, engine.report["batch"]) == (8, "1 to 8")


def test_a_model_that_the_gpu_computes_as_a_whole_reports_no_operators(fake: FakeOnnxRuntime, opened: Opened) -> None:
    report = opened().report

    assert "operators_on_cpu" not in report
    assert (report["engine"], report["library"]) == (
        "onnxruntime, CUDA",
        f"ONNX Runtime {onnxruntime.__version__}",
    )


def test_operators_on_the_cpu_are_counted_by_type(gpu: CudaDevice, driver: FakeCudaDriver, opened: Opened) -> None:
    counts = Counter(node.op_type for node in onnx.load_from_string(prepared().content).graph.node)
    fake_onnxruntime(gpu, driver, on_cpu=frozenset({"Conv"}))

    assert opened().report["operators_on_cpu"] == f"{counts['Conv']} Conv (of {counts.total()})"


def test_a_model_of_which_the_gpu_computes_nothing_is_refused(
    gpu: CudaDevice, driver: FakeCudaDriver, opened: Opened
) -> None:
    types = frozenset(node.op_type for node in onnx.load_from_string(prepared().content).graph.node)
    fake_onnxruntime(gpu, driver, on_cpu=types)

    with pytest.raises(ModelError, match=r"ONNX Runtime computes all of its operators on the CPU: .*Conv"):
        opened()


def session_options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return options


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[onnxruntime.SessionOptions, dict[str, Any]]]:
    """What sessions were asked for; each says that it runs on the first provider."""
    calls = []

    def session(content: bytes, options: onnxruntime.SessionOptions, **given: Any) -> Any:
        del content
        calls.append((options, given))
        return SimpleNamespace(get_providers=lambda: [ON_CUDA, ON_CPU])

    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    return calls


def test_a_session_on_a_gpu_records_who_computes_what_and_has_no_fallback(
    asked: list[tuple[onnxruntime.SessionOptions, dict[str, Any]]],
) -> None:
    providers = [cuda_provider(0), ON_CPU]

    new_session(b"", session_options(), providers, label="m.onnx", device="cuda:0")

    [(options, given)] = asked
    assert given == {"providers": providers, "enable_fallback": 0}
    assert options.get_session_config_entry("session.record_ep_graph_assignment_info") == "1"


def test_a_session_that_moved_to_the_cpu_is_refused_with_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    on_cpu = SimpleNamespace(get_providers=lambda: [ON_CPU])  # as ONNX Runtime 1.31.1 without libcublas
    monkeypatch.setattr(onnxruntime, "InferenceSession", lambda *_, **__: on_cpu)

    with pytest.raises(DeviceUnavailable, match=r"does not start on cuda:0: libraries of CUDA or cuDNN are missing"):
        new_session(b"", session_options(), [cuda_provider(0), ON_CPU], label="m.onnx", device="cuda:0")


def test_a_provider_that_does_not_start_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError(NO_GPU)

    monkeypatch.setattr(onnxruntime, "InferenceSession", fail)

    with pytest.raises(DeviceUnavailable) as raised:
        new_session(b"", session_options(), [cuda_provider(0), ON_CPU], label="m.onnx", device="cuda:0")
    assert str(raised.value) == (
        "ONNX Runtime's CUDAExecutionProvider does not start on cuda:0: "
        "CUDA failure 100: no CUDA-capable device is detected"
    )


def test_a_failure_of_cuda_is_told_without_places_in_sources() -> None:
    assert reason_of(RuntimeError(NO_GPU)) == "CUDA failure 100: no CUDA-capable device is detected"


def test_the_library_itself_says_who_computes_what() -> None:
    """With the CPU's provider, which computes all of it: the calls are those that the CUDA provider answers."""
    options = session_options()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    content = small_network().SerializeToString()

    placement = placement_of(onnxruntime.InferenceSession(content, options, providers=[ON_CPU]))

    assert placement.on_cpu["Conv"] >= 1
    assert placement.total == sum(placement.on_cpu.values())


def test_a_library_that_does_not_say_so_is_reported_as_not_known() -> None:
    placement = placement_of(SimpleNamespace())

    assert placement.report()["operators_on_cpu"].startswith("not known: ONNX Runtime ")


def test_operators_are_listed_in_one_line() -> None:
    assert str(Placement({"TopK": 1, "Resize": 2}, 120)) == "2 Resize, 1 TopK (of 120)"


def test_an_engine_of_single_images_on_a_gpu_reports_operators_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = helper.make_graph(
        [helper.make_node("Abs", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
    )
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    monkeypatch.setattr("sightline_plugins.engines.onnxruntime.providers_for", lambda device: [ON_CPU])
    monkeypatch.setattr("sightline_plugins.engines.onnxruntime.placement_of", lambda session: Placement({"Abs": 1}, 2))
    library = OnnxRuntime(concurrency=1, device="cuda:0")
    about = About("m.onnx", ("x",), ("y",), {"engine": "onnxruntime"})
    engine = library.open(library.compile(content, label="m.onnx"), about=about)

    [found] = engine.submit([np.array([[-1, 2, -3]], np.float32)]).result()
    engine.close()

    assert engine.report == {"engine": "onnxruntime", "operators_on_cpu": "1 Abs (of 2)"}
    assert found.tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("available", "reason"),
    [
        (["CUDAExecutionProvider"], "it is for CUDA 13"),
        (["CPUExecutionProvider"], "ONNX Runtime has no CUDA provider for cuda:0: one overwrites the other"),
    ],
)
def test_packages_that_cannot_compute_on_the_gpu_are_named_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, gpu: CudaDevice, available: list[str], reason: str
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: available)
    monkeypatch.setattr(onnxruntime_cuda, "onnxruntime_too_new", lambda: "it is for CUDA 13")
    monkeypatch.setattr(onnxruntime_cuda, "onnxruntime_clash", lambda: "one overwrites the other")

    assert onnxruntime_cuda.why_not(gpu) == reason
