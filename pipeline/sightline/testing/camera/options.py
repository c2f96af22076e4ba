"""How a fake camera behaves when nothing is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sightline.rtsp.authentication import Scheme

Transport = Literal["tcp", "udp"]


@dataclass(frozen=True, slots=True)
class CameraOptions:
    """Traits of a server that stay as they are while it runs.

    Every session begins at the beginning of the clip; with `live` it joins what all see, perhaps between two key
    images. The clip is shown `passes` times (None: for ever) with timestamps that go on; then the session is ended,
    or, with `holds`, stays open in silence. Without `paced` images are sent as fast as the client takes them.
    """

    host: str = "127.0.0.1"
    transports: tuple[Transport, ...] = ("tcp", "udp")
    authentication: Scheme = "digest"
    paced: bool = True
    passes: int | None = None
    holds: bool = False
    live: bool = False
    sound: bool = False
    """Whether the description promises a sound track, on which nothing is ever sent."""
    report_seconds: float = 1.0
    """Time between two sender reports; the first goes before the first image."""
