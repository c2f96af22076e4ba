"""What the NVIDIA driver's own libraries report: GPUs, and what NVDEC decodes.

Making a decoder that the GPU does not have can end the process in other libraries; asking here cannot.
The structure is that of `cuviddec.h` of NVIDIA's Video Codec SDK 13.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar

LIBRARY = "libcuda.so.1"
BINDINGS = "cuda-bindings"
"""The package that calls the driver."""
_MAJOR, _MINOR = 75, 76
_KERNEL_MODULE = Path("/proc/driver/nvidia/version")


@dataclass(frozen=True, slots=True)
class CudaFacts:
    """One GPU, as its driver describes it. `capability` is NVIDIA's compute capability, (9, 0) for Hopper."""

    index: int
    name: str
    capability: tuple[int, int]
    memory_bytes: int

    def __str__(self) -> str:
        major, minor = self.capability
        return f"{self.name}, compute capability {major}.{minor}, {self.memory_bytes / 2**30:.1f} GiB"


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What the driver says: the newest CUDA that it supports, and its GPUs; or the reason why there are none."""

    cuda_version: tuple[int, int] | None = None
    gpus: tuple[CudaFacts, ...] = ()
    reason: str | None = None


@lru_cache(maxsize=1)
def driver_facts() -> DriverFacts:
    """What the driver says, asked once in a process."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        return DriverFacts(reason=f"no NVIDIA driver on this machine ({LIBRARY} is missing)")
    return facts_from(library)


def facts_from(library: Any) -> DriverFacts:
    """What this library says."""
    if result := library.cuInit(0):
        return DriverFacts(reason=f"the NVIDIA driver does not start: {_error_name(library, result)}")
    version, count = ctypes.c_int(), ctypes.c_int()
    library.cuDriverGetVersion(ctypes.byref(version))
    if result := library.cuDeviceGetCount(ctypes.byref(count)):
        return DriverFacts(reason=f"the NVIDIA driver does not say its GPUs: {_error_name(library, result)}")
    cuda_version = version.value // 1000, version.value % 1000 // 10
    if not count.value:
        return DriverFacts(cuda_version, reason="the NVIDIA driver knows no GPU that this process may use")
    return DriverFacts(cuda_version, tuple(_gpu(library, index) for index in range(count.value)))


def extra_for_driver(name: str = "gpu", *, facts: DriverFacts | None = None) -> str:
    """Sightline's extra of that name (`gpu`, `tensorrt`) for this machine: with `-cu12` where the driver is for CUDA 12
    or cuda-bindings for it is installed.
    """
    known = driver_facts() if facts is None else facts
    if known.cuda_version is not None and known.cuda_version[0] == 12:
        return f"{name}-cu12"
    try:
        return f"{name}-cu12" if version(BINDINGS).startswith("12.") else name
    except PackageNotFoundError:
        return name


def driver_release() -> str | None:
    """The release of the kernel module, such as 580.65.06; None when it does not say."""
    try:
        words = _KERNEL_MODULE.read_text().split()
    except OSError:
        return None
    return next((word for word in words if word[0].isdigit() and word.count(".") >= 1), None)


def _gpu(library: Any, index: int) -> CudaFacts:
    device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
    library.cuDeviceGet(ctypes.byref(device), index)
    library.cuDeviceGetName(name, len(name), device)
    library.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
    capability = _attribute(library, _MAJOR, device), _attribute(library, _MINOR, device)
    return CudaFacts(index, name.value.decode(errors="replace"), capability, memory.value)


def _attribute(library: Any, number: int, device: ctypes.c_int) -> int:
    value = ctypes.c_int()
    library.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return value.value


def _error_name(library: Any, result: int) -> str:
    name = ctypes.c_char_p()
    library.cuGetErrorName(result, ctypes.byref(name))
    return name.value.decode() if name.value else f"CUDA error {result}"


NVDEC_LIBRARY = "libnvcuvid.so.1"
CODECS = {
    "mpeg1video": 0,
    "mpeg2video": 1,
    "mpeg4": 2,
    "vc1": 3,
    "h264": 4,
    "mjpeg": 5,
    "hevc": 8,
    "vp8": 9,
    "vp9": 10,
    "av1": 11,
}
"""NVIDIA's numbers of codecs, by FFmpeg's names."""
_CHROMA = {"400": 0, "420": 1, "422": 2, "444": 3}


class _Caps(ctypes.Structure):
    _fields_: ClassVar = [
        ("codec", ctypes.c_int),
        ("chroma", ctypes.c_int),
        ("bit_depth_minus_8", ctypes.c_uint),
        ("reserved1", ctypes.c_uint * 3),
        ("is_supported", ctypes.c_ubyte),
        ("engines", ctypes.c_ubyte),
        ("output_format_mask", ctypes.c_ushort),
        ("max_width", ctypes.c_uint),
        ("max_height", ctypes.c_uint),
        ("max_macroblocks", ctypes.c_uint),
        ("min_width", ctypes.c_ushort),
        ("min_height", ctypes.c_ushort),
        ("is_histogram_supported", ctypes.c_ubyte),
        ("counter_bit_depth", ctypes.c_ubyte),
        ("max_histogram_bins", ctypes.c_ushort),
        ("reserved3", ctypes.c_uint * 10),
    ]


@dataclass(frozen=True, slots=True)
class DecoderSupport:
    """What the GPU decodes of one codec, chroma layout and depth; `engines` is the number of its NVDECs."""

    is_supported: bool
    engines: int = 0
    min_size_wh: tuple[int, int] = (0, 0)
    max_size_wh: tuple[int, int] = (0, 0)
    max_macroblocks: int = 0

    def reason_against(self, size_wh: tuple[int, int]) -> str | None:
        """Why it does not decode images of that size; None when it does."""
        if not self.is_supported:
            return "this GPU does not decode it"
        (width, height), low, high = size_wh, self.min_size_wh, self.max_size_wh
        macroblocks = -(-width // 16) * -(-height // 16)
        fits = low[0] <= width <= high[0] and low[1] <= height <= high[1]
        if fits and macroblocks <= self.max_macroblocks:
            return None
        return (
            f"this GPU decodes images from {low[0]}x{low[1]} to {high[0]}x{high[1]} with up to "
            f"{self.max_macroblocks} macroblocks, not {width}x{height}"
        )


def nvdec_library() -> Any:
    """The library. Raises OSError where the driver does not bring it."""
    return ctypes.CDLL(NVDEC_LIBRARY)


def decoder_support(library: Any, codec: str, *, chroma: str = "420", bit_depth: int = 8) -> DecoderSupport:
    """What the GPU whose context is current decodes of that codec (FFmpeg's name)."""
    if codec not in CODECS or chroma not in _CHROMA:
        return DecoderSupport(is_supported=False)
    caps = _Caps(codec=CODECS[codec], chroma=_CHROMA[chroma], bit_depth_minus_8=bit_depth - 8)
    if library.cuvidGetDecoderCaps(ctypes.byref(caps)) != 0 or not caps.is_supported:
        return DecoderSupport(is_supported=False, engines=caps.engines)
    return DecoderSupport(
        is_supported=True,
        engines=caps.engines,
        min_size_wh=(caps.min_width, caps.min_height),
        max_size_wh=(caps.max_width, caps.max_height),
        max_macroblocks=caps.max_macroblocks,
    )
