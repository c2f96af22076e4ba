"""The clip that is measured: made larger where that is wanted, and again and again in one file."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av


def enlarged(path: Path, folder: Path, *, size_wh: tuple[int, int]) -> Path:
    """The clip with images of that size, encoded anew by libx264 as cameras do: without B-frames, 4 Mbit/s."""
    result = folder / "enlarged" / path.name
    result.parent.mkdir()
    with av.open(path) as container, av.open(result, "w") as made:
        video = container.streams.video[0]
        rate = Fraction(video.average_rate or 25)
        stream = made.add_stream("libx264", rate=rate, options={"preset": "superfast", "bf": "0", "b": "4M", "g": "50"})
        stream.width, stream.height, stream.pix_fmt = *size_wh, "yuv420p"
        for number, frame in enumerate(container.decode(video)):
            large = frame.reformat(*size_wh, format="yuv420p")
            large.pts, large.time_base = number, 1 / rate
            made.mux(stream.encode(large))
        made.mux(stream.encode(None))
    return result
