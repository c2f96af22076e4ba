"""Layouts: the stages of one list of steps, each in its thread."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock

from sightline.graph import Clock
from sightline.media import Stream
from sightline.runtime.link import Link
from sightline.runtime.parcel import Item, StreamEnd
from sightline.runtime.stage import Stage, StageThread, close_all


class Layout:
    """Runs stages until all have ended, or all have handed over to those of another layout.

    `on_stream_end` is called when the end of a stream has passed all stages, `on_ended` when the last stage has ended.
    """

    def __init__(
        self,
        stages: list[Stage],
        links: dict[str, Link[Item]],
        *,
        clock: Clock,
        on_error: Callable[[BaseException], None],
        on_stream_end: Callable[[Stream], None],
        on_ended: Callable[[Layout], None],
    ) -> None:
        self.links = links
        self.threads = [
            StageThread(
                stage,
                clock=clock,
                on_error=on_error,
                on_stream_end=self._count_stream_end,
                on_left=self._count_left,
            )
            for stage in stages
        ]
        self.ended = Event()
        self._on_stream_end = on_stream_end
        self._on_ended = on_ended
        self._lock = Lock()
        self._is_discarded = False
        self._running = len(stages)
        self._ends: dict[int, int] = {}

    @property
    def is_handed_over(self) -> bool:
        """Whether all stages have handed over."""
        return all(thread.handover is not None for thread in self.threads)

    @property
    def cpu_ns(self) -> int:
        """What the threads that have ended took."""
        return sum(thread.cpu_ns for thread in self.threads)

    def start(self) -> None:
        """Start all threads; when that is not possible, those that run are told to end, and the error is raised."""
        try:
            for thread in self.threads:
                thread.start()
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """End it although not all threads were started; harmless when called again."""
        if self._is_discarded:
            return
        self._is_discarded = True
        self.close()
        for thread in self.threads:
            if thread.ident is None:
                thread.leave()
                self._count_left()

    def close(self) -> None:
        """End it now; what is under way is dropped."""
        close_all([thread.stage for thread in self.threads])

    def hangs(self, *, seconds: float) -> bool:
        """Whether all threads that have not ended are in calls of operators that have gone on for so long."""
        running = [thread for thread in self.threads if thread.running]
        return bool(running) and all(thread.is_in_a_call_for(seconds) for thread in running)

    def disown(self) -> None:
        """Let go of the operators that were to go on elsewhere, when there is nothing that they can go on in."""
        for thread in self.threads:
            thread.disown()

    def _count_stream_end(self, mark: StreamEnd) -> None:
        with self._lock:
            left = self._ends.pop(mark.number, len(self.threads)) - 1
            if left:
                self._ends[mark.number] = left
        if not left:
            self._on_stream_end(mark.stream)

    def _count_left(self) -> None:
        with self._lock:
            self._running -= 1
            is_last = not self._running
        if is_last:
            self.ended.set()
            self._on_ended(self)
