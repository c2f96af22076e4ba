"""An element of your own that is a CUDA kernel: own_kernel.cu, compiled when the pipeline is built.

    python examples/own_kernel.py

Images stay in the GPU's memory. On a machine without a GPU, the double that tests use stands for one: the same
kernel, compiled by g++.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import ClassVar

from sightline import Batch, Element, Operator, Pipeline, Surface
from sightline.devices import DeviceKind, resolve_device
from sightline.devices.gpu.gpu import Gpu
from sightline.devices.gpu.launching import blocks_for
from sightline.errors import DeviceUnavailable
from sightline.graph import RunsOn, Site
from sightline.testing.gpu import double_gpu


class Dim(Element):
    """Makes images darker, on a GPU."""

    name: ClassVar[str] = "dim"
    changes_images: ClassVar[bool] = True
    factor: float = 0.5

    def build(self, site: Site) -> Operator:
        """Make the operator, with its kernel."""
        if site.gpu is None:
            raise DeviceUnavailable("dim works on a GPU only: use device: cuda:0")
        return Dimmer(site.gpu, self.factor)


class Dimmer(Operator):
    """Works on batches: queues one launch for each image and waits for nothing."""

    def __init__(self, gpu: Gpu, factor: float) -> None:
        self.gpu, self.factor, self.stream = gpu, factor, gpu.stream("dim")
        self.dim = gpu.kernels(Path(__file__).with_suffix(".cu"))["dim"]

    def runs_on(self) -> RunsOn:
        """What the report says: on the GPU."""
        return RunsOn(str(self.gpu))

    def process(self, batch: Batch) -> Batch:
        """Dim all images."""
        return batch.with_surfaces([self.dimmed(frame.surface) for frame in batch.frames])

    def dimmed(self, surface: Surface) -> Surface:
        """One image, in its own copy where others hold it, too."""
        image = surface.to_device(self.gpu, stream=self.stream).writable(stream=self.stream)
        luma = image.arrays_on(self.stream)[0]
        width, height = image.size_wh
        grid = blocks_for(width, block=32), blocks_for(height, block=8)
        arguments = luma, luma.pitch_bytes, width, height, self.factor
        self.dim(*arguments, grid=grid, block=(32, 8), stream=self.stream)
        return image.written(self.stream.record())


def main() -> None:
    """Dim a test image, and tell how bright it is."""
    source = {"pattern": "gradient", "size": [320, 180], "frames": 3}
    is_there = resolve_device("auto").kind is DeviceKind.CUDA
    with nullcontext(None) if is_there else double_gpu() as gpu:
        for frame in Pipeline(sources={"test": source}, steps=[Dim(factor=0.25)], gpu=gpu):
            print(frame.index, frame.surface.memory, f"{frame.surface.to_host().planes[0].mean():.1f}")


if __name__ == "__main__":
    main()
