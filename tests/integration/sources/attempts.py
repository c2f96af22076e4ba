"""One attempt at reading a source."""

from __future__ import annotations

from sightline.devices import Device
from sightline.errors import StreamError
from sightline.graph import Site, SourceElement
from sightline.media import Stream


def count(source: SourceElement) -> tuple[int, str]:
    """How many frames a source gives in one attempt, and how that ends."""
    reader = source.build(Site(device=Device()), stream=Stream("gate"))
    frames = 0
    try:
        for _ in reader.frames():
            frames += 1
    except StreamError as error:
        return frames, str(error)
    finally:
        reader.close()
    return frames, ""
