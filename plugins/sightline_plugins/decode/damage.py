"""Damage: which images are not whole, from a loss until the next key frame that came whole."""

from __future__ import annotations

from av.packet import Packet
from av.video.stream import VideoStream

from sightline_plugins.decode.decoding import Image


class Damage:
    """Marks images. An image is damaged when something of it was lost or did not decode, or of one that it may be
    decoded from: all images are, until a key frame has come whole.
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

    def marks(self, image: Image, *, troubled: bool) -> bool:
        """Whether an image is damaged; `troubled` says that its decoder had to conceal errors."""
        whole_from = self._whole_from
        if self._is_hurt and whole_from is not None and (image.pts is None or image.pts >= whole_from):
            self._is_hurt = False
        if troubled or image.is_corrupt:
            self.hurt()
        return self._is_hurt
