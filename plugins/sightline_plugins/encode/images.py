"""Surfaces as images for encoders, JPEG and PNG."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from av import CodecContext, VideoCodecContext, VideoFrame
from av.video.reformatter import ColorRange as AvRange
from av.video.reformatter import VideoReformatter

from sightline.errors import OutputError
from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface

_AV_FORMAT = {
    PixelFormat.I420: "yuv420p",
    PixelFormat.I422: "yuv422p",
    PixelFormat.I444: "yuv444p",
    PixelFormat.NV12: "nv12",
    PixelFormat.GRAY8: "yuv420p",
    PixelFormat.RGB24: "rgb24",
    PixelFormat.BGR24: "bgr24",
}
_NEUTRAL_CHROMA = 128

AV_RANGE = {ColorRange.LIMITED: AvRange.MPEG, ColorRange.FULL: AvRange.JPEG}
"""The range as FFmpeg numbers it (AVColorRange)."""

AV_MATRIX = {ColorMatrix.BT601: 6, ColorMatrix.BT709: 1, ColorMatrix.BT2020: 9}
"""The matrix as FFmpeg and ITU-T H.273 number it: smpte170m, bt709, bt2020nc."""

AV_TRANSFER = {ColorMatrix.BT601: 6, ColorMatrix.BT709: 1, ColorMatrix.BT2020: 14}
"""The transfer that goes with a matrix, as FFmpeg and ITU-T H.273 number it; primaries have the numbers of
matrices.
"""

SWS_MATRIX = {ColorMatrix.BT601: 5, ColorMatrix.BT709: 1, ColorMatrix.BT2020: 9}
"""The matrix as FFmpeg's scaler numbers it."""


def even_size(size_wh: tuple[int, int]) -> tuple[int, int]:
    """The size rounded up to even numbers, which 4:2:0 video needs."""
    width, height = size_wh
    return width + width % 2, height + height % 2


class ImageMaker:
    """Makes frames of one pixel format for an encoder; keeps the scaler's tables between images."""

    def __init__(self, av_format: str) -> None:
        self._av_format = av_format
        self._reformatter = VideoReformatter()

    def from_surface(self, surface: Surface) -> VideoFrame:
        """A new frame with the image of a surface, its last row and column repeated where the size is odd. 4:2:2,
        4:4:4 and RGB are converted to 4:2:0 by the surface's matrix and range.
        """
        width, height = even_size(surface.size_wh)
        frame = VideoFrame(width, height, _AV_FORMAT[surface.format])
        _fill(frame, surface.to_host())
        if frame.format.name != self._av_format:
            frame = self._convert(frame, surface)
        frame.colorspace = AV_MATRIX[surface.matrix]
        frame.color_range = AV_RANGE[surface.range]
        return frame

    def _convert(self, frame: VideoFrame, surface: Surface) -> VideoFrame:
        source_range = AV_RANGE[surface.range] if surface.format.is_yuv else AvRange.JPEG
        return self._reformatter.reformat(
            frame,
            format=self._av_format,
            src_colorspace=SWS_MATRIX[surface.matrix],
            dst_colorspace=SWS_MATRIX[surface.matrix],
            src_color_range=source_range,
            dst_color_range=AV_RANGE[surface.range],
        )


def _fill(frame: VideoFrame, surface: Surface) -> None:
    for index, plane in enumerate(surface.planes):
        _copy_padded(_plane_view(frame, index, plane.shape), plane)
    for index in range(len(surface.planes), len(frame.planes)):
        chroma: Any = frame.planes[index]
        np.frombuffer(chroma, np.uint8)[:] = _NEUTRAL_CHROMA


