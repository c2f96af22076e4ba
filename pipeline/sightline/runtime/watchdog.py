"""The watchdog: tells of steps that do not return from what they do, with their stack."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable
from threading import Event
from time import perf_counter_ns

from sightline.graph import Message, MessageKind
from sightline.redaction import redact
from sightline.runtime.node import Node
from sightline.runtime.worker import Worker

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
