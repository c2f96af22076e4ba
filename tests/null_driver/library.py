"""Build and load the null driver, and control it from Python."""

from __future__ import annotations

import ctypes
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sightline.devices.cuda.libcuda import LIBRARY, driver_facts
from tests.conftest import missing
from tests.fakes.native_build import compile_library, has_compiler

KINDS = (
    "contexts",
    "streams",
    "events",
    "GPU memory",
    "pinned memory",
    "modules",
    "functions",
    "graphs",
    "executable graphs",
)
"""What can be live, in the order of `enum kind` in `null_driver.h`."""
GPUS_VARIABLE = "SIGHTLINE_NULL_GPUS"
"""How many GPUs a process has that finds the library in `LD_LIBRARY_PATH`, 1 by default."""
_SOURCES = Path(__file__).parent
_FLAGS = (
    "-D_GNU_SOURCE",
    "-fvisibility=hidden",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-pthread",
    f'-DGPUS_VARIABLE="{GPUS_VARIABLE}"',
)


def build_null_driver(folder: Path, *, cuda_version: int = 13000) -> Path:
    """Compile it to `libcuda.so.1` in that folder: a child process with the folder in `LD_LIBRARY_PATH` has it.

    `cuda_version` is the newest CUDA that it supports, as `cuDriverGetVersion` gives it: 12040 for 12.4.

    Raises RuntimeError with the compiler's words.
    """
    library = folder / LIBRARY
    compile_library(
        sorted(_SOURCES.glob("*.c")),
        library,
        flags=(*_FLAGS, f"-DNULL_CUDA_VERSION={cuda_version}", f"-Wl,-soname,{LIBRARY}"),
    )
    return library


class Call(NamedTuple):
    """A call as the driver logs it. `first` and `second` are the two arguments that matter most, or 0.

    They are handles, addresses or sizes in bytes; the C sources say which (`BEGIN`). `result` is CUDA's code, 0 for
    success; a call that is not over has 0, too.
    """

    name: str
    result: int
    first: int
    second: int


class NullDriver:
    """Control of the null driver in this process. From any thread."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        self._library.null_entry.restype = ctypes.c_char_p
        self._library.null_entry.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * 3]
        self._library.null_entries.restype = ctypes.c_long
        self._library.null_count.restype = ctypes.c_char_p
        for name in ("null_live", "null_orphans"):
            self._library[name].restype = ctypes.c_long
        self._library.null_live_bytes.restype = ctypes.c_uint64
        self._library.null_reset.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_int]
        self._library.null_fail.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_long]

    @property
    def library(self) -> ctypes.CDLL:
        """The driver itself, for calls without cuda-bindings."""
        return self._library

    def reset(self, *, gpus: int = 1, memory_bytes: int = 2**33, compute_capability: tuple[int, int] = (8, 6)) -> None:
        """Forget everything that was made, counted, broken or asked for, and have that many GPUs."""
        major, minor = compute_capability
        self._library.null_reset(gpus, memory_bytes, 10 * major + minor)

    @property
    def log(self) -> list[Call]:
        """All calls in their order."""
        return [self._call(index) for index in range(self._library.null_entries())]

    @property
    def counts(self) -> Counter[str]:
        """How often each call was made."""
        found, count, number = Counter[str](), ctypes.c_long(), 0
        while name := self._library.null_count(number, ctypes.byref(count)):
            found[name.decode()] = count.value
            number += 1
        return +found

    @contextmanager
    def counting(self) -> Iterator[Counter[str]]:
        """Count the calls of a block; the counter is filled when the block is left."""
        counter, before = Counter[str](), self.counts
        yield counter
        counter.update(self.counts - before)

    def fail(self, call: str, *, code: str, nth: int = 1, times: int = 1) -> None:
        """Let the `nth` call of that name from now on fail, and `times` in all; -1 means all from there on.

        The name is that of CUDA without its version (`cuMemAlloc`); "" is any call, and "work" is a piece of work,
        whose failure the next call finds. `code` is a name such as CUDA_ERROR_OUT_OF_MEMORY. Those of kernels and
        hardware break the GPU: every later call on it fails, too, as on a real one.
        """
        self._library.null_fail(call.encode(), nth, _code(code), times)

    def break_gpu(self, index: int, *, code: str = "CUDA_ERROR_LAUNCH_FAILED") -> None:
        """Let all calls on a GPU fail from now on; also those that wait for it."""
        self._library.null_break(index, _code(code))

    @contextmanager
    def hanging(self, index: int = 0) -> Iterator[None]:
        """Work that is queued in the block is not done, and events are not reached, before the block is left."""
        self._library.null_hang(index, 1)
        try:
            yield
        finally:
            self._library.null_hang(index, 0)

    @property
    def live(self) -> dict[str, int]:
        """How many of each kind are not destroyed; kinds of which there are none are left out."""
        return self._by_kind(self._library.null_live)

    @property
    def orphans(self) -> dict[str, int]:
        """What was live when its context was destroyed, except on broken GPUs."""
        return self._by_kind(self._library.null_orphans)

    def live_bytes(self, kind: str) -> int:
        """How much memory of that kind is live: "GPU memory" or "pinned memory"."""
        return int(self._library.null_live_bytes(KINDS.index(kind)))

    def check_nothing_left(self) -> None:
        """Raise AssertionError if anything was not destroyed."""
        assert not self.live, f"not destroyed: {self.live}"
        assert not self.orphans, f"destroyed only with its context: {self.orphans}"

    def _by_kind(self, count: Any) -> dict[str, int]:
        return {kind: count(number) for number, kind in enumerate(KINDS) if count(number)}

    def _call(self, index: int) -> Call:
        result, first, second = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_uint64()
        name = self._library.null_entry(index, *map(ctypes.byref, (result, first, second)))
        return Call(name.decode(), result.value, first.value, second.value)


def _code(name: str) -> int:
    return int(getattr(import_module("cuda.bindings.driver").CUresult, name))


@lru_cache(maxsize=1)
def null_driver() -> NullDriver:
    """The null driver in this process, for good: whatever loads `libcuda.so.1` from now on gets it.

    What this process knows of its GPUs (`driver_facts`) stays as it was: none. Raises RuntimeError where there is a
    driver, which cannot be replaced, or no compiler.
    """
    if driver_facts().cuda_version is not None:
        raise RuntimeError(f"this process has {LIBRARY} already")
    with tempfile.TemporaryDirectory(prefix="sightline-null-driver-") as folder:
        return NullDriver(build_null_driver(Path(folder)))


def fresh_null_driver(*, gpus: int = 1, memory_bytes: int = 2**30) -> NullDriver:
    """The null driver, with GPUs that nothing was done with; the test is skipped where it cannot be built or loaded."""
    if not has_compiler():
        missing("gcc is not installed (Debian: gcc)")
    if not driver_facts().reason:
        pytest.skip("this machine has a GPU, whose driver is loaded")
    null = null_driver()
    null.reset(gpus=gpus, memory_bytes=memory_bytes)
    return null
