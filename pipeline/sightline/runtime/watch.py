"""Watches: threads that tell when a file has changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from sightline.runtime.worker import Worker

_LOOK_EVERY_SECONDS = 0.25
_TIMEOUT_SECONDS = 1.0


class Watch(Worker):
    """Calls `on_change`, in its own thread, when a file has become another one.

    It looks four times a second: at the file that the path leads to now, so that links and mounted volumes whose
    target is exchanged are seen as well. A file that still changes from one look to the next, or is not there, is being
    written; it is told when it has come to rest.
    """

    def __init__(self, path: Path, *, on_change: Callable[[], object]) -> None:
        super().__init__(f"watch-{path.name}")
        self._path = path
        self._on_change = on_change
        self._stopping = Event()
        self._told = _state(path)

    def stop(self) -> None:
        """End it, and wait for that a little; for a watch that was never started, too."""
        self._stopping.set()
        if self.ident is not None:
            self.wait(_TIMEOUT_SECONDS)

    def work(self) -> None:
        """Look until it is stopped."""
        before = self._told
        while not self._stopping.wait(_LOOK_EVERY_SECONDS):
            now = _state(self._path)
            if now is not None and now == before and now != self._told:
                self._told = now
                self._on_change()
            before = now


@contextmanager
def watched(path: Path | None, *, on_change: Callable[[], object]) -> Iterator[None]:
    """Watch a file while the block is open; None: nothing."""
    if path is None:
        yield
        return
    watch = Watch(path, on_change=on_change)
    watch.start()
    try:
        yield
    finally:
        watch.stop()


def _state(path: Path) -> tuple[int, int, int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116  every field of it, in one call
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
