"""Resizing one plane of 8-bit samples; the three filters that pre-processing knows, each by its fastest exact way."""

from __future__ import annotations

from typing import Literal

import av
import cv2
import numpy as np
from av.video.reformatter import Interpolation, VideoReformatter

from sightline.media.surface import Plane

Resize = Literal["bilinear", "area", "nearest", "antialias"]

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
