"""The device layer on a real GPU: what the double promises, a GPU keeps."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.kernel_source import KernelSource
from sightline.devices.gpu.opening import open_gpu
from sightline.media import PixelFormat, Surface
from sightline.testing import make_frames
from tests.unit.devices.gpu.programs import ADD, Program

pytestmark = pytest.mark.gpu
SPIN = """
extern "C" __global__ void spin(long long clocks) {
    const long long start = clock64();
    while (clock64() - start < clocks) {
    }
}
"""


@pytest.mark.parametrize("pixel_format", list(PixelFormat))
@pytest.mark.parametrize("size_wh", [(1920, 1080), (15, 7), (300, 2)])
def test_a_picture_survives_the_way_there_and_back(
    gpu: Gpu, pixel_format: PixelFormat, size_wh: tuple[int, int]
) -> None:
    (frame,) = make_frames(1, size_wh=size_wh, pixel_format=pixel_format)

    back = frame.surface.to_device(gpu).writable().to_host()

    for one, other in zip(frame.surface.planes, back.planes, strict=True):
        np.testing.assert_array_equal(one, other)


def test_random_programs_compute_what_the_model_computes(gpu: Gpu) -> None:
    for seed in range(30):
        rolls = random.Random(seed)
        Program(gpu).run([rolls.randrange(256) for _ in range(300)])


def test_threads_share_the_gpu(gpu: Gpu) -> None:
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


def test_waiting_for_an_event_leaves_other_threads_alone(gpu: Gpu) -> None:
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


def test_memory_is_flat_over_many_pictures(gpu: Gpu) -> None:
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

    assert used() - before < 2**20


def test_torch_and_cupy_see_the_picture_and_keep_it(gpu: Gpu) -> None:
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


def test_a_kernel_that_writes_where_it_must_not_ends_the_gpu_and_not_the_process(gpu: Gpu) -> None:
    program = """
import numpy as np
from sightline.devices.gpu.kernel_source import KernelSource
from sightline.devices.gpu.opening import open_gpu
from sightline.errors import GpuFailed
gpu = open_gpu(0)
source = KernelSource("wrong.cu", 'extern "C" __global__ void wrong(unsigned char *p) { *p = 1; }', {})
gpu.kernels(source)["wrong"](np.uint64(64), grid=1, block=1)
for _ in range(2):
    try:
        gpu.main_stream.synchronize()
    except GpuFailed as error:
        print(error)
gpu.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == second
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in first


def test_an_opened_and_closed_gpu_leaves_nothing(gpu: Gpu) -> None:
    for _ in range(20):
        other = open_gpu(0)
        other.fill(other.empty((100,), np.uint8, stream=other.main_stream), 1, stream=other.main_stream).to_host()
        other.close()

        assert other.is_closed
