"""What Sightline needs of the CUDA driver, as a protocol, and the arguments and sources of kernels.

A GPU does not check the arguments of a kernel: it would read whatever lies behind a wrong number of them, or behind an
address of the host. They are checked here. NVRTC compiles the sources for a GPU (`nvrtc.py`); a host compiler can
compile the same text.
"""

from __future__ import annotations

import ctypes
import hashlib
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from sightline.errors import KernelError

_SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool,
    "char": ctypes.c_int8,
    "signed char": ctypes.c_int8,
    "unsigned char": ctypes.c_uint8,
    "short": ctypes.c_int16,
    "unsigned short": ctypes.c_uint16,
    "int": ctypes.c_int32,
    "unsigned": ctypes.c_uint32,
    "unsigned int": ctypes.c_uint32,
    "long long": ctypes.c_int64,
    "unsigned long long": ctypes.c_uint64,
    "size_t": ctypes.c_uint64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}
_FLOATS = (ctypes.c_float, ctypes.c_double)
_QUALIFIERS = re.compile(r"\b(const|__restrict__|__grid_constant__)\b")


class Addressed(Protocol):
    """Something in the device's memory, such as a `DeviceArray`."""

    @property
    def address(self) -> int:
        """Where its first byte lies, in the device's memory."""
        ...


KernelArgument: TypeAlias = int | float | np.generic | Addressed | None
"""What a parameter takes.

a pointer            something with an `address`, an address as `np.uint64`, or None for a null pointer
a number             an int, a float or a NumPy scalar that fits into the parameter's type
a struct             a NumPy structured scalar (`np.void`) of the same size, by value
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel: its name, and its C type without qualifiers; a pointer's type ends in `*`."""

    name: str
    type: str

    @classmethod
    def parse(cls, declaration: str) -> Parameter:
        """The parameter that such a C declaration means: `const unsigned char *__restrict__ luma`."""
        plain = " ".join(_QUALIFIERS.sub(" ", declaration.replace("*", " * ")).split())
        type_, _, name = plain.rpartition(" ")
        return cls(name, type_.replace(" *", "*"))

    @property
    def is_pointer(self) -> bool:
        """Whether it takes an address."""
        return self.type.endswith("*")


class PackedArguments:
    """The arguments of one launch; `address` is that of an array of pointers to them. Keep it until the launch returns.

    The pointers lead to copies, and `cuLaunchKernel` copies again, so nothing of it need live until the kernel has run.
    What the addresses among them lead to must.
    """

    __slots__ = ("_pointers", "_values", "sizes_bytes")

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = tuple(values)
        self._pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        self.sizes_bytes = tuple(ctypes.sizeof(value) for value in values)

    @property
    def address(self) -> int:
        """The address of the array of pointers: `kernelParams` of `cuLaunchKernel`."""
        return ctypes.addressof(self._pointers)


def pack_arguments(
    kernel: str, *, parameters: Sequence[Parameter], arguments: Sequence[KernelArgument]
) -> PackedArguments:
    """The arguments for a kernel of these parameters. Raises TypeError for one that does not fit, by its name."""
    if len(arguments) != len(parameters):
        names = ", ".join(parameter.name for parameter in parameters)
        raise TypeError(f"kernel {kernel} takes {len(parameters)} arguments ({names}), not {len(arguments)}")
    values = []
    for parameter, argument in zip(parameters, arguments, strict=True):
        try:
            values.append(_value(parameter, argument))
        except TypeError as error:
            said = f"kernel {kernel}: {parameter.type} {parameter.name} does not take {argument!r}: {error}"
            raise TypeError(said) from None
    return PackedArguments(values)


