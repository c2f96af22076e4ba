"""Resize planes and convert them to RGB on the CPU."""

from __future__ import annotations

import av
import numpy as np
import numpy.typing as npt
from av.video.reformatter import ColorRange as AvRange
from av.video.reformatter import Colorspace, Interpolation, VideoReformatter

from sightline.media import ColorMatrix, ColorRange, PixelFormat, Surface
from sightline.media.color import rgb_from_yuv
from sightline.media.surface import Plane
from sightline_plugins.opencv import cv2
from sightline_plugins.preprocess.definition import ChannelOrder, Resize

_SWSCALE = {"area": Interpolation.AREA, "antialias": Interpolation.BILINEAR}
_CONTEXTS = 64
_NARROW = 32
"""Below this width swscale's vectors would span more than a row."""
_OPENCV = {
    "bilinear": cv2.INTER_LINEAR,
    "nearest": cv2.INTER_NEAREST_EXACT,
    "area": cv2.INTER_AREA,
    "antialias": cv2.INTER_LINEAR,
}


class PlaneResizer:
    """Resizes planes with half-pixel centres; keeps what it needs for each pair of sizes, so one belongs to one thread.

    `bilinear` mixes the two nearest samples each way, without antialiasing; `nearest` takes the one whose centre is
    nearest; `area` averages what each new sample covers; `antialias` weighs what is around it by a triangle as wide as
    two new samples (the bilinear filter of Pillow and torchvision). Averages come from swscale, whose weights are the
    exact areas and which is six times faster than OpenCV's loop; of an image's samples one in a hundred differs, by 1.
    """

    def __init__(self, method: Resize) -> None:
        self.method = method
        self._contexts: dict[tuple[int, ...], VideoReformatter] = {}

    def resize(self, plane: Plane, *, size_wh: tuple[int, int]) -> Plane:
        """The plane (H, W) at the new size (h, w); the plane itself when it has that size. Lets go of the GIL."""
        height, width = plane.shape
        if (width, height) == size_wh:
            return plane
        if self.method in _SWSCALE and is_averaged((width, height), target_wh=size_wh):
            return self._average(plane, size_wh)
        resized: Plane = cv2.resize(plane, size_wh, interpolation=_OPENCV[self.method])
        return resized

    def _average(self, plane: Plane, size_wh: tuple[int, int]) -> Plane:
        height, width = plane.shape
        key = (width, height, *size_wh)
        context = self._contexts.get(key)
        if context is None:
            if len(self._contexts) >= _CONTEXTS:
                self._contexts.clear()
            context = self._contexts[key] = VideoReformatter()
        if plane.strides[0] < width or plane.strides[1] != 1:
            plane = plane.copy()
        frame = av.VideoFrame.from_numpy_buffer(plane, format="gray")
        return plane_view(
            context.reformat(
                frame, *size_wh, interpolation=_SWSCALE[self.method] | Interpolation.ACCURATE_RND, threads=1
            ),
            0,
        )


def is_averaged(size_wh: tuple[int, int], *, target_wh: tuple[int, int]) -> bool:
    """Whether a plane of that size is averaged when a filter that does so makes it as large as `target_wh`."""
    return size_wh[0] >= max(target_wh[0], _NARROW) and size_wh[1] >= target_wh[1]


def plane_view(frame: av.VideoFrame, index: int) -> Plane:
    """A plane of 8-bit samples of a PyAV frame, without its padding, as a view that keeps the frame alive."""
    plane = frame.planes[index]
    samples: Plane = np.frombuffer(plane, np.uint8)  # type: ignore[call-overload]
    return samples.reshape(-1, plane.line_size)[: plane.height, : plane.width]


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
