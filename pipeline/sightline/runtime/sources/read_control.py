"""What other threads want of the thread that reads a stream: stop, pause, go on, or send into another slot."""

from __future__ import annotations

from threading import Condition, Event, Lock

from sightline.runtime.scheduling.lanes import StreamSlot


class ReadControl:
    """Whether a stream is to be read: until it is stopped, and not while it is paused. From any thread."""

    def __init__(self) -> None:
        self.is_stopped = False
        """Whether nobody wants more frames; for good."""
        self.is_paused = False
        """Whether nobody wants frames for now."""
        self.pauses = 0
        """How often it was paused: the number of the present pause."""
        self._changed = Condition()

    def stop(self) -> None:
        """Want no more frames."""
        with self._changed:
            self.is_stopped = True
            self._changed.notify_all()

    def pause(self) -> None:
        """Want no frames until `resume`."""
        with self._changed:
            self.is_paused = True
            self.pauses += 1
            self._changed.notify_all()

    def resume(self) -> None:
        """Want frames again."""
        with self._changed:
            self.is_paused = False
            self._changed.notify_all()

    def sleep(self, seconds: float) -> None:
        """Wait for some time; not while the stream is stopped or paused."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_stopped or self.is_paused, seconds)

    def wait_for_stop(self, seconds: float) -> bool:
        """Wait for some time; return whether the stream is stopped."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_stopped, seconds)

    def wait_while_paused(self, number: int, *, at_most_seconds: float | None) -> None:
        """Wait until the pause of this number is over, by another one if need be, or the stream is stopped, or the time
        is over.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self.is_stopped or not self.is_paused or self.pauses != number, at_most_seconds
            )


class SlotHolder:
    """Holds the slot of a stream. Its thread sends to it, waits for another and ends it; other threads replace it."""

    def __init__(self, slot: StreamSlot) -> None:
        self.current = slot
        """The slot that the stream's thread uses; changes in `wait_for_another` only."""
        self._next: StreamSlot | None = slot
        self._lock = Lock()
        self._changed = Event()
        self._is_stopped = self._has_ended = False

    def replace(self, slot: StreamSlot | None) -> None:
        """Give the stream another slot, or none any more."""
        with self._lock:
            self._next = slot
            if self._has_ended and slot is not None:
                slot.link.end()
        self._changed.set()

    def stop(self) -> None:
        """Let nobody wait any more."""
        self._is_stopped = True
        self._changed.set()

    def wait_for_another(self) -> bool:
        """Wait for a slot that is not lost; False when there will be none."""
        while self.current.is_lost and not self._is_stopped:
            self._changed.wait()
            with self._lock:
                self._changed.clear()
                if self._next is None:
                    return False
                self.current = self._next
        return not self._is_stopped

    def end_links(self) -> None:
        """End the link of the present slot, and of any slot that follows."""
        with self._lock:
            self._has_ended = True
            links = {one.link for one in (self.current, self._next) if one is not None}
        for link in links:
            link.end()
