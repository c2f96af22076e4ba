"""A fake PyNvVideoCodec encoder.

The traps, as PyNvVideoCodec 2.2.4 has them: an image is read when the encoder's stream comes to it, not before; its
planes must have dense rows, three axes and even sizes; images come out three calls late, with numbers in the place of
timestamps; nothing is said of colours; who asks a GPU without an encoder what it encodes gets an exception; and options
that it does not know are passed over by the real one, and refused here.
"""

from __future__ import annotations

import ctypes
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntFlag
from fractions import Fraction
from math import prod
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from av.codec import CodecContext
from av.codec.context import Flags
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType, VideoFrame

from sightline.devices.cuda.device import CudaDevice
from sightline.errors import CudaFailed
from sightline_plugins.encode import nvenc_library
from sightline_plugins.encode.nvenc_library import NvencLibrary
from tests.fakes import FakeCudaDriver
from tests.fakes.nvdec import PyNvVCException, PyNvVCExceptionUnsupported
from tests.fakes.seams import Seam


class PicFlags(IntFlag):
    """`NV_ENC_PIC_FLAGS`: what is asked of one image."""

    FORCEINTRA = 1
    FORCEIDR = 2
    OUTPUT_SPSPPS = 4
    EOS = 8


@dataclass(frozen=True, slots=True)
class NvencCaps:
    """What the GPU encodes of one codec: the sizes of its images."""

    min_size_wh: tuple[int, int] = (145, 49)
    max_size_wh: tuple[int, int] = (4096, 4096)


@dataclass(frozen=True, slots=True)
class NvencFaults:
    """What goes wrong: calls of `Encode` that raise, calls of it and of `EndEncode` that lose what they should give,
    numbered from 0 over all encoders; no encoder can be made, because others have all sessions.
    """

    fail_at: frozenset[int] = frozenset()
    lose: frozenset[int] = frozenset()
    is_refused: bool = False


ADA: Mapping[str, NvencCaps] = MappingProxyType(
    {
        "h264": NvencCaps(),
        "hevc": NvencCaps((129, 33), (8192, 8192)),
        "av1": NvencCaps((192, 128), (8192, 8192)),
    }
)
"""What an L4 is said to encode."""
NO_NVENC: Mapping[str, NvencCaps] = MappingProxyType({})
"""What an A100, an H100 and an H200 encode."""


_ENCODERS = {"h264": "libx264", "hevc": "libx265"}
_PIXELS = {"NV12": "nv12", "YUV420": "yuv420p"}
_ENDLESS_GOP = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class HostEncoded:
    """An encoded image."""

    data: bytes
    is_key: bool


class HostEncoder:
    """Encodes one video without B-frames: each image gives its own at once. It says nothing of colours, and puts the
    parameter sets before every key frame. For one thread.
    """

    def __init__(self, codec: str, *, size_wh: tuple[int, int], layout: str, options: Mapping[str, str | int]) -> None:
        context = CodecContext.create(_ENCODERS[codec], "w")
        assert isinstance(context, VideoCodecContext)
        context.width, context.height = size_wh
        self._pixel_format = _PIXELS[layout]
        context.pix_fmt = "yuv420p"
        context.time_base, context.framerate = Fraction(1, 30), Fraction(30)
        context.gop_size, context.thread_count = _ENDLESS_GOP, 1
        context.flags |= Flags.global_header
        chosen = {"preset": "superfast", "tune": "zerolatency", "forced-idr": "1"}
        if codec == "hevc":
            chosen["x265-params"] = "log-level=error:frame-threads=1:pools=none:scenecut=0"
        if options["bitrate"]:
            context.bit_rate = int(options["bitrate"])
        else:
            chosen["crf"] = str(options["cq"])
        context.options = chosen
        context.open()
        self._context = context
        self._number = 0
        self.configuration = bytes(context.extradata or b"")

    def encode(self, rows: npt.NDArray[np.uint8], *, is_key: bool) -> HostEncoded:
        """The image whose planes lie one behind the other in these rows, (height * 3/2, width)."""
        frame = VideoFrame.from_ndarray(rows, self._pixel_format).reformat(format="yuv420p")
        frame.pts, frame.time_base = self._number, Fraction(1, 30)
        frame.pict_type = PictureType.I if is_key or not self._number else PictureType.NONE
        self._number += 1
        packets = self._context.encode(frame)
        assert len(packets) == 1, "the encoder holds images back"
        own = bytes(packets[0])
        begins = packets[0].is_keyframe
        return HostEncoded(self.configuration + own if begins else own, begins)


# ruff: noqa: N802, N815  the names are PyNvVideoCodec's


