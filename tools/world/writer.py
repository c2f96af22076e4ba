"""Writes images as H.264 in MP4."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import av
import av.video.reformatter as reformat
from tools.world.arrays import RgbImage

GROUP_SECONDS = 2.0


def write_video(
    images: Iterable[RgbImage], *, path: Path, size_wh: tuple[int, int], fps: int, crf: int, preset: str = "veryslow"
) -> None:
    """Encode RGB images with libx264: yuv420p, BT.709, limited range, a key frame every two seconds."""
    options = {
        "crf": str(crf),
        "preset": preset,
        "threads": "1",
        "x264-params": f"keyint={round(fps * GROUP_SECONDS)}:scenecut=0",
    }
    with av.open(str(path), "w", options={"movflags": "+faststart"}) as container:
        stream = container.add_stream("libx264", rate=fps, options=options)
        stream.width, stream.height = size_wh
        stream.pix_fmt = "yuv420p"
        stream.time_base = Fraction(1, fps)
        context = stream.codec_context
        context.colorspace, context.color_range = 1, 1
        context.color_primaries, context.color_trc = 1, 1
        for index, image in enumerate(images):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24").reformat(
                format="yuv420p",
                src_colorspace=reformat.Colorspace.ITU709,
                dst_colorspace=reformat.Colorspace.ITU709,
                src_color_range=reformat.ColorRange.JPEG,
                dst_color_range=reformat.ColorRange.MPEG,
            )
            frame.pts, frame.time_base = index, Fraction(1, fps)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
