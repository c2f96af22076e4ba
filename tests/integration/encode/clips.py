"""Frames with smooth, moving content, and what comes back from a file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt

from sightline.media import ColorMatrix, ColorRange, Frame, PixelFormat, Stream
from sightline.media.convert import surface_from_rgb


def image(index: int, *, size_wh: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """An RGB image: colour gradients and a square that moves with the index."""
    width, height = size_wh
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    rgb = np.stack([x, y, (x + y) / 2], axis=-1).astype(np.uint8)
    left = index * 2 % max(1, width - 16)
    rgb[8:24, left : left + 16] = (230, 40, 40)
    return rgb


def frames_at(
    times_ns: Sequence[int],
    *,
    stream: str = "cam",
    size_wh: tuple[int, int] = (96, 64),
    pixel_format: PixelFormat = PixelFormat.I420,
    matrix: ColorMatrix = ColorMatrix.BT601,
    color_range: ColorRange = ColorRange.LIMITED,
) -> list[Frame]:
    """One frame at each of these times."""
    return [
        Frame(
            Stream(stream),
            index,
            time_ns,
            surface_from_rgb(
                image(index, size_wh=size_wh), pixel_format=pixel_format, matrix=matrix, color_range=color_range
            ).shared(),
        )
        for index, time_ns in enumerate(times_ns)
    ]


@dataclass(frozen=True, slots=True)
class Readback:
    """What a file holds."""

    codec: str
    time_base: Fraction
    ticks: tuple[int, ...]
    key_ticks: tuple[int, ...]
    rgb: tuple[npt.NDArray[np.uint8], ...]
    matrix: int
    range: int

    def times_ns(self) -> list[int]:
        """The time of each frame."""
        return [round(tick * self.time_base * 1_000_000_000) for tick in self.ticks]


def read_back(path: Path, *, is_cut: bool = False) -> Readback:
    """Decode a whole file; RGB by the file's own matrix and range. The last packet may be incomplete if it `is_cut`."""
    ticks, keys, images = [], [], []
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        with suppress(av.error.InvalidDataError) if is_cut else nullcontext():
            for frame in container.decode(stream):
                assert frame.pts is not None
                ticks.append(frame.pts)
                if frame.key_frame:
                    keys.append(frame.pts)
                images.append(_rgb(frame))
        context = stream.codec_context
        assert stream.time_base is not None
        return Readback(
            codec=context.name,
            time_base=stream.time_base,
            ticks=tuple(ticks),
            key_ticks=tuple(keys),
            rgb=tuple(images),
            matrix=context.colorspace,
            range=context.color_range,
        )


def _rgb(frame: av.VideoFrame) -> npt.NDArray[np.uint8]:
    matrix = {1: 1, 9: 9}.get(frame.colorspace, 5)
    rgb = frame.reformat(format="rgb24", src_colorspace=matrix, src_color_range=frame.color_range, dst_color_range=2)
    return rgb.to_ndarray().astype(np.uint8)


def psnr(a: npt.NDArray[np.uint8], b: npt.NDArray[np.uint8]) -> float:
    """Peak signal-to-noise ratio in dB."""
    error = float(np.mean((a.astype(np.float64) - b) ** 2))
    return 10 * math.log10(255**2 / max(1e-9, error))
