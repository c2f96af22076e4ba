"""Small clips that tests make for themselves: frame n of a clip has the luma 16 + n everywhere."""

from __future__ import annotations

import struct
import zlib
from fractions import Fraction
from pathlib import Path
from typing import cast

import av
import numpy as np
from av.codec.context import Flags
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

SMALL, WIDE, TALL = (160, 96), (320, 192), (176, 144)
LUMA_BLACK = 16


def write_clip(
    path: Path,
    *,
    count: int = 50,
    fps: int = 25,
    key_every: int = 10,
    b_frames: int = 2,
    stamps_ms: list[int] | None = None,
    size_wh: tuple[int, int] = SMALL,
    codec: str = "libx264",
    sets_outside: bool = False,
) -> Path:
    """Write a clip; `stamps_ms` are its timestamps when they are not even. With `sets_outside` its parameter sets stand
    in the container only.
    """
    options = {"g": str(key_every), "bf": str(b_frames), "sc_threshold": "0", "preset": "ultrafast"}
    with av.open(path, "w") as container:
        stream = cast("VideoStream", container.add_stream(codec, rate=fps, options=options))
        stream.width, stream.height, stream.pix_fmt = *size_wh, "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000)
        if sets_outside:
            stream.codec_context.flags |= Flags.global_header
        for number in range(count):
            frame = _frame(number, size_wh)
            frame.pts = round(1000 * number / fps) if stamps_ms is None else stamps_ms[number]
            frame.time_base = Fraction(1, 1000)
            for packet in stream.encode(frame):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)
    return path


def write_changing(path: Path, *sizes_wh: tuple[int, int], count: int = 30) -> Path:
    """Write one transport stream in which the size changes, with so many frames of each."""
    with path.open("wb") as joined:
        for number, size_wh in enumerate(sizes_wh):
            stamps_ms = [40 * (count * number + frame) for frame in range(count)]
            part = path.with_name(f"{number}.ts")
            joined.write(write_clip(part, count=count, size_wh=size_wh, stamps_ms=stamps_ms).read_bytes())
    return path


def write_bomb(path: Path, *, side: int = 16_000) -> Path:
    """A small PNG that says it holds side x side pixels, and begins to."""
    body = zlib.compress(bytes((side * 3 + 1) * 64))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", body), (b"IEND", b"")]
    packed = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(packed))
    return path


def write_sound(path: Path) -> Path:
    """A file with sound and no video."""
    with av.open(path, "w") as container:
        stream = container.add_stream("pcm_s16le", rate=8000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 800), np.int16), format="s16", layout="mono")
        frame.sample_rate = 8000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)
    return path


def write_sounds(path: Path, *, count: int) -> Path:
    """A transport stream of so many sounds, whose numbers in it are not those that other files of ours use."""
    with av.open(path, "w", options={"mpegts_start_pid": "600"}) as container:
        for stream in [container.add_stream("mp2", rate=16000, layout="mono") for _ in range(count)]:
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 576), np.int16), format="s16", layout="mono")
            frame.sample_rate = 16000
            for packet in [*stream.encode(frame), *stream.encode(None)]:
                container.mux(packet)
    return path


def number_of(luma: int) -> int:
    """The number of the frame with that luma."""
    return luma - LUMA_BLACK


def _frame(number: int, size_wh: tuple[int, int]) -> VideoFrame:
    width, height = size_wh
    planes = np.full((height * 3 // 2, width), 128, np.uint8)
    planes[:height] = LUMA_BLACK + number
    return VideoFrame.from_ndarray(planes, "yuv420p")
