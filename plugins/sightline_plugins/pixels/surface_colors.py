"""From a surface's planes to red, green and blue: for the whole image, or for planes that were resized already."""

from __future__ import annotations

from typing import Literal

import av
import cv2
import numpy as np
import numpy.typing as npt
from av.video.reformatter import ColorRange as AvRange
from av.video.reformatter import Colorspace, VideoReformatter

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.color import rgb_from_yuv
from sightline.media.surface import Plane
from sightline_plugins.pixels.plane_resize import plane_view

ChannelOrder = Literal["rgb", "bgr", "gray"]
WholeRegion = tuple[int, int, int, int]

_SPACES = {
    ColorMatrix.BT601: Colorspace.ITU601,
    ColorMatrix.BT709: Colorspace.ITU709,
    ColorMatrix.BT2020: Colorspace.BT2020,
}
_RANGES = {ColorRange.LIMITED: AvRange.MPEG, ColorRange.FULL: AvRange.JPEG}
_FORMATS = {
    PixelFormat.I420: "yuv420p",
    PixelFormat.NV12: "yuv420p",
    PixelFormat.I422: "yuv422p",
    PixelFormat.I444: "yuv444p",
}
_FRAMES = 16
_STEP = 32
"""Widths are rounded up to this: swscale's vector code leaves a rest of less than 16 columns unconverted."""


def cut_planes(surface: Surface, region: WholeRegion, *, luma_only: bool = False) -> tuple[Plane, ...]:
    """Views of the planes below a region that begins on whole chroma samples; NV12's chroma is taken apart."""
    left, top, right, bottom = region
    across, down = surface.format.chroma_shift
    luma = surface.planes[0][top:bottom, left:right]
    if luma_only:
        return (luma,)
    chroma = [
        plane[top >> down : -(-bottom >> down), left >> across : -(-right >> across)] for plane in surface.planes[1:]
    ]
    if surface.format is PixelFormat.NV12:
        return luma, *cv2.split(chroma[0])
    return luma, *chroma


def colors_from_planes(
    planes: tuple[Plane, ...], surface: Surface, *, order: ChannelOrder, out: npt.NDArray[np.uint8]
) -> None:
    """Write Y, U, V planes of one size (or Y alone) into `out` by the surface's matrix and range.

    `out` is (h, w, 3), or (h, w, 1) for grey.
    """
    affine = rgb_from_yuv(surface.matrix, surface.range)
    if len(planes) == 1:
        samples = np.arange(256) * affine[0, 0] + affine[0] @ (0, 128, 128, 1)
        table = np.clip(np.rint(samples), 0, 255).astype(np.uint8)
        if order == "gray":
            out[..., 0] = cv2.LUT(planes[0], table)
            return
        cv2.cvtColor(cv2.LUT(planes[0], table), cv2.COLOR_GRAY2BGR, dst=out)
        return
    cv2.transform(cv2.merge(planes), affine if order == "rgb" else affine[::-1], dst=out)


class ImageColors:
    """Converts whole images to planes of red, green and blue, exactly as FFmpeg (so OpenCV and PyAV) does.

    Each chroma sample counts for all pixels that it covers. It keeps one frame for each format and size, so one
    belongs to one thread.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, int], tuple[av.VideoFrame, VideoReformatter]] = {}

    def planes(self, surface: Surface, region: WholeRegion) -> tuple[Plane, Plane, Plane]:
        """Red, green and blue of a region, each (H, W). Lets go of the GIL while it converts."""
        height, width = region[3] - region[1], region[2] - region[0]
        frame, reformatter = self._frame(_FORMATS[surface.format], -(-width // _STEP) * _STEP, height + height % 2)
        for index, plane in enumerate(cut_planes(surface, region)):
            plane_view(frame, index)[: plane.shape[0], : plane.shape[1]] = plane
        converted = reformatter.reformat(
            frame,
            format="gbrp",
            src_colorspace=_SPACES[surface.matrix],
            src_color_range=_RANGES[surface.range],
            threads=1,
        )
        green, blue, red = (plane_view(converted, index)[:height, :width] for index in range(3))
        return red, green, blue

    def _frame(self, pixel_format: str, width: int, height: int) -> tuple[av.VideoFrame, VideoReformatter]:
        key = (pixel_format, width, height)
        if key not in self._kept:
            if len(self._kept) >= _FRAMES:
                self._kept.clear()
            self._kept[key] = (av.VideoFrame(width, height, pixel_format), VideoReformatter())
        return self._kept[key]
