"""One stream as it is published: images are made once, and handed to everybody who watches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Lock
from typing import Protocol

from sightline.media import Frame
from sightline_plugins.publish.backlog import Backlog
from sightline_plugins.publish.image import Image

MOST_VIEWERS = 64
"""Viewers of one stream at the same time; who comes later is turned away."""


class Maker(Protocol):
    """Where the images of a stream come from."""

    encodes: bool
    """Whether images are made here, so that a key frame can be had whenever one is wanted."""

    def images(self, frame: Frame, *, key: bool) -> Iterator[Image]:
        """What is published of a frame; `key` asks for a key frame. Raises OutputError."""
        ...

    def pause(self) -> None:
        """Nobody watches for now."""
        ...


class Broadcast:
    """A stream from its first frame to its end.

    `publish` and `end` belong to the pipeline's thread; everything else may be called by any. While nobody watches,
    and nothing is written, no image is made.
    """

    def __init__(self, name: str, maker: Maker, *, write: Callable[[Image], None] | None = None) -> None:
        self.name = name
        self.images = self.key_frames = self.joined = self.most_viewers = 0
        self._maker = maker
        self._write = write
        self._lock = Lock()
        self._viewers: list[Backlog] = []
        self._newcomers: list[Backlog] = []
        self._asking = 0
        self._left = {"slow": 0, "skipped": 0}
        self._group: list[Image] = []
        self._is_over = False

    @property
    def encodes(self) -> bool:
        """Whether its images are encoded here, not passed on as they came."""
        return self._maker.encodes

    @property
    def is_over(self) -> bool:
        """Whether the stream has ended."""
        return self._is_over

    def publish(self, frame: Frame) -> None:
        """Hand a frame to all who watch. Waits for nobody. Raises OutputError."""
        with self._lock:
            newcomers, self._newcomers = self._newcomers, []
            is_watched = bool(self._viewers)
        if not is_watched and self._write is None:
            self._group.clear()
            self._maker.pause()
            return
        if not self._maker.encodes:
            for viewer in newcomers:
                self._show_group(viewer)
        for image in self._maker.images(frame, key=bool(newcomers)):
            self._hand_out(image)

    def join(self, viewer: Backlog, *, counts: bool = True) -> bool:
        """Begin to watch, with the next key frame where one can be made, else with the last one there was.

        One that only asks what the images are like does not count. False when the stream is over, or has as many
        viewers as there may be.
        """
        with self._lock:
            if self._is_over or len(self._viewers) >= MOST_VIEWERS:
                return False
            self._viewers.append(viewer)
            self._newcomers.append(viewer)
            self._asking += not counts
            self.joined += counts
            self.most_viewers = max(self.most_viewers, len(self._viewers) - self._asking)
            return True

    def leave(self, viewer: Backlog, *, counts: bool = True) -> None:
        """Watch no longer; harmless for who does not."""
        with self._lock:
            if viewer not in self._viewers:
                return
            self._viewers.remove(viewer)
            self._asking -= not counts
            if viewer in self._newcomers:
                self._newcomers.remove(viewer)
            self._left["slow"] += viewer.is_slow
            self._left["skipped"] += viewer.skipped

    def end(self) -> None:
        """The stream has ended: tell all who watch."""
        with self._lock:
            self._is_over = True
            viewers = list(self._viewers)
        for viewer in viewers:
            viewer.end()

    def counts(self) -> dict[str, int | bool]:
        """For the report: what was published, and to how many; `slow` viewers had to skip images."""
        with self._lock:
            slow = self._left["slow"] + sum(viewer.is_slow for viewer in self._viewers)
            skipped = self._left["skipped"] + sum(viewer.skipped for viewer in self._viewers)
        return {
            "encoded": self._maker.encodes,
            "images": self.images,
            "key_frames": self.key_frames,
            "viewers": self.joined,
            "most_viewers": self.most_viewers,
            "slow_viewers": slow,
            "skipped_images": skipped,
        }

    def _show_group(self, viewer: Backlog) -> None:
        for image in self._group:
            viewer.offer(image)

    def _hand_out(self, image: Image) -> None:
        self.images += 1
        self.key_frames += image.is_key
        if not self._maker.encodes:
            if image.is_key:
                self._group.clear()
            self._group.append(image)
        if self._write is not None:
            self._write(image)
        with self._lock:
            viewers = list(self._viewers)
        for viewer in viewers:
            viewer.offer(image)
