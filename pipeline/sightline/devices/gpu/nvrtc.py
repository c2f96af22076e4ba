"""Kernels compiled for a GPU by NVRTC, NVIDIA's compiler as a library. It needs neither a GPU nor a driver."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Any

from sightline.devices.gpu.kept_builds import build_name, keep_build, kept_build
from sightline.devices.gpu.kernel_source import KernelSource
from sightline.errors import KernelError, MissingExtra

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
"""Compute capabilities, major and minor in one number, that every kernel compiles for: Turing to Blackwell."""
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


@lru_cache(maxsize=1)
def _version() -> str:
    return "{}.{}".format(*nvrtc_version())


def _library() -> Any:
    """The bindings, with the library found. They are imported where they are used, since few machines have them."""
    try:
        nvrtc = importlib.import_module("cuda.bindings.nvrtc")
    except ImportError as error:
        raise MissingExtra("cuda-bindings", extra="gpu", purpose="compiling kernels for a GPU") from error
    try:
        nvrtc.nvrtcVersion()
    except RuntimeError as error:
        raise MissingExtra("nvidia-cuda-nvrtc", extra="gpu", purpose="compiling kernels for a GPU") from error
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
