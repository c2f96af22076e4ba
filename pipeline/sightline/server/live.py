"""Live video: who makes the images of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from starlette.websockets import WebSocket

from sightline.graph import Packets
from sightline.installed import installed
from sightline.media import Batch

LIVE_VIDEO = "sightline.live"
"""Entry points of live video: `video` = module:function, which takes a pipeline's packets and returns a `LiveVideo`."""


class LiveVideo(Protocol):
    """Shows the streams of a pipeline to viewers; it costs nothing while there are none."""

    def take(self, batch: Batch, arrivals_ns: Sequence[int]) -> None:
        """Take frames, with the monotonic time at which each arrived. From the pipeline's threads; never waits."""
        ...

    async def watch(self, socket: WebSocket, stream: str, plays: Collection[str]) -> None:
        """Play a stream to a viewer, until either side goes away; `plays` are the codecs that its browser decodes."""
        ...

    def close(self) -> None:
        """End all connections. In the event loop; it waits for nothing."""
        ...


def live_video(packets: Packets) -> LiveVideo | None:
    """Make the live video of a pipeline with these packets; None when no package offers it."""
    found = installed(LIVE_VIDEO).select(name="video")
    if not found:
        return None
    made: LiveVideo = next(iter(found)).load()(packets)
    return made
