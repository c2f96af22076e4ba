"""Write an element with pycuda: a `SourceModule` kernel that works on frames in GPU memory.

    python examples/pycuda_kernel.py

The program opens pycuda's context first, as pycuda programs do, and Sightline works in it. It needs an NVIDIA GPU,
pycuda, and nvcc in PATH (`SourceModule` calls it); a test runs it on a null driver, with the kernel compiled by g++.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pycuda.autoinit
import pycuda.driver
from pycuda.compiler import SourceModule

from sightline import Batch, Element, Operator, Pipeline, Surface
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import blocks_for
from sightline.devices.cuda.pycuda import Pycuda
from sightline.errors import DeviceUnavailable
from sightline.graph import RunsOn, Site

BRIGHTEN = """
extern "C" __global__ void brighten(unsigned char *luma, long long pitch_bytes, int width, int height, int by) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) luma[y * pitch_bytes + x] = min(luma[y * pitch_bytes + x] + by, 255);
}
"""


class Brighten(Element):
    """Brighten frames, on a GPU."""

    name: ClassVar[str] = "brighten"
    changes_images: ClassVar[bool] = True
    by: int = 40

    def build(self, site: Site) -> Operator:
        """Build the operator with its kernel."""
        if site.gpu is None:
            raise DeviceUnavailable("brighten works on a GPU only: use device: cuda:0")
        return Brightener(site.gpu, self.by)


class Brightener(Operator):
    """Process batches: queue one launch per frame and wait for nothing."""

    def __init__(self, gpu: CudaDevice, by: int) -> None:
        self.gpu, self.by, self.pycuda = gpu, by, Pycuda(gpu)
        with self.pycuda:
            self.module = SourceModule(BRIGHTEN, no_extern_c=True)
            self.brighten = self.module.get_function("brighten")
            self.launches = pycuda.driver.Stream()
        self.stream = gpu.stream_of(self.launches.handle)  # the same stream, as Sightline calls it

    def runs_on(self) -> RunsOn:
        """Report that it runs on the GPU."""
        return RunsOn(str(self.gpu))

    def process(self, batch: Batch) -> Batch:
        """Brighten all frames."""
        with self.pycuda:
            return batch.with_surfaces([self.brightened(frame.surface) for frame in batch.frames])

    def brightened(self, surface: Surface) -> Surface:
        """Return a brightened surface; it is a copy if others hold the original."""
        copy = surface.to_device(self.gpu, stream=self.stream).writable(stream=self.stream)
        luma = copy.arrays_on(self.stream)[0]
        width, height = copy.size_wh
        grid = blocks_for(width, block=32), blocks_for(height, block=8)
        arguments = luma, np.int64(luma.pitch_bytes), np.int32(width), np.int32(height), np.int32(self.by)
        self.brighten(*arguments, grid=grid, block=(32, 8, 1), stream=self.launches)
        return copy.written(self.stream.record())

    def close(self) -> None:
        """Drop what is pycuda's, in its context; a second call is harmless."""
        with self.pycuda:
            for name in ("brighten", "module", "launches"):
                vars(self).pop(name, None)


def main() -> None:
    """Brighten a test pattern and print its brightness."""
    source = {"pattern": "gradient", "size": [320, 180], "frames": 3}
    for frame in Pipeline(sources={"test": source}, steps=[Brighten(by=40)], device="cuda:0"):
        print(frame.index, frame.surface.memory, f"{frame.surface.to_host().planes[0].mean():.1f}")


if __name__ == "__main__":
    main()
