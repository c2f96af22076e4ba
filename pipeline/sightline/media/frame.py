"""Streams and frames: who an image belongs to, where it stands and when it was taken."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, StrEnum

from sightline.media.surface import Surface
from sightline.media.views import Views

NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Stream:
    """One video input of a pipeline. State per stream is keyed by it (it is hashable and compares by value)."""

    name: str
    live: bool = False

    def __hash__(self) -> int:
        """Return the hash of the name, which is known already: steps look for the state of the stream of each frame."""
        return hash(self.name)


class TimeSource(StrEnum):
    """Whose clock a time of day is from: the camera's, told by its RTCP sender reports, or ours when it arrived."""

    RTCP = "rtcp"
    ARRIVAL = "arrival"


class Altered(Flag):
    """How a frame differs from the encoded image that it was decoded from; false where it does not."""

    NO = 0
    DRAWN = 1
    """Steps may have drawn overlays of what the batch tells; the encoded image shows nothing that they hide."""
    CHANGED = 2
    """It was turned, or a step may have hidden or changed something: the encoded image may show more."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One decoded image of one stream.

    `index` counts the frames of the stream from 0; `pts_ns` is the presentation time in the stream's own clock;
    `capture_ns` is the time of day (nanoseconds since the epoch) when it is known, and `time_source` says whose;
    `damaged` says that the image, or one it was decoded from, is not whole. `packet` is the number of the encoded
    image that it was decoded from, where such are kept (`sightline.graph.Packets`); `altered` says how this differs
    from that image: its source turned it, or a step that changes images has had it, whether or not it changed this one.
    `views` says of what parts a step composed it, such as the views of a fisheye camera; then boxes and points are
    pixels of this image, not of the camera's.
    """

    stream: Stream
    index: int
    pts_ns: int
    surface: Surface
    capture_ns: int | None = None
    damaged: bool = False
    time_source: TimeSource | None = None
    packet: int | None = None
    altered: Altered = Altered.NO
    views: Views | None = None

    @property
    def size_wh(self) -> tuple[int, int]:
        """Width and height of the image in pixels."""
        return self.surface.size_wh

    @property
    def pts_seconds(self) -> float:
        """The presentation time in seconds."""
        return self.pts_ns / NANOSECONDS