def _value(parameter: Parameter, argument: KernelArgument) -> Any:
    if parameter.is_pointer:
        return ctypes.c_uint64(_address(argument))
    scalar = _SCALARS.get(parameter.type)
    if scalar is None:
        if not isinstance(argument, np.void):
            raise TypeError("a struct is given as a NumPy structured scalar")
        return (ctypes.c_char * argument.nbytes).from_buffer_copy(argument.tobytes())
    if scalar in _FLOATS:
        if not isinstance(argument, int | float | np.integer | np.floating):
            raise TypeError("a number is needed")
        return scalar(float(argument))
    if not isinstance(argument, int | np.integer | np.bool_):
        raise TypeError("a whole number is needed")
    value = scalar(int(argument))
    if int(value.value) != int(argument):
        raise TypeError("it does not fit")
    return value


def _address(argument: KernelArgument) -> int:
    if argument is None:
        return 0
    if isinstance(argument, np.uint64):
        return int(argument)
    if isinstance(argument, int | float | np.generic | np.ndarray):
        raise TypeError("a pointer is given as something in the device's memory (with an `address`), or as np.uint64")
    try:
        return argument.address
    except AttributeError:
        raise TypeError("it has no `address` in the device's memory") from None


_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_KERNEL = re.compile(
    r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*'
    r"\((?P<parameters>[^)]*)\)\s*\{"
)


@dataclass(frozen=True)
class KernelSource:
    """The text of a `.cu` file, and of the headers that it includes with `#include "name.cuh"`, by name.

    A header lies beside the `.cu` file, or in the folder `cuda` beside the file's folder, which several folders share.

    Kernels are written as `extern "C" __global__ void name(parameters) {`, each by itself: a macro that makes kernels
    hides them. Sources are values: the same text is the same source, wherever it lies.
    """

    name: str
    text: str
    headers: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> KernelSource:
        """The source at that path, with all headers that it needs. Raises KernelError for a file that is not there."""
        text = _read(path, wanted_by=None)
        headers: dict[str, str] = {}
        waiting = [(path.name, text)]
        while waiting:
            including, content = waiting.pop()
            for found in _INCLUDE.finditer(content):
                header = found[1]
                if header not in headers:
                    line = content.count("\n", 0, found.start()) + 1
                    headers[header] = _read(_header(path, header), wanted_by=f"{including}:{line}")
                    waiting.append((header, headers[header]))
        return cls(path.name, text, headers)

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """What the text and its headers come to: equal for equal content only."""
        digest = hashlib.sha256()
        for name, text in ((self.name, self.text), *sorted(self.headers.items())):
            for part in (name.encode(), text.encode()):
                digest.update(len(part).to_bytes(8, "big") + part)
        return digest.hexdigest()

    @cached_property
    def kernels(self) -> Mapping[str, tuple[Parameter, ...]]:
        """The kernels of the file and the parameters of each, by name."""
        plain = _COMMENT.sub(" ", self.text)
        return {found["name"]: _parameters(found["parameters"]) for found in _KERNEL.finditer(plain)}

    def replaced(self, old: str, new: str) -> KernelSource:
        """The same source with `old` replaced by `new` wherever it stands: how tests make mutants.

        Raises ValueError when `old` stands nowhere, so that no test breaks a kernel that has moved on.
        """
        texts = (self.text, *self.headers.values())
        if not any(old in text for text in texts):
            raise ValueError(f"{self.name} and its headers do not contain {old!r}")
        headers = {name: text.replace(old, new) for name, text in self.headers.items()}
        return KernelSource(self.name, self.text.replace(old, new), headers)


def _header(source: Path, name: str) -> Path:
    beside, shared = source.parent / name, source.parent.parent / "cuda" / name
    return shared if shared.exists() and not beside.exists() else beside


def _read(path: Path, *, wanted_by: str | None) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        wanted = f", which {wanted_by} includes" if wanted_by else ""
        where = "headers lie beside the .cu file, or in the folder `cuda` beside its folder"
        raise KernelError(f"no file {path}{wanted}: {where}") from None


def _parameters(text: str) -> tuple[Parameter, ...]:
    return tuple(Parameter.parse(part) for part in text.split(",") if part.strip() not in ("", "void"))


