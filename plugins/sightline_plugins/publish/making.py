"""Where a stream's published images come from: passed on where that can be, else encoded."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.media import Frame
from sightline_plugins.publish.encoding import Encoding
from sightline_plugins.publish.image import Image
from sightline_plugins.publish.passing import Passing


class Making:
    """Decides frame by frame, and changes over at key frames only. Used by one thread.

    Of a frame that a step has had which changes images, only what that step left is published, and nothing encoded
    before it either.
    """

    def __init__(self, *, passing: Passing, encoding: Encoding) -> None:
        self._passing = passing
        self._encoding = encoding
        self.encodes = False

    def images(self, frame: Frame, *, key: bool) -> Iterator[Image]:
        """What is published of a frame; `key` asks for a key frame. Raises OutputError."""
        packet = self._passing.packet_of(frame)
        if packet is not None and self._passing.may_begin(packet):
            if self.encodes:
                self._encoding.pause()
            self.encodes = False
            yield from self._passing.images(frame, packet)
            return
        if frame.altered or not self.encodes:
            self._passing.stop(frame)
        yield from self._encoding.images(frame, key=key or not self.encodes)
        self.encodes = True

    def pause(self) -> None:
        """Nobody watches for now."""
        self._passing.pause()
        self._encoding.pause()
