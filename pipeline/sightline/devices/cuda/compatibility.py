"""Whether the packages, the driver and a GPU can work together; where they cannot, the reason and what to install.

A driver loads what was compiled for the first number of its CUDA or for a lower one; the second number does not matter.
So cuda-bindings, NVRTC, TensorRT and ONNX Runtime for CUDA 13 need a driver for CUDA 13; those for CUDA 12 work with
either. Packages are read, not imported, except NVRTC: only the library itself knows its version and its GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version

from sightline.devices.cuda.libcuda import BINDINGS, CudaFacts, DriverFacts, driver_facts, extra_for_driver
from sightline.errors import KernelError, MissingExtra
from sightline.libraries import clash, installed_versions

_OLDEST_BINDINGS = (12, 9, 1)
"""12.9.0 keeps the GIL while it waits for a GPU."""
_OLDEST_GPU = (7, 5)
_RELEASES = {12: 525, 13: 580}
"""The first release of the driver for each CUDA."""
_FOR_CUDA_12 = "pip uninstall -y nvidia-cuda-nvrtc && pip install 'sightline[gpu-cu12]'"
_NEWER_NVRTC = ("pip install --upgrade nvidia-cuda-nvrtc-cu12", "pip install --upgrade nvidia-cuda-nvrtc")
_TENSORRT = ("tensorrt-cu12-bindings", "tensorrt-cu13-bindings")
_ONNXRUNTIME = ("onnxruntime", "onnxruntime-gpu")
_CUDNN = re.compile(r"nvidia-cudnn-cu(\d+)\b")


def reason_against(gpu: CudaFacts, facts: DriverFacts) -> str | None:
    """Why the packages that every run on a GPU needs cannot work with this one and its driver; None when they can."""
    if gpu.capability < _OLDEST_GPU:
        return f"{gpu} is older than Turing, compute capability 7.5"
    cuda = facts.cuda_version or (0, 0)
    if cuda[0] < min(_RELEASES):
        return f"{_newest(cuda)}: install a driver of release {_RELEASES[12]} or newer"
    install = f"pip install 'sightline[{extra_for_driver(facts=facts)}]'"
    try:
        installed = version(BINDINGS)
    except PackageNotFoundError:
        return f"{gpu} is there, but not the package {BINDINGS}: {install}"
    if _numbers(installed) < _OLDEST_BINDINGS:
        return f"{BINDINGS} {installed} is older than {'.'.join(map(str, _OLDEST_BINDINGS))}: {install}"
    if cuda[0] < (needed := _numbers(installed)[0]):
        return _too_new(f"{BINDINGS} {installed}", needed, cuda=cuda, exchange=_FOR_CUDA_12)
    return _reason_against_nvrtc(gpu, cuda=cuda)


def _reason_against_nvrtc(gpu: CudaFacts, *, cuda: tuple[int, int]) -> str | None:
    """cuda-bindings 12.9 takes NVRTC 13 before NVRTC 12 where both are installed."""
    from sightline.devices.cuda.nvrtc import nvrtc_version, supported_architectures

    try:
        found, known = nvrtc_version(), supported_architectures()
    except (MissingExtra, KernelError) as error:
        return str(error)
    named = "NVRTC {}.{}".format(*found)
    if cuda[0] < found[0]:
        return _too_new(named, found[0], cuda=cuda, exchange=_FOR_CUDA_12)
    if 10 * gpu.capability[0] + gpu.capability[1] in known:
        return None
    listed = ", ".join(f"{one // 10}.{one % 10}" for one in known)
    return f"{named} compiles for compute capability {listed}, not for {gpu}: {_NEWER_NVRTC[found[0] > 12]}"


def reason_against_tensorrt() -> str | None:
    """Why the installed TensorRT cannot work with the driver, as far as its packages say; None when it can, or when
    there is none.
    """
    cuda = driver_facts().cuda_version
    extra = extra_for_driver("tensorrt")
    if (both := clash(_TENSORRT, keep=f"'sightline[{extra}]'")) is not None:
        return both
    for package, number in installed_versions(_TENSORRT).items():
        kind = package.removesuffix("-bindings")
        needed = int(kind.rpartition("cu")[2])
        if cuda is not None and cuda[0] < needed:
            exchange = f"pip uninstall -y {kind} {package} {kind}-libs && pip install 'sightline[{extra}]'"
            return _too_new(f"TensorRT {number}", needed, cuda=cuda, exchange=exchange)
    return None


def reason_against_onnxruntime() -> str | None:
    """Why the installed ONNX Runtime cannot compute on this machine's GPUs, as far as its packages say; None when it
    can, or when it is the one without CUDA.
    """
    return onnxruntime_clash() or onnxruntime_too_new()


def onnxruntime_clash() -> str | None:
    """What to do when both packages of ONNX Runtime are installed. Which of the two computes depends on their order."""
    return clash(_ONNXRUNTIME, keep=_onnxruntime_for_gpus() if driver_facts().gpus else None)


def onnxruntime_too_new() -> str | None:
    """What to do when onnxruntime-gpu is for another CUDA than the driver."""
    cuda = driver_facts().cuda_version
    for package, number in installed_versions(_ONNXRUNTIME[1:]).items():
        needed = _cuda_of_onnxruntime(requires(package) or ())
        if cuda is not None and cuda[0] < needed:
            exchange = f"pip install {_onnxruntime_for_gpus()}"
            return _too_new(f"{package} {number}", needed, cuda=cuda, exchange=exchange)
    return None


def _onnxruntime_for_gpus() -> str:
    cuda = driver_facts().cuda_version
    return "'onnxruntime-gpu[cuda,cudnn]{}'".format("<1.27" if cuda is not None and cuda[0] == 12 else "")


def _cuda_of_onnxruntime(requirements: Iterable[str]) -> int:
    """The CUDA that onnxruntime-gpu is for, by its extra `cudnn`: `nvidia-cudnn-cu13~=9.0; extra == "cudnn"`."""
    numbers = [int(found[1]) for one in requirements if (found := _CUDNN.match(one)) is not None]
    return max(numbers, default=min(_RELEASES))


def _too_new(what: str, needed: int, *, cuda: tuple[int, int], exchange: str) -> str:
    release = f", or install a driver of release {_RELEASES[needed]} or newer" if needed in _RELEASES else ""
    return f"{_newest(cuda)}, and {what} is for CUDA {needed}: {exchange}{release}"


def _newest(cuda: tuple[int, int]) -> str:
    return "the NVIDIA driver is for CUDA up to {}.{}".format(*cuda)


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers that a version begins with."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])
