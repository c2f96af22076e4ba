"""The device layer on a real GPU: what the double promises, a GPU keeps."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import KernelSource
from sightline.devices.cuda.graphs import Graph
from sightline.devices.cuda.opening import open_cuda
from sightline.devices.cuda.streams import CudaStream
from sightline.errors import CudaError, CudaFailed
from sightline.media import PixelFormat, Surface
from sightline.media.device_array import DeviceArray
from sightline.testing import make_frames
from tests.unit.devices.cuda.programs import ADD, Program

pytestmark = pytest.mark.gpu
SLACK_BYTES = 64 * 2**20
"""Some images more are made when the GPU is behind: how many, is its own affair. All of them would be 2.8 GiB."""
SPIN = """
extern "C" __global__ void spin(long long clocks) {
    const long long start = clock64();
    while (clock64() - start < clocks) {
    }
}
"""


@pytest.mark.parametrize("pixel_format", list(PixelFormat))
@pytest.mark.parametrize("size_wh", [(1920, 1080), (15, 7), (300, 2)])
def test_an_image_survives_the_way_there_and_back(
    gpu: CudaDevice, pixel_format: PixelFormat, size_wh: tuple[int, int]
) -> None:
    (frame,) = make_frames(1, size_wh=size_wh, pixel_format=pixel_format)

    back = frame.surface.to_device(gpu).writable().to_host()

    for one, other in zip(frame.surface.planes, back.planes, strict=True):
        np.testing.assert_array_equal(one, other)


def test_random_programs_compute_what_the_model_computes(gpu: CudaDevice) -> None:
    for seed in range(30):
        rolls = random.Random(seed)
        Program(gpu).run([rolls.randrange(256) for _ in range(300)])


def test_threads_share_the_gpu(gpu: CudaDevice) -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        stream = gpu.stream(str(number))
        for turn in range(200):
            value = (number * 200 + turn) % 251
            array = gpu.fill(gpu.empty((1000,), np.uint8, stream=stream), value, stream=stream)
            gpu.kernels(ADD)["add"](array, 1000, 3, grid=32, block=32, stream=stream)
            if set(array.written(stream.record()).to_host().tolist()) != {value + 3}:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert wrong == []


def test_waiting_for_an_event_leaves_other_threads_alone(gpu: CudaDevice) -> None:
    stream = gpu.stream("spin")
    gpu.kernels(KernelSource("spin.cu", SPIN, {}))["spin"](1_000_000_000, grid=1, block=1, stream=stream)
    ticks = [time.monotonic()]
    over = threading.Event()

    def tick() -> None:
        while not over.is_set():
            ticks.append(time.monotonic())

    ticking = threading.Thread(target=tick)
    ticking.start()
    stream.record().wait()
    over.set()
    ticking.join()

    assert ticks[-1] - ticks[0] > 0.2
    assert max(later - earlier for earlier, later in pairwise(ticks)) < 0.1


def test_waiting_for_an_event_uses_no_processor_time(gpu: CudaDevice) -> None:
    stream = gpu.stream("spin")
    gpu.kernels(KernelSource("spin.cu", SPIN, {}))["spin"](1_000_000_000, grid=1, block=1, stream=stream)
    event = stream.record()
    began, busy = time.monotonic(), time.thread_time()

    event.wait()

    waited, used = time.monotonic() - began, time.thread_time() - busy
    assert waited > 0.2
    assert used < 0.1 * waited


def test_memory_is_flat_over_many_images(gpu: CudaDevice) -> None:
    (frame,) = make_frames(1, size_wh=(1280, 720), pixel_format=PixelFormat.NV12)

    def used() -> int:
        with gpu.guard("asking for its memory") as driver:
            free, total = driver.free_memory_bytes()
        return total - free

    def turn() -> None:
        surface = Surface(PixelFormat.NV12, (1280, 720), frame.surface.planes)
        surface.to_device(gpu).writable().to_host()

    for _ in range(50):
        turn()
    before = used()
    for _ in range(2000):
        turn()

    assert used() - before < SLACK_BYTES


def test_torch_and_cupy_see_the_image_and_keep_it(gpu: CudaDevice) -> None:
    torch = pytest.importorskip("torch")
    cupy = pytest.importorskip("cupy")
    (frame,) = make_frames(1, size_wh=(64, 48), pixel_format=PixelFormat.NV12)
    expected = np.concatenate([frame.surface.planes[0], frame.surface.planes[1].reshape(24, 64)])

    by_torch = torch.from_dlpack(frame.surface.to_device(gpu))
    by_cupy = cupy.from_dlpack(frame.surface.to_device(gpu))
    by_interface = torch.as_tensor(frame.surface.to_device(gpu), device="cuda")
    del frame
    _ = [gpu.fill(gpu.empty((72, 256), np.uint8, stream=gpu.main_stream), 0, stream=gpu.main_stream) for _ in range(8)]

    np.testing.assert_array_equal(by_torch.cpu().numpy(), expected)
    np.testing.assert_array_equal(cupy.asnumpy(by_cupy), expected)
    np.testing.assert_array_equal(by_interface.cpu().numpy(), expected)


def test_a_kernel_that_writes_where_it_must_not_ends_the_gpu_and_not_the_process(gpu: CudaDevice) -> None:
    program = """
