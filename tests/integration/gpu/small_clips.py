"""Small clips of the sample world: which a fake GPU draws on quickly."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av

COUNT = 8
SIZES = {"street": (224, 126), "gate": (192, 108)}
_FIRST = {"street": 100, "gate": 60}


def write_small_clip(source: Path, folder: Path) -> Path:
    """A few frames of a sample clip, made small."""
    size_wh, first = SIZES[source.stem], _FIRST[source.stem]
    path = folder / source.name
    with av.open(source) as container, av.open(path, "w") as made:
        video = container.streams.video[0]
        rate = Fraction(video.average_rate or 25)
        options = {"preset": "ultrafast", "g": "4", "bf": "0", "crf": "12"}
        stream = made.add_stream("libx264", rate=rate, options=options)
        stream.width, stream.height, stream.pix_fmt = *size_wh, "yuv420p"
        for number, frame in enumerate(container.decode(video)):
            if first <= number < first + COUNT:
                small = frame.reformat(*size_wh, format="yuv420p")
                small.pts, small.time_base = number - first, 1 / rate
                made.mux(stream.encode(small))
        made.mux(stream.encode(None))
    return path