def _plane_view(frame: VideoFrame, index: int, like: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """The samples of a plane of the frame, (height, width) or (height, width, samples), without the row padding."""
    plane: Any = frame.planes[index]
    rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[: plane.height]
    samples = like[2] if len(like) == 3 else 1
    flat = rows[:, : plane.width * samples]
    return flat.reshape(plane.height, plane.width, samples) if samples > 1 else flat


def _copy_padded(target: npt.NDArray[np.uint8], plane: npt.NDArray[np.uint8]) -> None:
    height, width = plane.shape[:2]
    target[:height, :width] = plane
    target[:height, width:] = plane[:, -1:]
    target[height:] = target[height - 1 : height]


_SCALES = (2, 31)
"""The quantiser scale, from the best to the worst; 8 is the quality 50 of other JPEG encoders."""
_JFIF = "yuvj420p"
_PNG_EFFORT = 3


def jpeg_size(size_wh: tuple[int, int], *, largest_wh: tuple[int, int]) -> tuple[int, int]:
    """The width and height of the JPEG that `encode_jpeg` makes of an image of that size; both are even."""
    width, height = even_size(size_wh)
    scale = min(1.0, largest_wh[0] / width, largest_wh[1] / height)
    return max(2, round(width * scale / 2) * 2), max(2, round(height * scale / 2) * 2)


def encode_jpeg(surface: Surface, *, largest_wh: tuple[int, int], quality: int = 69) -> bytes:
    """The image of a surface as JPEG (JFIF: BT.601, full range), made smaller to fit `largest_wh`.

    `quality` is from 1 to 100, as for other encoders of JPEG (those of libjpeg's scale).
    """
    whole = ImageMaker("yuv420p").from_surface(surface)
    width, height = jpeg_size(surface.size_wh, largest_wh=largest_wh)
    frame = VideoReformatter().reformat(
        whole,
        width=width,
        height=height,
        format=_JFIF,
        src_colorspace=SWS_MATRIX[surface.matrix],
        dst_colorspace=SWS_MATRIX[ColorMatrix.BT601],
        src_color_range=AV_RANGE[surface.range],
        dst_color_range=AvRange.JPEG,
    )
    encoder = CodecContext.create("mjpeg", "w")
    assert isinstance(encoder, VideoCodecContext)
    encoder.width, encoder.height, encoder.pix_fmt = width, height, _JFIF
    encoder.time_base, encoder.thread_count = Fraction(1, 25), 1
    scale_text = str(_quantiser_scale(quality))
    encoder.options = {"qmin": scale_text, "qmax": scale_text}
    frame.pts = 0
    return b"".join(bytes(packet) for packet in (*encoder.encode(frame), *encoder.encode(None)))


def encode_png(rgb: npt.NDArray[np.uint8]) -> bytes:
    """An image (height, width, 3), RGB, as PNG: every level as it is."""
    from sightline_plugins.opencv import cv2

    is_made, data = cv2.imencode(".png", rgb[..., ::-1], [cv2.IMWRITE_PNG_COMPRESSION, _PNG_EFFORT])
    assert is_made, "OpenCV encodes every image of 8 bits"
    return data.tobytes()


def encode_rgb(rgb: npt.NDArray[np.uint8], *, suffix: str, quality: int) -> bytes:
    """An image (height, width, 3), RGB, in its own size, as JPEG or PNG (`suffix`); `quality` (1..100) is of JPEG.

    Raises OutputError for a size that the format does not have.
    """
    from sightline_plugins.opencv import cv2

    options = [] if suffix.lower() == ".png" else [cv2.IMWRITE_JPEG_QUALITY, quality]
    is_made, data = cv2.imencode(suffix, np.ascontiguousarray(rgb[..., ::-1]), options)
    if not is_made:
        raise OutputError(f"an image of {rgb.shape[1]} x {rgb.shape[0]} pixels cannot be saved as {suffix}")
    return data.tobytes()


def _quantiser_scale(quality: int) -> int:
    """FFmpeg's quantiser scale for a quality of libjpeg, which multiplies its tables by a percentage."""
    percent = 200 - 2 * quality if quality >= 50 else 5000 / quality
    best, worst = _SCALES
    return min(max(round(percent * 8 / 100), best), worst)
