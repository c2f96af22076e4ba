"""Surfaces as JPEG, straight from their planes, for people who look at a pipeline."""

from __future__ import annotations

from fractions import Fraction

from av import CodecContext, VideoCodecContext
from av.video.reformatter import ColorRange as AvRange
from av.video.reformatter import VideoReformatter

from sightline.media import ColorMatrix, Surface
from sightline_plugins.encode.images import AV_RANGE, SWS_MATRIX, ImageMaker

_QUALITY = "5"
"""The quantiser scale, 2 (best) to 31."""
_JFIF = "yuvj420p"


def encode_jpeg(surface: Surface, *, largest_wh: tuple[int, int]) -> bytes:
    """The image of a surface as JPEG (JFIF: BT.601, full range), made smaller to fit `largest_wh`."""
    whole = ImageMaker("yuv420p").from_surface(surface)
    scale = min(1.0, largest_wh[0] / whole.width, largest_wh[1] / whole.height)
    width, height = (max(2, round(side * scale / 2) * 2) for side in (whole.width, whole.height))
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
    encoder.options = {"qmin": _QUALITY, "qmax": _QUALITY}
    frame.pts = 0
    return b"".join(bytes(packet) for packet in (*encoder.encode(frame), *encoder.encode(None)))
