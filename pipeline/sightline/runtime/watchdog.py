"""Watch for files that change and for operators that do not return."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import perf_counter_ns

from sightline.graph import Message, MessageKind
from sightline.redaction import redact
from sightline.runtime.scheduling.node import Node
from sightline.runtime.threads import Worker

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


STUCK_SECONDS = 8.0
_GLANCE_SECONDS = 1.0


class Watchdog(Worker):
    """Looks at the nodes once a second, in its own thread, and posts a message when one has been in the same call for
    eight seconds, so that it is known within ten. It ends nothing: a thread of Python cannot be stopped from outside.
    """

    def __init__(self, nodes: Callable[[], Iterable[Node]], *, post: Callable[[Message], None]) -> None:
        super().__init__("watchdog")
        self._nodes = nodes
        self._post = post
        self._stopping = Event()
        self._told: set[tuple[str, int]] = set()

    def stop(self) -> None:
        """Look no more; the thread is gone afterwards. Not from its own thread."""
        self._stopping.set()
        self.wait(_GLANCE_SECONDS)

    def work(self) -> None:
        """Look until it is stopped."""
        while not self._stopping.wait(min(_GLANCE_SECONDS, STUCK_SECONDS)):
            self.look(perf_counter_ns())

    def look(self, now_ns: int) -> None:
        """Tell of every call that has taken too long, once."""
        seen: set[tuple[str, int]] = set()
        for node in self._nodes():
            call = node.call
            if call is None or now_ns - call.since_ns < STUCK_SECONDS * 1e9:
                continue
            key = node.element_id, call.since_ns
            seen.add(key)
            if key not in self._told:
                seconds = (now_ns - call.since_ns) / 1e9
                text = f"it has not returned for {seconds:.0f} s; what comes after it waits"
                stack = _stack(call.thread_id)
                self._post(Message(MessageKind.ELEMENT_STUCK, text, element=node.element_id, details=stack))
        self._told = seen


def _stack(thread_id: int) -> str:
    frame = sys._current_frames().get(thread_id)  # noqa: SLF001  its documented name
    return "" if frame is None else redact("".join(traceback.format_stack(frame)))
