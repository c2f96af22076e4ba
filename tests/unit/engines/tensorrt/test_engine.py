"""A model on a GPU by TensorRT: bound once, queued in order, and every misuse or failure told in one message."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import Harm
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import CudaError, CudaFailed, ModelError
from sightline_plugins.engines.batch_sizes import BatchRange
from sightline_plugins.engines.tensorrt import TensorRtEngine
from sightline_plugins.engines.tensorrt_model import open_tensorrt
from tests.fakes import CudaMisuse, FakeCudaDriver
from tests.fakes.tensorrt import FakeTensorRt, fake_tensorrt
from tests.fakes.tensorrt_names import TensorRtFaults
from tests.unit.engines.graphs import compute, small_network
from tests.unit.engines.tensorrt.conftest import Bench

Floats = npt.NDArray[np.float32]


def images(rows: int, *, seed: int = 3) -> Floats:
    return np.random.default_rng(seed).random((rows, 3, 24, 32), np.float32)


def opened(gpu: CudaDevice, stream: CudaStream, *, most_rows: int = 8) -> TensorRtEngine:
    content = small_network(batch="n").SerializeToString()
    return open_tensorrt(content, gpu=gpu, stream=stream, batches=BatchRange(most_rows, most_rows))


@pytest.fixture
def engine(gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt) -> Iterator[TensorRtEngine]:
    one = opened(gpu, stream)
    yield one
    one.close()


def expected(values: Floats) -> Floats:
    [one] = compute(small_network(batch="n"), x=values)
    result: Floats = one
    return result


def test_inputs_and_outputs_are_those_of_the_file(engine: TensorRtEngine) -> None:
    assert [str(spec) for spec in engine.inputs] == ["x float32 (?, 3, 24, 32)"]
    assert [str(spec) for spec in engine.outputs] == ["y float32 (?, 6, 24, 32)"]
    assert engine.most_rows == 8


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_a_batch_gives_what_the_cpu_gives(
    engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream, rows: int
) -> None:
    bench = Bench(engine, gpu=gpu, stream=stream, rows=rows)
    execution = engine.bind(bench.inputs, bench.outputs)

    bench.fill([images(rows)])
    execution.enqueue()

    np.testing.assert_allclose(bench.results()[0], expected(images(rows)), atol=1e-5)


def test_nothing_is_computed_before_the_stream_comes_to_it(
    engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream, driver: FakeCudaDriver
) -> None:
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    execution = engine.bind(bench.inputs, bench.outputs)
    bench.fill([images(2)])
    before = driver.undone

    execution.enqueue()

    assert driver.undone == before + 1


def test_a_run_is_one_call_of_the_library_and_nobody_waits(
    engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream, driver: FakeCudaDriver, double: FakeTensorRt
) -> None:
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    execution = engine.bind(bench.inputs, bench.outputs)
    execution.enqueue()
    double.calls.clear()

    with driver.journaling(models=stream) as journal:
        execution.enqueue()

    assert double.calls == ["execute"]
    assert [str(call) for call in journal.calls] == ["queue TensorRT-RTX on models"]


def test_sizes_and_addresses_are_set_once_and_before_the_first_run(
    engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt
) -> None:
    double.calls.clear()
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)

    engine.bind(bench.inputs, bench.outputs)

    assert double.calls == [
        "set shape x (2, 3, 24, 32)",
        "set address x",
        "set address y",
        "set scratch",
    ]


def test_a_second_binding_has_a_context_of_its_own(
    engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt
) -> None:
    double.calls.clear()
    for _ in range(2):
        bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
        engine.bind(bench.inputs, bench.outputs)

    assert double.calls.count("create context") == 1


def test_two_sets_of_buffers_are_in_flight_and_do_not_mix(
    engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream
) -> None:
    benches = [Bench(engine, gpu=gpu, stream=stream, rows=2) for _ in range(2)]
    executions = [engine.bind(bench.inputs, bench.outputs) for bench in benches]

    for seed, (bench, execution) in enumerate(zip(benches, executions, strict=True)):
        bench.fill([images(2, seed=seed)])
        execution.enqueue()

    for seed, bench in enumerate(benches):
        np.testing.assert_allclose(bench.results()[0], expected(images(2, seed=seed)), atol=1e-5)


def test_a_graph_holds_a_run_that_ran_before(engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream) -> None:
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    execution = engine.bind(bench.inputs, bench.outputs)
    bench.fill([images(2)])
    execution.enqueue()
    graph = gpu.capture(stream, execution.enqueue, name="model", keep=execution)

    bench.fill([images(2, seed=9)])
    graph.launch()

    assert execution.not_capturable is None
    np.testing.assert_allclose(bench.results()[0], expected(images(2, seed=9)), atol=1e-5)


def test_a_run_for_a_new_size_can_not_be_captured(engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream) -> None:
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    execution = engine.bind(bench.inputs, bench.outputs)

    with pytest.raises(
        CudaError, match=r"did not compute 2 images: Cuda Runtime: .*allocate in a thread that captures"
    ):
        gpu.capture(stream, execution.enqueue, name="model")


def test_what_can_not_be_captured_says_so(gpu: CudaDevice, stream: CudaStream) -> None:
    fake_tensorrt(gpu, faults=TensorRtFaults(is_uncapturable=True))
    engine = opened(gpu, stream)
    bench = Bench(engine, gpu=gpu, stream=stream, rows=1)

    reason = engine.bind(bench.inputs, bench.outputs).not_capturable

    assert reason == "TensorRT-RTX 1.7.1.0 says that its work cannot be captured"
    engine.close()


def test_tensorrt_is_taken_to_be_capturable_as_it_does_not_say(gpu: CudaDevice, stream: CudaStream) -> None:
    fake_tensorrt(gpu, rtx=False, version="10.13.0")
    engine = opened(gpu, stream)
    bench = Bench(engine, gpu=gpu, stream=stream, rows=1)
    execution = engine.bind(bench.inputs, bench.outputs)

    bench.fill([images(1)])
    execution.enqueue()

    assert execution.not_capturable is None
    np.testing.assert_allclose(bench.results()[0], expected(images(1)), atol=1e-5)
    engine.close()


def test_all_contexts_share_one_scratch_memory(
    engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream, driver: FakeCudaDriver
) -> None:
    before = gpu.memory.lent

    for rows in (1, 2, 4, 8):
        bench = Bench(engine, gpu=gpu, stream=stream, rows=rows)
        engine.bind(bench.inputs, bench.outputs)
        del bench

    assert gpu.memory.lent == before


def test_an_execution_keeps_its_memory(engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream) -> None:
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    execution = engine.bind(bench.inputs, bench.outputs)
    bench.fill([images(2)])
    outputs = bench.outputs
    del bench
    others = gpu.stream("others")
    taken = [gpu.fill(gpu.empty((2, 3, 24, 32), np.float32, stream=others), 1, stream=others) for _ in range(3)]

    execution.enqueue()

    result = outputs[0].written(stream.record()).to_host()
    np.testing.assert_allclose(result, expected(images(2)), atol=1e-5)
    del taken


def test_an_execution_that_nobody_holds_still_finishes_what_it_queued(
    engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream
) -> None:
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    bench.fill([images(2)])

    engine.bind(bench.inputs, bench.outputs).enqueue()

    np.testing.assert_allclose(bench.results()[0], expected(images(2)), atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [
        ((2, 3, 24, 31), np.float32, r"x float32 \(\?, 3, 24, 32\) expected, float32 \(2, 3, 24, 31\) given"),
        ((2, 3, 24, 32), np.float16, r"x float32 \(\?, 3, 24, 32\) expected, float16 \(2, 3, 24, 32\) given"),
        ((9, 3, 24, 32), np.float32, "computes 1 to 8 images at once, 9 given"),
    ],
)
def test_other_memory_than_the_model_takes_is_refused(
    engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream, shape: tuple[int, ...], dtype: type, words: str
) -> None:
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)

    with pytest.raises(ModelError, match=words):
        engine.bind([gpu.empty(shape, dtype, stream=stream)], bench.outputs)


def test_memory_at_an_odd_address_is_refused(engine: TensorRtEngine, gpu: CudaDevice, stream: CudaStream) -> None:
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    flat = gpu.empty((2 * 3 * 24 * 32 + 1,), np.float32, stream=stream)
    shifted = type(flat)(flat.base_address + 4, (2, 3, 24, 32), flat.dtype, flat.owner)

    with pytest.raises(ModelError, match="multiple of 256 bytes"):
        engine.bind([shifted], bench.outputs)


def test_a_run_that_the_library_refuses_says_why(gpu: CudaDevice, stream: CudaStream) -> None:
    fake_tensorrt(gpu, faults=TensorRtFaults(fail_at=frozenset({0})))
    engine = opened(gpu, stream)
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    execution = engine.bind(bench.inputs, bench.outputs)

    with pytest.raises(CudaError, match=r"did not compute 2 images: Cuda Runtime: cudaError 719$"):
        execution.enqueue()
    engine.close()


def test_a_gpu_that_broke_is_told_as_such(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt, driver: FakeCudaDriver
) -> None:
    engine = opened(gpu, stream)
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    execution = engine.bind(bench.inputs, bench.outputs)
    driver.fail_next("queue", "an illegal memory access was encountered", harm=Harm.DEVICE)

    with pytest.raises(CudaFailed, match="illegal memory access"):
        execution.enqueue()
    engine.close()


def test_after_close_nothing_may_be_bound_or_queued(gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt) -> None:
    engine = opened(gpu, stream)
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    execution = engine.bind(bench.inputs, bench.outputs)

    engine.close()
    engine.close()

    with pytest.raises(ModelError, match="the engine was closed"):
        execution.enqueue()
    with pytest.raises(ModelError, match="the engine was closed"):
        engine.bind(bench.inputs, bench.outputs)


def test_close_waits_for_what_is_queued(gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt) -> None:
    engine = opened(gpu, stream)
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    bench.fill([images(2)])
    engine.bind(bench.inputs, bench.outputs).enqueue()

    engine.close()

    np.testing.assert_allclose(bench.results()[0], expected(images(2)), atol=1e-5)


def test_closing_gives_all_memory_back(gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt) -> None:
    before = gpu.memory.lent
    engine = opened(gpu, stream)
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    execution = engine.bind(bench.inputs, bench.outputs)
    execution.enqueue()

    engine.close()
    del bench, execution

    assert gpu.memory.lent == before


def test_the_double_sees_contexts_on_two_streams(
    gpu: CudaDevice, stream: CudaStream, double: FakeTensorRt, driver: FakeCudaDriver
) -> None:
    engine = opened(gpu, stream)
    bench = Bench(engine, gpu=gpu, stream=stream, rows=2)
    execution = engine.bind(bench.inputs, bench.outputs)
    execution.enqueue()

    engine._stream = gpu.stream("another")

    with pytest.raises(CudaMisuse, match="scratch memory is used on two streams"):
        execution.enqueue()
    driver.misuses.clear()
    engine._stream = stream
    engine.close()
