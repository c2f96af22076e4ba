"""What the head of a video file says of its images, before any is decoded."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from sightline.errors import SightlineError
from sightline_plugins.decode.open_media import OpenOptions, open_media, video_stream


@dataclass(frozen=True, slots=True)
class FileHead:
    """Codec (FFmpeg's name), size and frames a second of one video stream; `fps` is 0 where the head has none."""

    codec: str
    size_wh: tuple[int, int]
    fps: float


def read_head(uri: str, *, number: int = 0) -> FileHead | None:
    """Open a file, and return the head of its video stream with that number; None where it does not show."""
    options = OpenOptions()
    with suppress(SightlineError), open_media(uri, stream="", options=options) as container:
        video = video_stream(container, number=number, stream="", uri=uri, options=options)
        fps = float(video.average_rate or video.guessed_rate or 0)
        return FileHead(video.codec_context.codec.canonical_name, (video.width, video.height), fps)
    return None
