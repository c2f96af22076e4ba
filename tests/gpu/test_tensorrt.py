"""TensorRT on a real GPU: what it computes, in which precision, captured and after a second start."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import DeviceUnavailable, MissingExtra
from sightline_plugins.engines.protocol import Precision
from sightline_plugins.engines.tensorrt_library import library_for
from sightline_plugins.engines.tensorrt_model import open_tensorrt
from tests.unit.engines.graphs import compute
from tests.unit.engines.tensorrt.conftest import Bench

pytestmark = pytest.mark.gpu
TOLERANCES: dict[Precision, float] = {"fp32": 1e-3, "fp16": 2e-2}
Arrays = list[npt.NDArray[np.float32]]


@pytest.fixture(autouse=True)
def _library(gpu: CudaDevice) -> None:
    """Skip where the library is missing, or does not support this GPU."""
    try:
        library_for(gpu)
    except (MissingExtra, DeviceUnavailable) as error:
        pytest.skip(str(error))


def images(rows: int, *, seed: int = 1) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).random((rows, 3, 64, 64), np.float32)


def expected(path: Path, values: npt.NDArray[np.float32]) -> Arrays:
    return [np.asarray(one) for one in compute(onnx.load(path), images=values)]


def assert_close(found: Arrays, wanted: Arrays, *, tolerance: float) -> None:
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, atol=tolerance * float(np.abs(other).max()))


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("rows", [1, 5, 32])
def test_a_batch_gives_what_the_cpu_gives(gpu: CudaDevice, repository: Path, precision: Precision, rows: int) -> None:
    path, stream = repository / "models" / "vehicle.onnx", gpu.stream("models")
    engine = open_tensorrt(path, gpu=gpu, stream=stream, precision=precision)
    bench = Bench(engine, gpu=gpu, stream=stream, rows=rows)
    execution = engine.bind(bench.inputs, bench.outputs)

    bench.fill([images(rows).astype(engine.inputs[0].dtype)])
    execution.enqueue()

    assert_close(bench.results(), expected(path, images(rows)), tolerance=TOLERANCES[precision])
    engine.close()


def test_a_graph_gives_what_a_plain_run_gives(gpu: CudaDevice, repository: Path) -> None:
    path, stream = repository / "models" / "vehicle.onnx", gpu.stream("models")
    engine = open_tensorrt(path, gpu=gpu, stream=stream)
    bench = Bench(engine, gpu=gpu, stream=stream, rows=4)
    execution = engine.bind(bench.inputs, bench.outputs)
    bench.fill([images(4)])
    for _ in range(2):
        execution.enqueue()
    stream.synchronize()
    if execution.not_capturable is not None:
        pytest.skip(execution.not_capturable)
    graph = gpu.capture(stream, execution.enqueue, name="model", keep=execution)

    bench.fill([images(4, seed=2)])
    graph.launch()

    assert_close(bench.results(), expected(path, images(4, seed=2)), tolerance=TOLERANCES["fp32"])
    del graph
    engine.close()


def test_two_contexts_share_their_scratch_memory_on_one_stream(gpu: CudaDevice, repository: Path) -> None:
    path, stream = repository / "models" / "vehicle.onnx", gpu.stream("models")
    engine = open_tensorrt(path, gpu=gpu, stream=stream)
    benches = [Bench(engine, gpu=gpu, stream=stream, rows=rows) for rows in (8, 3)]
    executions = [engine.bind(bench.inputs, bench.outputs) for bench in benches]
    values = [images(bench.inputs[0].shape[0], seed=7) for bench in benches]

    for bench, execution, image in zip(benches * 5, executions * 5, values * 5, strict=True):
        bench.fill([image])
        execution.enqueue()

    for bench, image in zip(benches, values, strict=True):
        assert_close(bench.results(), expected(path, image), tolerance=TOLERANCES["fp32"])
    engine.close()


def test_the_second_start_compiles_nothing(
    gpu: CudaDevice, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path))
    path, stream = repository / "models" / "vehicle.onnx", gpu.stream("models")

    origins = []
    for _ in range(2):
        engine = open_tensorrt(path, gpu=gpu, stream=stream)
        bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
        engine.bind(bench.inputs, bench.outputs).enqueue()
        origins.append(engine.report["model"])
        engine.close()

    assert origins == ["compiled", "cached"]
