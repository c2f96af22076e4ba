"""An encoder of the double of PyNvVideoCodec."""
# ruff: noqa: N802, N815  the names are PyNvVideoCodec's

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from sightline.devices.gpu.gpu import Gpu
from sightline.errors import GpuFailed
from sightline.testing.gpu import DoubleDriver
from sightline_plugins.testing.nvdec_names import PyNvVCException
from sightline_plugins.testing.nvenc_images import HostEncoder
from sightline_plugins.testing.nvenc_names import NvencFaults, PicFlags

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
        gpu: Gpu,
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
        with suppress(GpuFailed), self._gpu.guard("letting go of an encoder") as driver:  # as C++: it is silent
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
            cast("DoubleDriver", driver).queue(self._stream, copy, uses=planes)
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
