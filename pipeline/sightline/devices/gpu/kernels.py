"""Kernels of `.cu` files on a GPU: compiled once for its architecture and kept, loaded once, launched on streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sightline.devices.gpu.kernel_arguments import KernelArgument, Parameter, pack_arguments
from sightline.devices.gpu.kernel_source import KernelSource
from sightline.devices.gpu.launching import Extent, check_launch
from sightline.devices.gpu.streams import GpuStream
from sightline.errors import KernelError
from sightline.media.device_array import DeviceArray

if TYPE_CHECKING:
    from sightline.devices.gpu.gpu import Gpu


class DeviceKernels:
    """The kernels of one source by name: `gpu.kernels(path)["name"](arguments..., grid=, block=, stream=)`."""

    def __init__(self, gpu: Gpu, source: KernelSource) -> None:
        self._gpu = gpu
        self._source = source
        with gpu.guard(f"loading {source.name}") as driver:
            self._module = driver.load(source)
        self._kernels: dict[str, DeviceKernel] = {}

    def __getitem__(self, name: str) -> DeviceKernel:
        """Raises KernelError for a name that the source does not have."""
        if name not in self._kernels:
            if name not in self._source.kernels:
                known = ", ".join(self._source.kernels) or "none"
                raise KernelError(f"{self._source.name} has no kernel {name!r}; it has {known}")
            with self._gpu.guard(f"loading the kernel {name}") as driver:
                function = driver.function(self._module, name)
            self._kernels[name] = DeviceKernel(self._gpu, function, name, parameters=self._source.kernels[name])
        return self._kernels[name]


class DeviceKernel:
    """One kernel, ready to launch: a `Kernel`. From any thread."""

    def __init__(self, gpu: Gpu, function: int, name: str, *, parameters: tuple[Parameter, ...]) -> None:
        self._gpu = gpu
        self._function = function
        self._name = name
        self._parameters = parameters

    def __call__(
        self, *arguments: KernelArgument, grid: Extent, block: Extent, shared: int = 0, stream: object = None
    ) -> None:
        """Queue it on a stream, `gpu.main_stream` when None.

        The stream waits for the content of arrays among the arguments, and their memory is kept until the kernel is
        done. For arrays whose addresses stand in a table the caller does that (`DeviceArray.on`). What the kernel
        writes has other content from then on: `array.written(stream.record())`.

        Raises TypeError for arguments that do not fit, ValueError for a launch that no GPU takes, SurfaceReleased for
        memory that was given back, GpuError.
        """
        where = self._gpu.main_stream if stream is None else stream
        if not isinstance(where, GpuStream):
            raise TypeError(f"kernel {self._name}: stream is a GpuStream (gpu.stream()), not {where!r}")
        blocks, threads = check_launch(self._name, grid=grid, block=block, shared=shared)
        packed = pack_arguments(self._name, parameters=self._parameters, arguments=arguments)
        arrays = [argument.on(where) for argument in arguments if isinstance(argument, DeviceArray)]
        with self._gpu.guard(f"launching the kernel {self._name}") as driver:
            driver.launch(
                self._function,
                packed,
                grid=blocks,
                block=threads,
                shared_bytes=shared,
                stream=where.handle,
                uses=[array.base_address for array in arrays],
            )
