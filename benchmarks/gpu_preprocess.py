"""Pre-processing on a GPU against what its memory allows.

    python -m benchmarks.gpu_preprocess [--launches 50] [--device 0]

The bound of a launch is the time in which the GPU copies as many bytes as it has to read and write: of the images the
sectors of 32 bytes that bilinear samples lie in (averages read all of a region), of the network's input everything. How
fast the GPU copies is measured first. Launches are timed by the GPU's own clock, one behind the other, with more
images than its cache holds. Python's share is what making and queuing the launch of a batch takes of a thread.

Before that, the input is compared with the CPU's.
"""

from __future__ import annotations

import argparse
import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.gpus import describe, measured_gpu
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import KernelSource
from sightline.devices.cuda.streams import CudaStream
from sightline.media import PixelFormat, Surface
from sightline.media.device_array import DeviceArray
from sightline_plugins.cuda.records import SurfaceView
from sightline_plugins.preprocess.cpu import HostPreprocessor
from sightline_plugins.preprocess.cuda import SOURCE, Jobs, TensorForm, pack, preprocess
from sightline_plugins.preprocess.definition import Part, Preprocessing

GOAL = 0.6
_SECTOR_BYTES = 32
_CACHE_BYTES = 1 << 28
_COPY_BYTES = 1 << 30
_SPIN_CLOCKS = 100_000_000
_SPIN = """
extern "C" __global__ void spin(long long clocks) {
    const long long start = clock64();
    while (clock64() - start < clocks) {
    }
}
"""
HALF, LEVELS = TensorForm("nchw", np.dtype(np.float16)), TensorForm("nhwc", np.dtype(np.uint8))
HD, UHD = (1920, 1080), (3840, 2160)


@dataclass(frozen=True, slots=True)
class Case:
    """A batch: how many images of which size, and what is made of each: all of it, or so many crops."""

    name: str
    images: int
    size_wh: tuple[int, int]
    definition: Preprocessing
    form: TensorForm
    crops: int = 0


CASES = (
    Case("32 x 1080p to 640x640, float16", 32, HD, Preprocessing((640, 640)), HALF),
    Case("32 x 1080p to 640x640, levels", 32, HD, Preprocessing((640, 640)), LEVELS),
    Case("1 x 1080p to 640x640, float16", 1, HD, Preprocessing((640, 640)), HALF),
    Case("8 x 2160p to 640x640, float16", 8, UHD, Preprocessing((640, 640)), HALF),
    Case("32 x 1080p to 640x640, converted first", 32, HD, Preprocessing((640, 640), convert="image"), HALF),
    Case("32 x 1080p to 352x352, averaged", 32, HD, Preprocessing((352, 352), fit="stretch", resize="area"), HALF),
    Case("256 crops of 32 x 1080p to 128x256, float16", 32, HD, Preprocessing((128, 256), fit="stretch"), HALF, 8),
)


def noise(size_wh: tuple[int, int], *, seed: int) -> Surface:
    """An image of noise in host memory."""
    random = np.random.default_rng(seed)
    shapes = PixelFormat.NV12.plane_shapes(size_wh)
    return Surface(PixelFormat.NV12, size_wh, tuple(random.integers(16, 236, shape, np.uint8) for shape in shapes))


def parts_of(case: Case, surfaces: Sequence[Surface]) -> list[Part]:
    """What is made of these images."""
    definition = case.definition
    if not case.crops:
        return [(surface, definition.place_fractions((0.0, 0.0, 1.0, 1.0), surface)) for surface in surfaces]
    random = np.random.default_rng(0)
    width, height = case.size_wh
    parts = []
    for surface in surfaces:
        for _ in range(case.crops):
            wide, high = random.uniform(60, 200), random.uniform(120, 400)
            left, top = random.uniform(0, width - wide), random.uniform(0, height - high)
            parts.append((surface, definition.place((left, top, left + wide, top + high))))
    return parts


def needed_bytes(case: Case, parts: Sequence[Part]) -> int:
    """What a launch has to read and to write."""
    read = sum(
        _read_bytes(part, bits=bits, averages=case.definition.resize == "area") for part in parts for bits in (0, 1)
    )
    width, height = parts[0][1].size_wh
    return read + len(parts) * width * height * case.definition.channels * case.form.dtype.itemsize


