"""The kernels of a source as functions of this process, called as on a GPU. They run at once."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Literal, TypeAlias

from sightline.devices.gpu.kernel_arguments import KernelArgument, PackedArguments, pack_arguments
from sightline.devices.gpu.kernel_source import KernelSource
from sightline.devices.gpu.launching import Extent, Extent3, check_launch
from sightline.errors import KernelError
from sightline.testing.gpu.host_build import load_host_build, sanitizing

Order: TypeAlias = Literal["forward", "backward", "shuffled"]
"""In which order the threads of a block run, and the blocks: a kernel that is right does not care."""
ORDERS: tuple[Order, ...] = ("forward", "backward", "shuffled")
_ERROR_BYTES = 1024


class _Launch(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_ulonglong),
        ("order", ctypes.c_int),
    )


class HostKernels:
    """The kernels of a source by name: `HostKernels(path)["name"](arguments..., grid=, block=, shared=)`.

    Addresses are those of this process's memory. Launches of one source run one at a time, whatever threads call.
    """

    def __init__(self, source: KernelSource | Path, *, order: Order = "forward") -> None:
        self._source = KernelSource.read(source) if isinstance(source, Path) else source
        self._library = load_host_build(self._source, sanitize=sanitizing())
        self._order = ORDERS.index(order)

    def __getitem__(self, name: str) -> HostKernel:
        if name not in self._source.kernels:
            known = ", ".join(self._source.kernels) or "none"
            raise KernelError(f"{self._source.name} has no kernel {name!r}; it has {known}")
        return HostKernel(self._library, name, source=self._source, order=self._order)


class HostKernel:
    """One kernel, ready to launch: a `Kernel`."""

    def __init__(self, library: ctypes.CDLL, name: str, *, source: KernelSource, order: int) -> None:
        self._name = name
        self._parameters = source.kernels[name]
        self._order = order
        self._function = library[f"host_launch_{name}"]
        sizes = library[f"host_parameter_bytes_{name}"]
        sizes.restype = ctypes.POINTER(ctypes.c_ulonglong)
        self._parameter_bytes = tuple(sizes()[: len(self._parameters)])

    def __call__(
        self, *arguments: KernelArgument, grid: Extent, block: Extent, shared: int = 0, stream: object = None
    ) -> None:
        """Run it to its end; `stream` has no meaning here. Raises KernelError when its threads get stuck."""
        del stream
        blocks, threads = check_launch(self._name, grid=grid, block=block, shared=shared)
        packed = pack_arguments(self._name, parameters=self._parameters, arguments=arguments)
        self.run(packed, grid=blocks, block=threads, shared=shared)

    def run(self, packed: PackedArguments, *, grid: Extent3, block: Extent3, shared: int) -> None:
        """Run it with arguments that are packed already."""
        if packed.sizes_bytes != self._parameter_bytes:
            raise TypeError(
                f"kernel {self._name}: parameters of {self._parameter_bytes} bytes are given {packed.sizes_bytes}"
            )
        launch = _Launch(grid, block, shared, self._order)
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        arguments = ctypes.c_void_p(packed.address)
        if self._function(arguments, ctypes.byref(launch), error, ctypes.c_ulonglong(_ERROR_BYTES)) != 0:
            raise KernelError(f"kernel {self._name}: {error.value.decode()}")
