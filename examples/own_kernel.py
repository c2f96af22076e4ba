"""Write an element that is a CUDA kernel: own_kernel.cu, compiled when the pipeline is built.

    python examples/own_kernel.py

Frames stay in GPU memory. It needs an NVIDIA GPU; a test runs it on a fake one, with the kernel compiled by g++.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from sightline import Batch, Element, Operator, Pipeline, Surface
from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.driver import blocks_for
from sightline.errors import DeviceUnavailable
from sightline.graph import RunsOn, Site


class Dim(Element):
    """Darken frames, on a GPU."""

    name: ClassVar[str] = "dim"
    changes_images: ClassVar[bool] = True
    factor: float = 0.5

    def build(self, site: Site) -> Operator:
        """Build the operator with its kernel."""
        if site.gpu is None:
            raise DeviceUnavailable("dim works on a GPU only: use device: cuda:0")
        return Dimmer(site.gpu, self.factor)


class Dimmer(Operator):
    """Process batches: queue one launch per frame and wait for nothing."""

    def __init__(self, gpu: CudaDevice, factor: float) -> None:
        self.gpu, self.factor, self.stream = gpu, factor, gpu.stream("dim")
        self.dim = gpu.kernels(Path(__file__).with_suffix(".cu"))["dim"]

    def runs_on(self) -> RunsOn:
        """Report that it runs on the GPU."""
        return RunsOn(str(self.gpu))

    def process(self, batch: Batch) -> Batch:
        """Dim all frames."""
        return batch.with_surfaces([self.dimmed(frame.surface) for frame in batch.frames])

    def dimmed(self, surface: Surface) -> Surface:
        """Return a dimmed surface; it is a copy if others hold the original."""
        copy = surface.to_device(self.gpu, stream=self.stream).writable(stream=self.stream)
        luma = copy.arrays_on(self.stream)[0]
        width, height = copy.size_wh
        grid = blocks_for(width, block=32), blocks_for(height, block=8)
        arguments = luma, luma.pitch_bytes, width, height, self.factor
        self.dim(*arguments, grid=grid, block=(32, 8), stream=self.stream)
        return copy.written(self.stream.record())


def main(gpu: CudaDevice | None = None) -> None:
    """Dim a test pattern and print its brightness; on the first GPU, or on one that is open."""
    source = {"pattern": "gradient", "size": [320, 180], "frames": 3}
    device = "auto" if gpu is not None else "cuda:0"
    for frame in Pipeline(sources={"test": source}, steps=[Dim(factor=0.25)], device=device, gpu=gpu):
        print(frame.index, frame.surface.memory, f"{frame.surface.to_host().planes[0].mean():.1f}")


if __name__ == "__main__":
    main()
