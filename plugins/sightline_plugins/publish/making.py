"""Where a stream's published pictures come from: passed on where that can be, else encoded."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.media import Frame
from sightline_plugins.publish.encoding import Encoding
from sightline_plugins.publish.passing import Passing
from sightline_plugins.publish.picture import Picture


class Making:
    """Decides frame by frame, and changes over at key pictures only. Used by one thread.

    Of a frame that a step has had which changes pictures, only what that step left is published, and nothing encoded
    before it either.
    """

    def __init__(self, *, passing: Passing, encoding: Encoding) -> None:
        self._passing = passing
        self._encoding = encoding
        self.encodes = False

    def pictures(self, frame: Frame, *, key: bool) -> Iterator[Picture]:
        """What is published of a frame; `key` asks for a key picture. Raises OutputError."""
        packet = self._passing.packet_of(frame)
        if packet is not None and self._passing.may_begin(packet):
            if self.encodes:
                self._encoding.pause()
            self.encodes = False
            yield from self._passing.pictures(frame, packet)
            return
        if frame.altered or not self.encodes:
            self._passing.stop(frame)
        yield from self._encoding.pictures(frame, key=key or not self.encodes)
        self.encodes = True

    def pause(self) -> None:
        """Nobody watches for now."""
        self._passing.pause()
        self._encoding.pause()
