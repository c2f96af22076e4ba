"""Compile kernels with NVRTC, and keep what was compiled."""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from sightline.cache import cache_folder
from sightline.devices.cuda.driver import KernelSource
from sightline.devices.cuda.libcuda import BINDINGS, extra_for_driver
from sightline.errors import KernelError, MissingExtra


def builds_folder() -> Path | None:
    """Where compiled kernels are kept: `kernels/` of the cache folder. None when nothing is."""
    folder = cache_folder()
    return None if folder is None else folder / "kernels"


def build_name(*facts: str, suffix: str) -> str:
    """The name of the file that belongs to these facts."""
    return hashlib.sha256("\0".join(facts).encode()).hexdigest() + suffix


def kept_build(name: str) -> bytes | None:
    """What is kept under that name, if anything is."""
    folder = builds_folder()
    if folder is None:
        return None
    try:
        return (folder / name).read_bytes() or None
    except OSError:
        return None


def keep_build(name: str, content: bytes) -> None:
    """Keep it, if there is a place to; the file appears whole. A folder that cannot be written to harms nothing."""
    folder = builds_folder()
    if folder is None:
        return
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, aside = tempfile.mkstemp(dir=folder, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            Path(aside).replace(folder / name)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise


ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
"""Compute capabilities, major and minor in one number, that every kernel compiles for: Turing to Blackwell."""
_PURPOSE = "compiling kernels for a GPU"
_OPTIONS = ("--std=c++17", "--fmad=false", "-lineinfo")
"""No fused multiply-add unless a kernel says so: a GPU then gives the very bits that the build for tests gives."""


def compile_cubin(source: KernelSource, *, architecture: int) -> bytes:
    """The machine code of a source for GPUs of that compute capability (86 for 8.6): what `cuModuleLoadData` takes.

    Kept between runs. Machine code rather than PTX, because an older driver takes the one and refuses the other.
    Raises KernelError with the compiler's words when the source is wrong, MissingExtra where there is no NVRTC.
    """
    nvrtc = _library()
    key = (source.digest, _version(), *_OPTIONS, str(architecture))
    name = build_name(*key, suffix=f"-sm_{architecture}.cubin")
    cubin = kept_build(name)
    if cubin is None:
        cubin = _compile(nvrtc, source, architecture)
        keep_build(name, cubin)
    return cubin


def nvrtc_version() -> tuple[int, int]:
    """The version of NVRTC. Raises MissingExtra where there is none."""
    nvrtc = _library()
    _, major, minor = _checked(nvrtc, nvrtc.nvrtcVersion())
    return int(major), int(minor)


def supported_architectures() -> tuple[int, ...]:
    """The compute capabilities that NVRTC compiles for, major and minor in one number. Raises MissingExtra."""
    nvrtc = _library()
    _, found = _checked(nvrtc, nvrtc.nvrtcGetSupportedArchs())
    return tuple(int(number) for number in found)


@lru_cache(maxsize=1)
def _version() -> str:
    return "{}.{}".format(*nvrtc_version())


def _library() -> Any:
    """The bindings, with the library found. They are imported where they are used, since few machines have them."""
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError as error:
        raise MissingExtra(BINDINGS, extra=extra_for_driver(), purpose=_PURPOSE) from error
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError as error:
        extra = extra_for_driver()
        package = "nvidia-cuda-nvrtc-cu12" if extra.endswith("-cu12") else "nvidia-cuda-nvrtc"
        raise MissingExtra(package, extra=extra, purpose=_PURPOSE) from error
    return nvrtc


def _compile(nvrtc: Any, source: KernelSource, architecture: int) -> bytes:
    headers = list(source.headers.items())
    _, program = _checked(
        nvrtc,
        nvrtc.nvrtcCreateProgram(
            source.text.encode(),
            source.name.encode(),
            len(headers),
            [text.encode() for _, text in headers],
            [name.encode() for name, _ in headers],
        ),
    )
    try:
        options = [option.encode() for option in (*_OPTIONS, f"--gpu-architecture=sm_{architecture}")]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _fetched(nvrtc, program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
            said = log.decode().strip("\0 \n")
            raise KernelError(f"{source.name} does not compile for sm_{architecture}:\n{said}")
        return _fetched(nvrtc, program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _fetched(nvrtc: Any, program: Any, size_of: Any, copy_to: Any) -> bytes:
    _, size = _checked(nvrtc, size_of(program))
    content = bytearray(size)
    _checked(nvrtc, copy_to(program, content))
    return bytes(content)


def _checked(nvrtc: Any, answer: Any) -> Any:
    if answer[0] != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise KernelError(f"NVRTC failed: {answer[0].name}")
    return answer
