"""What NVDEC would decode, decoded by FFmpeg: packets in, images out, as rows of bytes that lie as NVDEC's do."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, cast

import av.error
import numpy as np
import numpy.typing as npt
from av.codec import CodecContext
from av.codec.context import Flags
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

_NEUTRAL = 128


@dataclass(frozen=True, slots=True, eq=False)
class HostImage:
    """An image with the timestamp of its packet. `rows` are those of all planes, (rows, bytes), without padding."""

    timestamp: int
    layout: str
    chroma: str
    bit_depth: int
    size_wh: tuple[int, int]
    rows: npt.NDArray[np.uint8]

    @property
    def extent(self) -> tuple[int, int]:
        """How many rows there are, and how many bytes in each."""
        count, row_bytes = self.rows.shape
        return int(count), int(row_bytes)


class HostImages:
    """Decodes one stream as NVDEC's parser would have it; for one thread.

    An image comes out one packet late, as NVDEC's parser gives it when it knows that it is whole; with `is_immediate`
    it comes with its own packet, B-frames in the order in which they are decoded. A packet that does not decode gives
    the image before it once more.
    """

    def __init__(self, codec: str, *, is_immediate: bool) -> None:
        context = CodecContext.create(codec, "r")
        assert isinstance(context, VideoCodecContext)
        context.thread_count = 1
        if is_immediate:
            context.flags |= Flags.low_delay
        self._context = context
        self._timestamps: dict[int, int] = {}
        self._number = 0
        self._ready: deque[HostImage] = deque()
        self._last: HostImage | None = None

    def feed(self, data: bytes, timestamp: int, *, is_whole: bool) -> list[HostImage]:
        """The images that come out; `is_whole` says that the packet ends with its image."""
        packet = Packet(data)
        packet.pts = self._number
        self._timestamps[self._number] = timestamp
        self._number += 1
        try:
            self._take(self._context.decode(packet))
        except (av.error.FFmpegError, OSError):
            self._conceal(timestamp)
        return self._given(leave=0 if is_whole else 1)

    def finish(self) -> list[HostImage]:
        """The images that are left."""
        try:
            self._take(self._context.decode(None))
        finally:
            self._context.flush_buffers()
        return self._given(leave=0)

    def _take(self, frames: list[VideoFrame]) -> None:
        for frame in frames:
            timestamp = self._timestamps.pop(cast("int", frame.pts))
            self._last = _image(frame, timestamp)
            self._ready.append(self._last)

    def _conceal(self, timestamp: int) -> None:
        last = self._last
        if last is not None:
            again = HostImage(timestamp, last.layout, last.chroma, last.bit_depth, last.size_wh, last.rows)
            self._ready.append(again)

    def _given(self, *, leave: int) -> list[HostImage]:
        return [self._ready.popleft() for _ in range(len(self._ready) - leave)]


def resized(image: HostImage, size_wh: tuple[int, int]) -> HostImage:
    """An image of 8 bits with 4:2:0 in another size: what NVDEC does when the size changes under a decoder."""
    width, height = image.size_wh
    frame = VideoFrame.from_ndarray(image.rows[: height * 3 // 2], "nv12")
    assert (frame.width, frame.height) == (width, height)
    other = VideoReformatter().reformat(frame, *size_wh, "yuv420p")
    other.pts = 0
    return _image(other, image.timestamp)


def _image(frame: VideoFrame, timestamp: int) -> HostImage:
    planes, bit_depth = _planes(frame), frame.format.components[0].bits
    chroma = {1: "400", 3: "420"}[len(planes)] if planes[-1].shape != planes[0].shape or len(planes) == 1 else "444"
    if frame.interlaced_frame:
        planes = [_deinterlaced(plane) for plane in planes]
    if bit_depth > 8:
        planes = [plane << np.uint16(16 - bit_depth) for plane in planes]
    rows = np.concatenate(planes if chroma == "444" else _as_nv12(planes, bit_depth=bit_depth))
    names = {"444": ("YUV444", "YUV444_16Bit")}.get(chroma, ("NV12", "P016"))
    lying = np.ascontiguousarray(rows).view(np.uint8)
    return HostImage(timestamp, names[bit_depth > 8], chroma, bit_depth, (frame.width, frame.height), lying)


def _as_nv12(planes: list[npt.NDArray[Any]], *, bit_depth: int) -> list[npt.NDArray[Any]]:
    """Luma with an even number of columns, and chroma interleaved; neutral chroma where there is none."""
    luma = planes[0]
    height, width = luma.shape
    if width % 2:
        luma = np.pad(luma, ((0, 0), (0, 1)), mode="edge")
    if len(planes) == 1:
        neutral = _NEUTRAL << (8 if bit_depth > 8 else 0)
        return [luma, np.full((-(-height // 2), luma.shape[1]), neutral, luma.dtype)]
    return [luma, np.stack(planes[1:], axis=-1).reshape(planes[1].shape[0], -1)]


def _planes(frame: VideoFrame) -> list[npt.NDArray[Any]]:
    sample = np.dtype(np.uint8 if frame.format.components[0].bits == 8 else "<u2")
    return [
        np.ndarray((plane.height, plane.width), sample, plane, 0, (plane.line_size, sample.itemsize)).copy()  # type: ignore[arg-type]
        for plane in frame.planes
    ]


def _deinterlaced(plane: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One field, doubled."""
    return np.repeat(plane[::2], 2, axis=0)[: len(plane)]
