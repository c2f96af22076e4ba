"""Watch for files that change, and for operators and GPUs that do not answer."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from time import perf_counter_ns
from typing import TYPE_CHECKING

from sightline.graph import Message, MessageKind
from sightline.redaction import redact
from sightline.runtime import memory
from sightline.runtime.scheduling.node import Node
from sightline.runtime.threads import Worker

if TYPE_CHECKING:
    from sightline.devices.cuda.device import CudaDevice

_POLL_SECONDS = 0.25
_TIMEOUT_SECONDS = 1.0


class Watch(Worker):
    """Calls `on_change`, in its own thread, when a file has changed.

    It checks the file that the path leads to four times a second, so that a link or a mounted volume whose target
    changes counts as well. A file that differs from one check to the next, or is missing, is still being written: it is
    reported when it stays the same.
    """

    def __init__(self, path: Path, *, on_change: Callable[[], object]) -> None:
        super().__init__(f"watch-{path.name}")
        self._path = path
        self._on_change = on_change
        self._stopping = Event()
        self._reported = _state(path)

    def stop(self) -> None:
        """End it, and wait a short time for that; also for a watch that was never started."""
        self._stopping.set()
        if self.ident is not None:
            self.wait(_TIMEOUT_SECONDS)

    def work(self) -> None:
        """Check the file until it is stopped."""
        before = self._reported
        while not self._stopping.wait(_POLL_SECONDS):
            now = _state(self._path)
            if now is not None and now == before and now != self._reported:
                self._reported = now
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
_CHECK_SECONDS = 1.0


class Watchdog(Worker):
    """Checks the nodes and GPUs once a second, in its own thread, and posts a message when a node has been in the same
    call, or somebody has waited for a GPU, for eight seconds. It ends nothing: Python cannot stop a thread from
    outside. It also gives free memory back.
    """

    def __init__(
        self,
        nodes: Callable[[], Iterable[Node]],
        *,
        post: Callable[[Message], None],
        gpus: Sequence[CudaDevice] = (),
    ) -> None:
        super().__init__("watchdog")
        self._nodes = nodes
        self._gpus = gpus
        self._silent: set[CudaDevice] = set()
        self._post = post
        self._stopping = Event()
        self._reported: set[tuple[str, int]] = set()

    def stop(self) -> None:
        """Stop checking, and wait for the thread to end. Not from its own thread."""
        self._stopping.set()
        self.wait(_CHECK_SECONDS)

    def work(self) -> None:
        """Check the nodes until it is stopped."""
        given_back_ns = perf_counter_ns()
        while not self._stopping.wait(min(_CHECK_SECONDS, STUCK_SECONDS)):
            now_ns = perf_counter_ns()
            self.check(now_ns)
            if now_ns - given_back_ns >= memory.EVERY_SECONDS * 1e9:
                memory.give_back()
                given_back_ns = now_ns

    def check(self, now_ns: int) -> None:
        """Report every call that has taken too long, and every GPU that does not answer, once."""
        waiting = self._check_gpus(now_ns)
        seen: set[tuple[str, int]] = set()
        for node in self._nodes():
            call = node.call
            if call is None or now_ns - call.since_ns < STUCK_SECONDS * 1e9 or call.thread_id in waiting:
                continue
            key = node.element_id, call.since_ns
            seen.add(key)
            if key not in self._reported:
                seconds = (now_ns - call.since_ns) / 1e9
                text = f"it has not returned for {seconds:.0f} s; what comes after it waits"
                stack = _stack(call.thread_id)
                self._post(Message(MessageKind.ELEMENT_STUCK, text, element=node.element_id, details=stack))
        self._reported = seen

    def _check_gpus(self, now_ns: int) -> set[int]:
        """Return the threads that wait for GPUs that do not answer."""
        threads: set[int] = set()
        silent: set[CudaDevice] = set()
        for gpu in self._gpus:
            late = {
                thread: wait
                for thread, wait in list(gpu.guard.waits.items())
                if now_ns - wait.since_ns >= STUCK_SECONDS * 1e9
            }
            if late and gpu not in self._silent:
                longest = min(late.values(), key=lambda wait: wait.since_ns)
                seconds = (now_ns - longest.since_ns) / 1e9
                text = (
                    f"{gpu} has not answered for {seconds:.0f} s ({longest.doing}): what uses it waits until it does, "
                    "or until its driver reports an error"
                )
                self._post(Message(MessageKind.WARNING, text))
            if late:
                silent.add(gpu)
            threads.update(late)
        self._silent = silent
        return threads


def _stack(thread_id: int) -> str:
    frame = sys._current_frames().get(thread_id)  # noqa: SLF001  its documented name
    return "" if frame is None else redact("".join(traceback.format_stack(frame)))
