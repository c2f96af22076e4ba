"""Surfaces from decoded frames: views of the decoder's planes wherever the format has 8 bits and is one of ours.

Everything else is converted by swscale to the nearest such format: 10 and 12 bits become 8, alpha goes, palettes and
planar RGB become RGB, rare chroma layouts the next finer one; matrix and range stay what they are.

A frame that does not say its colour matrix is taken as BT.601, and one that does not say its range as limited,
whatever its size: what FFmpeg's converter and OpenCV do, hence what models saw in training. One that says BT.709
or BT.2020 is taken at its word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from av.video.format import VideoFormat
from av.video.frame import VideoFrame
from av.video.reformatter import ColorRange as SwsRange
from av.video.reformatter import Colorspace, Interpolation, VideoReformatter

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.surface import Plane
from sightline_plugins.decode.orientation import UPRIGHT, Orientation, orientation_of, turn

_NATIVE = {
    "yuv420p": PixelFormat.I420,
    "yuvj420p": PixelFormat.I420,
    "yuv422p": PixelFormat.I422,
    "yuvj422p": PixelFormat.I422,
    "yuv444p": PixelFormat.I444,
    "yuvj444p": PixelFormat.I444,
    "nv12": PixelFormat.NV12,
    "gray": PixelFormat.GRAY8,
    "rgb24": PixelFormat.RGB24,
    "bgr24": PixelFormat.BGR24,
}
_SWS_NAME = {
    PixelFormat.I420: "yuv420p",
    PixelFormat.I422: "yuv422p",
    PixelFormat.I444: "yuv444p",
    PixelFormat.GRAY8: "gray",
    PixelFormat.RGB24: "rgb24",
}
# Numbers of ITU-T H.273 (MatrixCoefficients); SMPTE 240M (7) lies next to BT.709.
_MATRIX = {1: ColorMatrix.BT709, 7: ColorMatrix.BT709, 9: ColorMatrix.BT2020, 10: ColorMatrix.BT2020}


@dataclass(frozen=True, slots=True)
class Layout:
    """What all frames of the same format, size and colour description have in common."""

    pixel_format: PixelFormat
    native: bool
    size_wh: tuple[int, int]
    shapes: tuple[tuple[int, ...], ...]
    matrix: ColorMatrix
    range: ColorRange


class FrameSurfaces:
    """Makes the surfaces of one stream's frames; for one thread.

    `orientation` turns every image; None follows each key frame's metadata.
    """

    def __init__(self, *, orientation: Orientation | None = None) -> None:
        self._automatic = orientation is None
        self._orientation = orientation or UPRIGHT
        self._rotation: int | None = None
        self._reformatter = VideoReformatter()
        self._key: tuple[str, int, int, int, int] | None = None
        self._layout: Layout | None = None

    def follow(self, frame: VideoFrame) -> Orientation:
        """Which way up the image of a frame is. Every frame is shown once, in order; its metadata is read only when
        its angle is another one.
        """
        if self._automatic and (frame.key_frame or self._rotation is None) and frame.rotation != self._rotation:
            self._rotation = frame.rotation
            self._orientation = orientation_of(frame)
        return self._orientation

    def surface(self, frame: VideoFrame, *, orientation: Orientation | None = None) -> Surface:
        """The image of a frame, turned as `follow` said of it; that is asked now when it is not given.

        Native formats are viewed, not copied: the surface keeps the frame alive.
        """
        upright = self.follow(frame) if orientation is None else orientation
        key = (frame.format.name, frame.width, frame.height, frame.colorspace, frame.color_range)
        if key != self._key or self._layout is None:
            self._key, self._layout = key, layout_of(frame)
        layout = self._layout
        if layout.pixel_format is PixelFormat.I422 and upright.transposed:
            finer = self._convert(frame, PixelFormat.I444, layout.range)
            surface = _view(finer, _with_format(layout, PixelFormat.I444), exclusive=True)
        elif layout.native:
            surface = _view(frame, layout, exclusive=False)
        else:
            surface = _view(self._convert(frame, layout.pixel_format, layout.range), layout, exclusive=True)
        return turn(surface, upright) if upright != UPRIGHT else surface

    def _convert(self, frame: VideoFrame, pixel_format: PixelFormat, color_range: ColorRange) -> VideoFrame:
        same_range = SwsRange.JPEG if color_range is ColorRange.FULL else SwsRange.MPEG
        return self._reformatter.reformat(
            frame,
            format=_SWS_NAME[pixel_format],
            src_colorspace=Colorspace.ITU601,
            dst_colorspace=Colorspace.ITU601,
            src_color_range=same_range,
            dst_color_range=same_range,
            interpolation=Interpolation.BILINEAR | Interpolation.ACCURATE_RND,
            threads=1,
        )


def layout_of(frame: VideoFrame) -> Layout:
    """How a frame becomes a surface."""
    native = _NATIVE.get(frame.format.name)
    return _make_layout(
        native or _nearest(frame.format),
        native=native is not None,
        size_wh=(frame.width, frame.height),
        matrix=_MATRIX.get(frame.colorspace, ColorMatrix.BT601),
        color_range=_range_of(frame),
    )


def _make_layout(
    pixel_format: PixelFormat, *, native: bool, size_wh: tuple[int, int], matrix: ColorMatrix, color_range: ColorRange
) -> Layout:
    return Layout(pixel_format, native, size_wh, pixel_format.plane_shapes(size_wh), matrix, color_range)


def _with_format(layout: Layout, pixel_format: PixelFormat) -> Layout:
    return _make_layout(
        pixel_format, native=False, size_wh=layout.size_wh, matrix=layout.matrix, color_range=layout.range
    )


def _range_of(frame: VideoFrame) -> ColorRange:
    is_full = frame.color_range == SwsRange.JPEG or frame.format.name.startswith("yuvj") or frame.format.is_rgb
    return ColorRange.FULL if is_full else ColorRange.LIMITED


def _nearest(video_format: VideoFormat) -> PixelFormat:
    """The format of ours with the same kind of samples and at least as fine chroma, where there is one."""
    if video_format.is_rgb or video_format.has_palette or video_format.is_bayer or video_format.name.startswith("xyz"):
        return PixelFormat.RGB24
    if sum(not component.is_alpha for component in video_format.components) < 3:
        return PixelFormat.GRAY8
    # A format made for an arbitrary even size says by how much its chroma is smaller.
    sized = VideoFormat(video_format.name, 64, 64)
    across, down = 64 // sized.chroma_width(64), 64 // sized.chroma_height(64)
    if across == 1:
        return PixelFormat.I444
    return PixelFormat.I422 if down == 1 else PixelFormat.I420


def _view(frame: VideoFrame, layout: Layout, *, exclusive: bool) -> Surface:
    planes = []
    for plane, shape in zip(frame.planes, layout.shapes, strict=False):
        stride = plane.line_size
        strides = (abs(stride), 1) if len(shape) == 2 else (abs(stride), shape[2], 1)
        view: Plane = np.ndarray(shape, np.uint8, plane, 0, strides)  # type: ignore[arg-type]
        if stride < 0:
            view = np.ascontiguousarray(view[::-1])
        if not exclusive:
            view.setflags(write=False)
        planes.append(view)
    return Surface(
        layout.pixel_format,
        layout.size_wh,
        tuple(planes),
        layout.matrix,
        layout.range,
        owner=frame,
        exclusive=exclusive,
    )