def _read_bytes(part: Part, *, bits: int, averages: bool) -> int:
    """The sectors of one plane: luma (`bits` 0), or the pairs of chroma."""
    (left, top, right, bottom), (_, _, columns, rows) = part[1].region_xyxy, part[1].inner_xywh
    width, height = (side >> bits for side in part[0].size_wh)
    across = _samples(left / (1 << bits), right / (1 << bits), columns, size=width, averages=averages)
    down = _samples(top / (1 << bits), bottom / (1 << bits), rows, size=height, averages=averages)
    return len(np.unique(across * (1 + bits) // _SECTOR_BYTES)) * len(down) * _SECTOR_BYTES


def _samples(first: float, last: float, count: int, *, size: int, averages: bool) -> npt.NDArray[np.int64]:
    if averages:
        return np.arange(max(int(first), 0), min(int(np.ceil(last)), size))
    places = np.floor(first + (np.arange(count) + 0.5) * (last - first) / count - 0.5).astype(np.int64)
    return np.unique(np.clip(np.concatenate([places, places + 1]), 0, size - 1))


class Bench:
    """One GPU, its clock, and how fast it copies."""

    def __init__(self, gpu: CudaDevice) -> None:
        self.gpu = gpu
        self.stream = gpu.stream("benchmark")
        self._kernels = gpu.kernels(SOURCE)

    def copied_bytes_per_second(self) -> float:
        """How many bytes it reads and writes in a second when it copies."""
        source, target = (self.gpu.empty((_COPY_BYTES,), np.uint8, stream=self.stream) for _ in range(2))
        self.gpu.fill(source, 1, stream=self.stream)
        seconds = self.seconds(lambda _: self.gpu.copy([source], [target], stream=self.stream), count=20)
        return 2 * _COPY_BYTES / seconds

    def seconds(self, queue: Callable[[int], object], *, count: int) -> float:
        """How long the GPU takes for each of so many pieces of work, by its own clock."""
        cuda: Any = importlib.import_module("cuda.bindings.driver")
        with self.gpu.guard("measuring"):
            begun, ended = (_checked(cuda.cuEventCreate(0)) for _ in range(2))
        queue(0)
        spin = self.gpu.kernels(KernelSource("spin.cu", _SPIN, {}))["spin"]
        spin(_SPIN_CLOCKS, grid=1, block=1, stream=self.stream)  # so that the work waits in a queue when it begins
        _record(self.gpu, cuda, begun, self.stream)
        for number in range(count):
            queue(number)
        _record(self.gpu, cuda, ended, self.stream)
        self.stream.synchronize()
        with self.gpu.guard("measuring"):
            milliseconds: float = _checked(cuda.cuEventElapsedTime(begun, ended))
        return milliseconds / 1000 / count

    def launch(self, case: Case, parts: Sequence[Part], *, form: TensorForm | None = None) -> tuple[DeviceArray, Any]:
        """The input that is made of parts in its memory, and a function that makes it again."""
        own = form or case.form
        definition = case.definition if own.dtype.kind == "f" else replace(case.definition, mean=(0.0,), scale=(1.0,))
        views = [(SurfaceView.of(surface, surface.arrays_on(self.stream)), place) for surface, place in parts]
        jobs = pack(views, definition)
        [content] = self.gpu.upload([jobs.content], stream=self.stream)
        shape = own.shape(len(parts), channels=definition.channels, size_wh=parts[0][1].size_wh)
        out = self.gpu.empty(shape, own.dtype, stream=self.stream)

        def again(_: int = 0, *, jobs: Jobs = jobs) -> None:
            preprocess(
                self._kernels, jobs, content=content, out=out, definition=definition, form=own, stream=self.stream
            )

        again()
        return out.written(self.stream.record()), again


def _checked(result: tuple[Any, ...]) -> Any:
    if int(result[0]) != 0:
        raise SystemExit(f"the GPU's clock cannot be read: {result[0]}")
    return result[1] if len(result) > 1 else None


def _record(gpu: CudaDevice, cuda: Any, event: Any, stream: CudaStream) -> None:
    with gpu.guard("measuring"):
        _checked(cuda.cuEventRecord(event, stream.handle))


def largest_difference(bench: Bench, case: Case) -> int:
    """By how many levels the input of two images is beside the CPU's, at most."""
    on_host = [noise(case.size_wh, seed=seed) for seed in range(2)]
    there = [surface.to_device(bench.gpu) for surface in on_host]
    made = bench.launch(case, parts_of(case, there), form=LEVELS)[0].to_host()
    expected = np.concatenate(
        [one.image for one in HostPreprocessor(case.definition).prepare_all(parts_of(case, on_host))]
    )
    return int(np.abs(made.astype(int) - expected).max())


def measure(bench: Bench, case: Case, *, launches: int, bytes_per_second: float) -> str:
    """The case's row."""
    surfaces = [noise(case.size_wh, seed=seed).to_device(bench.gpu) for seed in range(min(case.images, 8))]
    sets = max(1, -(-_CACHE_BYTES // (case.images * case.size_wh[0] * case.size_wh[1])))
    work, python_seconds = [], []
    for _ in range(sets):
        own = [surfaces[number % len(surfaces)].writable(stream=bench.stream) for number in range(case.images)]
        begun = time.thread_time()
        work.append((bench.launch(case, parts_of(case, own)), own))
        python_seconds.append(time.thread_time() - begun)
    needed = needed_bytes(case, parts_of(case, surfaces[:1] * case.images))
    seconds = bench.seconds(lambda number: work[number % sets][0][1](), count=launches)
    bound = needed / bytes_per_second
    met = "yes" if bound / seconds >= GOAL else "no"
    return (
        f"| {case.name} | {needed / 1e6:.1f} | {bound * 1e6:.1f} | {seconds * 1e6:.1f} | {bound / seconds:.2f} | {met} "
        f"| {largest_difference(bench, case)} | {1e6 * float(np.median(python_seconds)):.0f} |"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--launches", type=int, default=50)
    parser.add_argument("--device", type=int, default=0, help="the number N of cuda:N")
    given = parser.parse_args(arguments)
    with measured_gpu(given.device) as gpu:
        bench = Bench(gpu)
        rate = bench.copied_bytes_per_second()
        print(describe(gpu))
        print(f"\nCopies within the GPU: {rate / 1e9:.0f} GB/s, read and written together\n")
        print(f"| batch | MB | bound, µs | took, µs | ratio | >= {GOAL} | levels beside the CPU | Python, µs a batch |")
        print("|---|---|---|---|---|---|---|---|")
        for case in CASES:
            print(measure(bench, case, launches=given.launches, bytes_per_second=rate), flush=True)


if __name__ == "__main__":
    main()