import numpy as np
from sightline.devices.cuda.graphs import Graph
from sightline.devices.cuda.driver import KernelSource
from sightline.devices.cuda.opening import open_cuda
from sightline.errors import CudaFailed
gpu = open_cuda(0)
source = KernelSource("wrong.cu", 'extern "C" __global__ void wrong(unsigned char *p) { *p = 1; }', {})
gpu.kernels(source)["wrong"](np.uint64(64), grid=1, block=1)
for _ in range(2):
    try:
        gpu.main_stream.synchronize()
    except CudaFailed as error:
        print(error)
gpu.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in first


def test_an_opened_and_closed_gpu_leaves_nothing(gpu: CudaDevice) -> None:
    for _ in range(20):
        other = open_cuda(0)
        other.fill(other.empty((100,), np.uint8, stream=other.main_stream), 1, stream=other.main_stream).to_host()
        other.close()

        assert other.is_closed


def added(gpu: CudaDevice, array: DeviceArray, amount: int, *, stream: CudaStream) -> Graph:
    """A graph that adds a number to every byte."""
    add = gpu.kernels(ADD)["add"]
    add(array, array.nbytes, 0, grid=32, block=32, stream=stream)
    queue = partial(add, array, array.nbytes, amount, grid=32, block=32, stream=stream)
    return gpu.capture(stream, queue, name=f"add {amount}", keep=array)


def test_graphs_take_turns_on_what_lies_in_their_memory(gpu: CudaDevice) -> None:
    stream = gpu.stream("work")
    array = gpu.fill(gpu.empty((1000,), np.uint8, stream=stream), 1, stream=stream)
    one, ten = added(gpu, array, 1, stream=stream), added(gpu, array, 10, stream=stream)

    for graph in (one, ten, one):
        graph.launch()
    first = array.written(stream.record()).to_host()
    gpu.upload_into([np.full(1000, 100, np.uint8)], [array], stream=stream)
    ten.launch()

    assert set(first.tolist()) == {13}
    assert set(array.written(stream.record()).to_host().tolist()) == {110}


def test_a_graph_copies_its_result_to_pinned_memory(gpu: CudaDevice) -> None:
    stream, pinned = gpu.stream("work"), gpu.pinned.lease(1000)
    array = gpu.fill(gpu.empty((1000,), np.uint8, stream=stream), 1, stream=stream)
    add = gpu.kernels(ADD)["add"]
    add(array, 1000, 0, grid=32, block=32, stream=stream)

    def queue() -> None:
        add(array, 1000, 4, grid=32, block=32, stream=stream)
        gpu.copy_to_pinned(array, pinned, stream=stream)

    graph = gpu.capture(stream, queue, name="add and copy", keep=(array, pinned))
    found = list[set[int]]()
    for _ in range(2):
        graph.launch()
        stream.record().wait()
        found.append(set(pinned.array((1000,)).tolist()))

    assert found == [{5}, {9}]
    assert gpu.transfers.counts.device_to_host_copies == 2


FORBIDDEN: dict[str, Callable[[CudaDevice, CudaStream], object]] = {
    "waiting for the stream": lambda _, stream: stream.synchronize(),
    "waiting for an event": lambda _, stream: stream.record().wait(),
    "asking for an event": lambda _, stream: stream.record().is_done,
    "memory": lambda gpu, stream: gpu.empty((1000,), np.uint8, stream=stream),
    "a download": lambda gpu, stream: gpu.empty((1000,), np.uint8, stream=stream).to_host(),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_after_a_capture_that_was_refused_the_same_work_can_be_queued(gpu: CudaDevice, what: str) -> None:
    stream = gpu.stream("work")
    array = gpu.fill(gpu.empty((1000,), np.uint8, stream=stream), 1, stream=stream)
    add = gpu.kernels(ADD)["add"]
    add(array, 1000, 0, grid=32, block=32, stream=stream)

    def queue() -> None:
        add(array, 1000, 4, grid=32, block=32, stream=stream)
        FORBIDDEN[what](gpu, stream)

    with pytest.raises(CudaError, match="the graph 'refused' cannot be captured") as raised:
        gpu.capture(stream, queue, name="refused")
    add(array, 1000, 2, grid=32, block=32, stream=stream)

    assert not isinstance(raised.value, CudaFailed)
    assert set(array.written(stream.record()).to_host().tolist()) == {3}


def test_other_threads_work_on_while_a_graph_is_captured(gpu: CudaDevice) -> None:
    stream = gpu.stream("work")
    array = gpu.fill(gpu.empty((1000,), np.uint8, stream=stream), 1, stream=stream)
    add, found = gpu.kernels(ADD)["add"], list[int]()
    add(array, 1000, 0, grid=32, block=32, stream=stream)

    def work() -> None:
        beside = gpu.stream("beside")
        for value in range(50):
            filled = gpu.fill(gpu.empty((1000,), np.uint8, stream=beside), value, stream=beside)
            beside.wait(stream.record())
            found.extend(set(filled.to_host().tolist()))

    def queue() -> None:
        add(array, 1000, 4, grid=32, block=32, stream=stream)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    gpu.capture(stream, queue, name="slow", keep=array).launch()

    assert found == list(range(50))
    assert set(array.written(stream.record()).to_host().tolist()) == {5}


def test_graphs_that_are_dropped_while_they_run_leave_nothing(gpu: CudaDevice) -> None:
    stream = gpu.stream("work")
    array = gpu.fill(gpu.empty((1000,), np.uint8, stream=stream), 0, stream=stream)

    for _ in range(100):
        added(gpu, array, 1, stream=stream).launch()

    assert set(array.written(stream.record()).to_host().tolist()) == {100}
    assert gpu.graphs.count <= 2
