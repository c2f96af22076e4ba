"""Build kernels for the host, and run them, also under sanitizers.

The very text that NVRTC compiles, with `host_cuda.h` in front of it. It finds wrong arithmetic, wrong indices, missing
barriers, and with the sanitizers every access outside of an allocation or not aligned to its type. It does not find
races that no order of running whole threads shows, nor what only hardware does.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from threading import get_ident
from typing import Literal, TypeAlias

from sightline.devices.cuda.driver import (
    Extent,
    Extent3,
    KernelArgument,
    KernelSource,
    PackedArguments,
    check_launch,
    pack_arguments,
)
from sightline.devices.cuda.nvrtc import build_name, builds_folder, keep_build
from sightline.errors import KernelError

SANITIZE_VARIABLE = "SIGHTLINE_SANITIZE_KERNELS"
"""Set to 1, it makes every build of this process a sanitized one; `run_sanitized` sets it for its child."""
_SUPPORT = Path(__file__).parent
_FLAGS = (
    "-std=gnu++17",
    "-O1",
    "-g1",
    "-shared",
    "-fPIC",
    "-ffp-contract=off",
    "-fvisibility=hidden",
    "-fno-gnu-unique",
)
_WARNINGS = (
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-unknown-pragmas",
    "-Wno-unused",
    "-Wno-unused-parameter",
    "-Wno-sign-compare",
)
_NOTED = "-DHOST_FIBRES_ARE_NOTED"
"""Tells the sanitizer about fibres, whose own code is left as it is."""
_SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")
_DYNAMIC_SHARED = re.compile(r"extern\s+__shared__\s+(?P<type>[\w ]+?)\s*\b(?P<name>\w+)\s*\[\s*\]\s*;")


def sanitizing() -> bool:
    """Whether this process runs under the sanitizers (`run_sanitized`), so that builds for them can be loaded."""
    return os.environ.get(SANITIZE_VARIABLE) == "1"


@lru_cache(maxsize=256)
def load_host_build(source: KernelSource, *, sanitize: bool = False) -> ctypes.CDLL:
    """The source as a library in this process, built at most once. Raises KernelError with the compiler's words."""
    flags = (*_FLAGS, *_WARNINGS, *(_SANITIZED if sanitize else ()))
    name = build_name(source.digest, *_surroundings(), *flags, suffix=".so")
    library = _kept(name, lambda place: _compile_source(source, flags=flags, library=place))
    return ctypes.CDLL(str(library))


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """The file of that name, kept between runs where there is a cache folder, else until this process ends."""
    folder = builds_folder()
    if folder is not None and (folder / name).is_file():
        return folder / name
    place = Path(_scratch_folder().name) / name
    if not place.exists():
        aside = place.with_name(f"{get_ident()}-{name}")
        make(aside)
        aside.replace(place)
        keep_build(name, place.read_bytes())
    return place


def _compile_source(source: KernelSource, *, flags: tuple[str, ...], library: Path) -> None:
    plain = (*_FLAGS, *_WARNINGS, "-c", *((_NOTED,) if _SANITIZED[0] in flags else ()))
    fibres = _kept(
        build_name("fibres", *_surroundings(), *plain, suffix=".o"),
        lambda place: _run_compiler([*plain, str(_SUPPORT / "host_fibres.cpp")], output=place, what="host_fibres"),
    )
    with tempfile.TemporaryDirectory(prefix="sightline-kernels-") as folder:
        for name, text in ((source.name, source.text), *source.headers.items()):
            written = Path(folder) / name
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_text(_for_host(text), encoding="utf-8")
        wrappers = "".join(f"HOST_KERNEL({name})\n" for name in source.kernels)
        main = f'#include "host_cuda.h"\n#include "{source.name}"\n#include "host_launch.h"\n{wrappers}'
        (Path(folder) / "main.cpp").write_text(main, encoding="utf-8")
        arguments = [*flags, "-shared", f"-I{_SUPPORT}", f"-ffile-prefix-map={folder}/=", "main.cpp", str(fibres)]
        _run_compiler(arguments, output=library, what=source.name, folder=folder)


def _run_compiler(arguments: Sequence[str], *, output: Path, what: str, folder: str | None = None) -> None:
    command = [compiler(), *arguments, "-o", str(output)]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise KernelError(f"{what} does not compile for this machine's processor:\n{done.stderr.strip()}")


def _for_host(text: str) -> str:
    """`extern __shared__ float values[];` as a pointer to the launch's dynamic shared memory, in the same line."""
    return _DYNAMIC_SHARED.sub(r"\g<type> *\g<name> = static_cast<\g<type> *>(host_cuda::shared_memory());", text)


def compiler() -> str:
    """The path of the C++ compiler: `$CXX`, else g++. Raises KernelError where there is none."""
    compiler = shutil.which(os.environ.get("CXX", "g++"))
    if compiler is None:
        raise KernelError("kernels can be tested without a GPU only where there is a C++ compiler: install g++")
    return compiler


@lru_cache(maxsize=1)
def _surroundings() -> tuple[str, ...]:
    """What else a build depends on: the compiler, and the files that are compiled with every source."""
    asked = [compiler(), "--version"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    return version, *(file.read_text(encoding="utf-8") for file in sorted(_SUPPORT.glob("host_*.[ch]*")))


@lru_cache(maxsize=1)
def _scratch_folder() -> tempfile.TemporaryDirectory[str]:
    """Where libraries lie that are kept nowhere else; it goes when the process ends."""
    return tempfile.TemporaryDirectory(prefix="sightline-kernels-")


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


_OPTIONS = "detect_leaks=0:detect_stack_use_after_return=0:allocator_may_return_null=1"


def run_sanitized(arguments: Sequence[str], *, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run `python` with these arguments (`["-c", "..."]`, `["-m", "pytest", ...]`) in a child process.

    Kernels are built with both sanitizers there. The first access outside of an allocation, or at an address that is
    no multiple of what is read, ends the child with a status other than 0 and a report in `stderr` that names the
    kernel's file and line.
    """
    environment = {
        **os.environ,
        "LD_PRELOAD": _runtime(),
        "ASAN_OPTIONS": _OPTIONS,
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "PYTHONMALLOC": "malloc",
        SANITIZE_VARIABLE: "1",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def _runtime() -> str:
    """The sanitizer's own library, which must be the first in the process."""
    asked = [compiler(), "-print-file-name=libasan.so"]
    path = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        raise KernelError("AddressSanitizer's library is not there: install libasan of the C++ compiler")
    return path