_HELD_BACK = 3
_IDR, _P = 3, 0
_SHAPES: Mapping[str, Callable[[int, int], Sequence[tuple[int, int, int]]]] = {
    "NV12": lambda width, height: ((height, width, 1), (height // 2, width // 2, 2)),
    "YUV420": lambda width, height: ((height, width, 1), *[(height // 2, width // 2, 1)] * 2),
}
"""The planes that it takes, by the name of the format."""


@dataclass(frozen=True, slots=True, eq=False)
class _Inside:
    """An image in the encoder's memory, there from an event on."""

    number: int
    rows: npt.NDArray[np.uint8]
    event: int
    is_key: bool


@dataclass(slots=True)
class Rate:
    """`structEncodeReconfigureParams`, of which nothing else is used."""

    frameRateNum: int
    frameRateDen: int


class PyNvEncoder:
    """One encoder. It waits for what it has in hand when nobody holds it."""

    def __init__(
        self,
        gpu: CudaDevice,
        *,
        size_wh: tuple[int, int],
        layout: str,
        stream: int,
        options: Mapping[str, str | int],
        faults: NvencFaults,
        number_of_call: Callable[[], int],
    ) -> None:
        self._gpu, self._stream = gpu, stream
        self._faults, self._number_of_call = faults, number_of_call
        self._size_wh = size_wh
        self._shapes = _SHAPES[layout](*size_wh)
        self._encoder = HostEncoder(str(options["codec"]), size_wh=size_wh, layout=layout, options=options)
        self._inside: deque[_Inside] = deque()
        self._count = 0
        self._is_spoilt = False
        self.rate = Rate(int(options["fps"]), 1)
        """How many images a second there are said to be."""

    def Encode(self, frame: Any, flags: int = 0, /) -> list[dict[str, Any]]:
        """Copy an image into the encoder's memory, in the order of its stream; what comes out is older."""
        if self._is_spoilt:
            raise PyNvVCException("the encoder failed before\n\nat PyNvEncoder.cpp:1")
        call = self._number_of_call()
        if call in self._faults.fail_at:
            self._is_spoilt = True
            raise PyNvVCException(
                "EncodeFrame : \nError code : 20\nError Type : nvEncEncodeImage API failed\nat NvEncoder_130.cpp:633"
            )
        planes = [_checked(plane, shape) for plane, shape in zip(frame.cuda(), self._shapes, strict=True)]
        self._take(planes, is_key=bool(flags & PicFlags.FORCEIDR))
        given = self._given(leave=_HELD_BACK)
        return [] if call in self._faults.lose else given

    def EndEncode(self) -> list[dict[str, Any]]:
        """All that is left."""
        is_lost = self._number_of_call() in self._faults.lose
        given = self._given(leave=0)
        return [] if is_lost else given

    def GetEncodeReconfigureParams(self) -> Rate:
        """What may be changed."""
        return Rate(self.rate.frameRateNum, self.rate.frameRateDen)

    def Reconfigure(self, params: Rate, /) -> bool:
        """Change it."""
        self.rate = params
        return True

    def GetSequenceParams(self) -> bytes:
        """The parameter sets."""
        return self._encoder.configuration

    def __del__(self) -> None:
        with suppress(CudaFailed), self._gpu.guard("letting go of an encoder") as driver:  # as C++: it is silent
            for one in self._inside:
                driver.synchronize_event(one.event)
                driver.destroy_event(one.event)

    def _take(self, planes: Sequence[tuple[int, int]], *, is_key: bool) -> None:
        width, height = self._size_wh
        rows = np.full((height * 3 // 2, width), 0xDB, np.uint8)

        def copy() -> None:
            at = rows.ctypes.data
            for address, size_bytes in planes:
                ctypes.memmove(at, address, size_bytes)
                at += size_bytes

        with self._gpu.guard("encoding") as driver:
            cast("FakeCudaDriver", driver).queue(self._stream, copy, uses=planes)
            event = driver.create_event()
            driver.record(event, stream=self._stream)
        self._inside.append(_Inside(self._count, rows, event, is_key))
        self._count += 1

    def _given(self, *, leave: int) -> list[dict[str, Any]]:
        given = []
        while len(self._inside) > leave:
            one = self._inside.popleft()
            with self._gpu.guard("encoding") as driver:
                driver.synchronize_event(one.event)
                driver.destroy_event(one.event)
            encoded = self._encoder.encode(one.rows, is_key=one.is_key)
            kind = _IDR if encoded.is_key else _P
            given.append({"data": encoded.data, "timestamp": one.number, "picture_type": kind})
        return given


def _checked(plane: Any, expected: tuple[int, int, int]) -> tuple[int, int]:
    """Address and size of a plane. Raises RuntimeError for one that is not just so."""
    said = plane.__cuda_array_interface__
    strides = (expected[1] * expected[2], expected[2], 1)
    if tuple(said["shape"]) != expected:
        raise RuntimeError(f"Invalid shape: {list(said['shape'])}, expected: {list(expected)}")
    if tuple(said["strides"]) != strides:
        raise RuntimeError(f"Invalid strides: {list(said['strides'])}, expected: {list(strides)}")
    if said["typestr"] != "|u1":
        raise RuntimeError(f"Could not encode CUDA array! Invalid typstr: {said['typestr']}")
    return said["data"][0], prod(expected)


# ruff: noqa: N802  the names are PyNvVideoCodec's


_NO_FAULTS = NvencFaults()
_OPTIONS = {"codec", "preset", "tuning_info", "rc", "bf", "gop", "fps", "cq", "bitrate", "maxbitrate"}
_ON = "\nat PyNvEncoder.cpp:1103\n"


class FakeNvenc:
    """Stands for the module PyNvVideoCodec, with one GPU, which it does not keep alive.

    `caps` is what that GPU encodes.
    """

    NV_ENC_PIC_FLAGS = PicFlags
    PyNvVCException = PyNvVCException
    PyNvVCExceptionUnsupported = PyNvVCExceptionUnsupported

    def __init__(
        self, gpu: CudaDevice, *, caps: Mapping[str, NvencCaps] = ADA, faults: NvencFaults = _NO_FAULTS
    ) -> None:
        self._gpu = weakref.ref(gpu)
        self._caps = caps
        self._faults = faults
        self._calls = 0
        self.open: weakref.WeakSet[PyNvEncoder] = weakref.WeakSet()
        """The encoders that there are."""
        self.made: list[dict[str, str | int]] = []
        """The options of every encoder that was made, with its `size` and `format`."""

    @property
    def open_count(self) -> int:
        """How many encoders there are."""
        return len(self.open)

    def GetEncoderCaps(self, gpuid: int = 0, codec: str = "h264") -> dict[str, int]:
        """What the GPU encodes of a codec; nothing for one that there is not."""
        del gpuid
        if not self._caps:
            raise PyNvVCException(
                "PyNvEncoderCaps : \nError code : 2\nError Type : m_nvenc.nvEncOpenEncodeSessionEx"
                f"(&encodeSessionExParams, &hEncoder) returned error 2{_ON}"
            )
        caps = self._caps.get(codec)
        if caps is None:
            return {}
        return {
            "num_encoder_engines": 2,
            "width_min": caps.min_size_wh[0],
            "height_min": caps.min_size_wh[1],
            "width_max": caps.max_size_wh[0],
            "height_max": caps.max_size_wh[1],
        }

    def CreateEncoder(
        self, width: int, height: int, fmt: str, usecpuinputbuffer: bool, **options: str | int
    ) -> PyNvEncoder:
        """An encoder on a stream."""
        gpu = self._gpu()
        assert gpu is not None, "the GPU is gone"
        where = (options.pop("gpu_id"), options.pop("cudacontext"), usecpuinputbuffer)
        assert where == (gpu.index, gpu.foreign_context, False), "not our GPU, context or memory"
        assert gpu.guard.cause is None, "making an encoder on a broken GPU ends the process"
        stream = int(options.pop("cudastream"))
        assert set(options) <= _OPTIONS, f"there are no options {set(options) - _OPTIONS}"
        assert options["bf"] == 0, "the double makes no B-frames"
        if fmt not in ("NV12", "YUV420"):
            raise PyNvVCExceptionUnsupported(f"PyNvEncoder : \nError code : 8\nError Type : Unknown format: {fmt}{_ON}")
        if self._faults.is_refused or options["codec"] not in self._caps:
            raise PyNvVCException(
                "PyNvEncoder : \nError code : 10\nError Type : m_nvenc.nvEncOpenEncodeSessionEx"
                f"(&encodeSessionExParams, &hEncoder) returned error 10{_ON}"
            )
        self.made.append({**options, "size": f"{width}x{height}", "format": fmt})
        encoder = PyNvEncoder(
            gpu,
            size_wh=(width, height),
            layout=fmt,
            stream=stream,
            options=options,
            faults=self._faults,
            number_of_call=self._number_of_call,
        )
        self.open.add(encoder)
        return encoder

    def _number_of_call(self) -> int:
        number, self._calls = self._calls, self._calls + 1
        return number


_LIBRARY = Seam(nvenc_library, "library_for")


def fake_nvenc(gpu: CudaDevice, *, caps: Mapping[str, NvencCaps] = ADA, faults: NvencFaults = _NO_FAULTS) -> FakeNvenc:
    """Let a fake of PyNvVideoCodec's encoder take its place on a GPU, which is a fake itself."""
    double = FakeNvenc(gpu, caps=caps, faults=faults)
    _LIBRARY.install(gpu, lambda gpu: NvencLibrary(double, gpu=gpu))
    return double
