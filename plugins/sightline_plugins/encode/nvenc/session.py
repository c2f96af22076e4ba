"""Whether a GPU has a video encoder (NVENC), asked of the driver's own library.

PyNvVideoCodec asks in a context that it makes for that, and leaves behind, current in the thread, where the GPU has no
encoder; so it is asked only where the GPU has one. The structures are those of `nvEncodeAPI.h`
of NVIDIA's Video Codec SDK 12.1, the oldest that PyNvVideoCodec 2.2.4 takes.
"""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

from sightline.devices.gpu.gpu import Gpu

LIBRARY = "libnvidia-encode.so.1"
_CUDA = "libcuda.so.1"
_API = 12 | 1 << 24
_DEVICE_IS_CUDA = 1
_DESTROY_ENCODER, _OPEN_SESSION = 27, 29
"""The places of these functions in the list that the library gives."""
_REASONS = {
    1: "this GPU has no NVENC",
    2: "this GPU has no NVENC",
    10: "NVENC has no room for another session",
    15: "the driver is too old for PyNvVideoCodec's NVENC",
    21: "NVENC has no room for another session",
}
"""By the numbers of NVENCSTATUS."""


class _Functions(ctypes.Structure):
    _fields_: ClassVar = [
        ("version", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("functions", ctypes.c_void_p * 318),
    ]


class _Session(ctypes.Structure):
    _fields_: ClassVar = [
        ("version", ctypes.c_uint32),
        ("device_type", ctypes.c_uint32),
        ("device", ctypes.c_void_p),
        ("reserved", ctypes.c_void_p),
        ("api", ctypes.c_uint32),
        ("reserved1", ctypes.c_uint32 * 253),
        ("reserved2", ctypes.c_void_p * 64),
    ]


_Open = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Session), ctypes.POINTER(ctypes.c_void_p))
_Destroy = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)


def reason_against_sessions(gpu: Gpu) -> str | None:
    """Why this GPU encodes no video; None when a session of its encoder can be opened. Raises GpuError."""
    try:
        library, cuda = ctypes.CDLL(LIBRARY), ctypes.CDLL(_CUDA)
    except OSError:
        return f"the driver brings no video encoder ({LIBRARY} is missing)"
    context = ctypes.c_void_p()
    with gpu.guard("asking for its video encoder"):
        cuda.cuCtxGetCurrent(ctypes.byref(context))
        status = session_status(library, context)
    return _REASONS.get(status, f"NVENC cannot be used: its error {status}") if status else None


def session_status(library: Any, context: ctypes.c_void_p) -> int:
    """Open and close a session in a context; NVENC's status, 0 where it worked."""
    listed = _Functions(version=_version(2))
    if status := library.NvEncodeAPICreateInstance(ctypes.byref(listed)):
        return int(status)
    session = _Session(version=_version(1), device_type=_DEVICE_IS_CUDA, device=context.value, api=_API)
    encoder = ctypes.c_void_p()
    status = _Open(listed.functions[_OPEN_SESSION])(ctypes.byref(session), ctypes.byref(encoder))
    if encoder.value:
        _Destroy(listed.functions[_DESTROY_ENCODER])(encoder)
    return int(status)


def _version(number: int) -> int:
    return _API | number << 16 | 7 << 28
