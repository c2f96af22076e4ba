"""PyNvVideoCodec's encoder, and how many sessions a GPU allows.

PyNvVideoCodec asks in a context that it makes for that, and leaves behind, current in the thread, where the GPU has no
encoder; so it is asked only where the GPU has one. The structures are those of `nvEncodeAPI.h`
of NVIDIA's Video Codec SDK 12.1, the oldest that PyNvVideoCodec 2.2.4 takes.

What it does: it copies an image into memory of its own, on the stream that it was given, and lets the encoder read it
there; so an image is the caller's again when that stream has come so far. What it does not: it takes no rows with
padding and no odd sizes, carries no timestamps (it numbers images), and writes nothing of colours into the stream.
Images come out three calls late. A call waits for the image that it gives, without the GIL.
Tested with PyNvVideoCodec 2.2.4 on a fake driver.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from sightline.devices.cuda.device import CudaDevice
from sightline.devices.cuda.libcuda import extra_for_driver
from sightline.devices.cuda.streams import CudaStream
from sightline.media import PixelFormat
from sightline.media.device_array import DeviceArray
from sightline_plugins.decode.nvdec_library import gist
from sightline_plugins.encode.settings import EncoderError

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


def reason_against_sessions(gpu: CudaDevice) -> str | None:
    """Why this GPU encodes no video; None when a session of its encoder can be opened. Raises CudaError."""
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


FORMATS: Mapping[PixelFormat, str] = {PixelFormat.NV12: "NV12", PixelFormat.I420: "YUV420"}
"""PyNvVideoCodec's names of the formats that it is given."""
_IDR = 3
"""NV_ENC_PIC_TYPE_IDR."""
_SUPPORTED: WeakKeyDictionary[CudaDevice, dict[str, EncoderSupport]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class EncoderSupport:
    """What the GPU encodes of one codec."""

    is_supported: bool
    min_size_wh: tuple[int, int] = (0, 0)
    max_size_wh: tuple[int, int] = (0, 0)

    def reason_against(self, size_wh: tuple[int, int]) -> str | None:
        """Why it does not encode images of that size; None when it does."""
        if not self.is_supported:
            return "this GPU does not encode it"
        (width, height), low, high = size_wh, self.min_size_wh, self.max_size_wh
        if low[0] <= width <= high[0] and low[1] <= height <= high[1]:
            return None
        return f"this GPU encodes images from {low[0]}x{low[1]} to {high[0]}x{high[1]}, not {width}x{height}"


@dataclass(frozen=True, slots=True)
class EncodedImage:
    """An image as it comes out: the number of the call that it went in with, from 0, and a byte stream, which begins
    with the parameter sets where it is a key frame.
    """

    number: int
    data: bytes
    is_key: bool


class NvencLibrary:
    """PyNvVideoCodec on one GPU that has an encoder."""

    def __init__(self, module: Any, *, gpu: CudaDevice) -> None:
        self._module = module
        self._gpu = gpu
        self._errors = (module.PyNvVCException, module.PyNvVCExceptionUnsupported, RuntimeError, MemoryError)
        self._known = _SUPPORTED.setdefault(gpu, {})

    def support(self, codec: str) -> EncoderSupport:
        """What the GPU encodes of a codec (FFmpeg's name). Raises EncoderError.

        Asked once for a GPU: PyNvVideoCodec makes another context of the GPU for the question.
        """
        if codec not in self._known:
            self._known[codec] = self._asked(codec)
        return self._known[codec]

    def encoder(
        self,
        pixel_format: PixelFormat,
        *,
        size_wh: tuple[int, int],
        stream: CudaStream,
        options: Mapping[str, str | int],
    ) -> HardwareEncoder:
        """An encoder that works on that stream of the GPU's primary context. Ask for its `support` before.

        Raises EncoderError, CudaError when the GPU does not work.
        """
        with self._gpu.guard("making a video encoder") as driver:
            driver.free_memory_bytes()
        try:
            made = self._module.CreateEncoder(
                *size_wh,
                FORMATS[pixel_format],
                False,  # images do not lie in host memory
                gpu_id=self._gpu.index,
                cudacontext=self._gpu.foreign_context,
                cudastream=stream.handle,
                **options,
            )
        except self._errors as error:
            raise EncoderError(gist(error)) from error
        return HardwareEncoder(made, flags=self._module.NV_ENC_PIC_FLAGS, errors=self._errors, gpu=self._gpu)

    def _asked(self, codec: str) -> EncoderSupport:
        try:
            caps = self._module.GetEncoderCaps(gpuid=self._gpu.index, codec=codec)
        except self._errors as error:
            lacks = "nvEncOpenEncodeSession" in str(error)
            raise EncoderError("NVENC opens no session on this GPU" if lacks else gist(error)) from error
        return EncoderSupport(
            is_supported=bool(caps.get("width_max")),
            min_size_wh=(caps.get("width_min", 0), caps.get("height_min", 0)),
            max_size_wh=(caps.get("width_max", 0), caps.get("height_max", 0)),
        )


class HardwareEncoder:
    """One encoder of the library; for one thread. Its calls raise EncoderError, after which it is of no use, and
    CudaError where the GPU is what failed.
    """

    def __init__(self, made: Any, *, flags: Any, errors: tuple[type[Exception], ...], gpu: CudaDevice) -> None:
        self._made = made
        self._errors = errors
        self._gpu = gpu
        self._key = int(flags.FORCEIDR) | int(flags.OUTPUT_SPSPPS)
        with self._guard():
            self.configuration: bytes = made.GetSequenceParams()
            """The parameter sets, with start codes."""

    def encode(self, planes: Sequence[DeviceArray], *, is_key: bool) -> list[EncodedImage]:
        """What comes out when this image goes in: its planes, without padding, for work on the encoder's stream. They
        may be let go of when this returns.
        """
        with self._guard():
            return _given(self._made.Encode(_Image(planes), self._key if is_key else 0))

    def set_rate(self, fps: Fraction) -> None:
        """From the next image on there are so many a second."""
        with self._guard():
            params = self._made.GetEncodeReconfigureParams()
            params.frameRateNum, params.frameRateDen = fps.numerator, fps.denominator
            self._made.Reconfigure(params)

    def finish(self) -> list[EncodedImage]:
        """What is left."""
        with self._guard():
            return _given(self._made.EndEncode())

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            with self._gpu.guard("encoding") as driver:
                driver.free_memory_bytes()  # a GPU that is broken says so
            raise EncoderError(gist(error)) from error


class _Image:
    """What PyNvVideoCodec takes for an image."""

    def __init__(self, planes: Sequence[DeviceArray]) -> None:
        self._planes = planes

    def cuda(self) -> list[_Plane]:
        """Its planes."""
        return [_Plane(plane) for plane in self._planes]


class _Plane:
    """What it takes for a plane: three axes, with luma having one sample."""

    def __init__(self, plane: DeviceArray) -> None:
        height, width, samples = plane.shape if len(plane.shape) == 3 else (*plane.shape, 1)
        self.__cuda_array_interface__ = {
            "shape": (height, width, samples),
            "strides": (plane.pitch_bytes, samples, 1),
            "typestr": plane.dtype.str,
            "data": (plane.address, False),
            "version": 3,
        }


def _given(packets: list[dict[str, Any]]) -> list[EncodedImage]:
    return [EncodedImage(one["timestamp"], one["data"], one["picture_type"] == _IDR) for one in packets]


def library_for(gpu: CudaDevice) -> NvencLibrary:
    """Return PyNvVideoCodec for a GPU. Raises EncoderError where it is missing, or the GPU has no encoder."""
    reason = reason_against_sessions(gpu)
    if reason is not None:
        raise EncoderError(reason)
    return NvencLibrary(_installed(), gpu=gpu)


@lru_cache(maxsize=1)
def _installed() -> Any:
    try:
        return import_module("PyNvVideoCodec")
    except ModuleNotFoundError as error:
        install = f"pip install 'sightline[{extra_for_driver()}]'"
        raise EncoderError(f"the package PyNvVideoCodec is missing: {install}") from error
    except (ImportError, RuntimeError) as error:
        raise EncoderError(f"PyNvVideoCodec cannot be imported: {gist(error)}") from error