Extent: TypeAlias = int | tuple[int] | tuple[int, int] | tuple[int, int, int]
"""How many along x, (x, y) or (x, y, z)."""
Extent3: TypeAlias = tuple[int, int, int]

_MOST_BLOCKS = (2**31 - 1, 65_535, 65_535)
_MOST_THREADS = (1024, 1024, 64)
_MOST_THREADS_OF_A_BLOCK = 1024
_MOST_SHARED_BYTES = 48 * 1024


class Kernel(Protocol):
    """A kernel, ready to launch."""

    def __call__(
        self, *arguments: KernelArgument, grid: Extent, block: Extent, shared: int = 0, stream: object = None
    ) -> None:
        """Launch it on `grid` blocks of `block` threads with `shared` bytes of dynamic shared memory for each block.

        On a GPU it runs later, in the order of its stream. Raises TypeError for arguments that do not fit the kernel's
        parameters, ValueError for a launch that no GPU takes.
        """
        ...


class Kernels(Protocol):
    """The kernels of one source, by name."""

    def __getitem__(self, name: str) -> Kernel: ...


def blocks_for(count: int, *, block: int) -> int:
    """How many blocks of that size cover `count` threads."""
    return -(-count // block)


def check_launch(kernel: str, *, grid: Extent, block: Extent, shared: int) -> tuple[Extent3, Extent3]:
    """Grid and block as three numbers each. Raises ValueError beyond what every supported GPU takes."""
    blocks, threads = _extent3(grid), _extent3(block)
    for what, extent, most in (("grid", blocks, _MOST_BLOCKS), ("block", threads, _MOST_THREADS)):
        if not all(1 <= count <= limit for count, limit in zip(extent, most, strict=True)):
            raise ValueError(f"kernel {kernel}: {what} {extent} is not between (1, 1, 1) and {most}")
    if threads[0] * threads[1] * threads[2] > _MOST_THREADS_OF_A_BLOCK:
        raise ValueError(f"kernel {kernel}: a block of {threads} has more than {_MOST_THREADS_OF_A_BLOCK} threads")
    if not 0 <= shared <= _MOST_SHARED_BYTES:
        raise ValueError(f"kernel {kernel}: {shared} bytes of shared memory are not between 0 and {_MOST_SHARED_BYTES}")
    return blocks, threads


def _extent3(extent: Extent) -> Extent3:
    given = (extent,) if isinstance(extent, int) else tuple(extent)
    padded = (*given, 1, 1, 1)
    return int(padded[0]), int(padded[1]), int(padded[2])


class Harm(StrEnum):
    """What a failed call leaves behind.

    `none`    the call was refused, all else goes on
    `memory`  there was not enough memory; with more of it free, the same call may succeed
    `device`  nothing works any more in this process: CUDA's errors of kernels and hardware are of this kind
    """

    NONE = "none"
    MEMORY = "memory"
    DEVICE = "device"


class DriverError(Exception):
    """A call of the driver failed; `CudaDevice` makes a `CudaError` of it."""

    def __init__(self, message: str, *, harm: Harm = Harm.NONE) -> None:
        super().__init__(message)
        self.harm = harm


class Span(NamedTuple):
    """Where a copy reads or writes: rows that lie `pitch_bytes` apart, on the GPU or in pinned host memory."""

    address: int
    pitch_bytes: int
    on_host: bool = False


class Driver(Protocol):
    """One GPU, by its driver. Streams, events, modules and functions are opaque numbers: CUDA's own handles, which
    other libraries take, too. From any thread; calls hold the GIL only where they do not wait. All raise DriverError.
    """

    @property
    def index(self) -> int:
        """The number N of `cuda:N`."""
        ...

    @property
    def foreign_context(self) -> int:
        """Another library's context in which it works, a `CUcontext`; 0 for the GPU's primary context."""
        ...

    @property
    def name(self) -> str:
        """What the GPU is called."""
        ...

    @property
    def compute_capability(self) -> tuple[int, int]:
        """NVIDIA's compute capability, such as (8, 6)."""
        ...

    def current(self) -> AbstractContextManager[None]:
        """Make the GPU's context this thread's for a while; every verb below needs it. May be nested."""
        ...

    def close(self) -> None:
        """Let go of the context. What was allocated and made is gone; no verb may be called any more."""
        ...

    def free_memory_bytes(self) -> tuple[int, int]:
        """How much memory the GPU has free, and how much in all."""
        ...

    def allocate(self, size_bytes: int) -> int:
        """Memory of the GPU: its address, aligned to 256 bytes."""
        ...

    def free(self, address: int) -> None:
        """Give it back. Nothing queued may still use it."""
        ...

    def allocate_pinned(self, size_bytes: int) -> int:
        """Host memory that the GPU can copy to and from by itself: its address."""
        ...

    def free_pinned(self, address: int) -> None:
        """Give it back. Nothing queued may still use it."""
        ...

    def retire(self, address: int, size_bytes: int, *, after: Sequence[int]) -> Sequence[int]:
        """Nobody holds this memory any more, and whoever used it is done at the events `after`.

        Returns the events that the next holder has to wait for, reached with those at the latest that were given. A GPU
        does nothing here. Needs no context.
        """
        ...

    def create_stream(self) -> int:
        """A stream that does not wait for the default stream."""
        ...

    def destroy_stream(self, stream: int) -> None:
        """Let go of a stream; what is queued is still done."""
        ...

    def synchronize(self, stream: int) -> None:
        """Wait, without the GIL, until everything queued on a stream is done."""
        ...

    def create_event(self) -> int:
        """An event that is not recorded, without timing."""
        ...

    def destroy_event(self, event: int) -> None:
        """Let go of an event."""
        ...

    def record(self, event: int, *, stream: int) -> None:
        """The event is the point behind everything queued on that stream so far."""
        ...

    def wait(self, stream: int, *, event: int) -> None:
        """What is queued on the stream from now on begins when the point of the event, as it is now, is reached."""
        ...

    def synchronize_event(self, event: int) -> None:
        """Wait, without the GIL, until the point of the event is reached."""
        ...

    def is_done(self, event: int) -> bool:
        """Whether it is reached."""
        ...

    def copy(self, target: Span, source: Span, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue a copy of `rows` rows of `width_bytes`."""
        ...

    def fill(self, target: Span, value: int, *, width_bytes: int, rows: int, stream: int) -> None:
        """Queue that every byte of `rows` rows in the GPU's memory becomes `value`."""
        ...

    def load(self, source: KernelSource) -> int:
        """Compile a source for this GPU (kept between runs) and load it: a module. Raises KernelError, too."""
        ...

    def function(self, module: int, name: str) -> int:
        """A kernel of a module."""
        ...

    def launch(
        self,
        function: int,
        arguments: PackedArguments,
        *,
        grid: Extent3,
        block: Extent3,
        shared_bytes: int,
        stream: int,
        uses: Sequence[int] = (),
    ) -> None:
        """Queue a kernel. `uses` are addresses among the arguments, for drivers that can check them."""
        ...

    def begin_capture(self, stream: int) -> None:
        """What this thread queues on the stream from now on is noted and not done, until the capture ends.

        Meanwhile this thread may not allocate, free, load, destroy graphs, wait or ask for events; nobody may wait for
        the stream, nor let it wait for an event from outside. What is refused spoils the capture, too.
        """
        ...

    def end_capture(self, stream: int) -> int:
        """The noted work as a graph that can be launched. For the thread that began; the capture is over, even when
        this raises DriverError because the capture was spoiled or the graph cannot be made.
        """
        ...

    def abandon_capture(self, stream: int) -> None:
        """End a capture, spoiled or not, and forget the noted work. For the thread that began."""
        ...

    def launch_graph(self, graph: int, *, stream: int) -> None:
        """Queue all work of a graph. Launches of the same graph follow one another, on whatever streams."""
        ...

    def destroy_graph(self, graph: int) -> None:
        """Let go of a graph; launches that are queued are still done."""
        ...
