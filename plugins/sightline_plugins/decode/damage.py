"""Damage: which pictures are not whole, from a loss until the next key frame that came whole."""

from __future__ import annotations

from av.packet import Packet
from av.video.stream import VideoStream

from sightline_plugins.decode.decoding import Picture


class Damage:
    """Marks pictures. A picture is damaged when something of it was lost or did not decode, or of one that it may be
    decoded from: all pictures are, until a key frame has come whole.
    """

    def __init__(self) -> None:
        self._is_hurt = False
        self._was_missed = False
        self._whole_from: int | None = None

    def packet(self, packet: Packet[VideoStream], *, missed: bool) -> None:
        """A packet was read; `missed` says that others were lost on the way to it."""
        if missed:
            self.hurt()
        elif packet.is_keyframe and not packet.is_corrupt and not self._was_missed:
            self._whole_from = packet.pts if packet.pts is not None else packet.dts
        self._was_missed = missed

    def hurt(self) -> None:
        """Something was lost or did not decode."""
        self._is_hurt, self._whole_from = True, None

    def marks(self, picture: Picture, *, troubled: bool) -> bool:
        """Whether a picture is damaged; `troubled` says that its decoder had to conceal errors."""
        whole_from = self._whole_from
        if self._is_hurt and whole_from is not None and (picture.pts is None or picture.pts >= whole_from):
            self._is_hurt = False
        if troubled or picture.is_corrupt:
            self.hurt()
        return self._is_hurt
