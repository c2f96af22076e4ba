"""A stream that is captured, with what tests need around it."""

from __future__ import annotations

from tests.fakes import FakeCudaDriver


class Captured:
    """A driver with memory, a stream that is captured, and another stream with an event."""

    def __init__(self) -> None:
        self.driver = FakeCudaDriver(memory_bytes=2**20, pinned_bytes=2**20)
        self.done: list[str] = []
        with self.driver.current():
            self.address = self.driver.allocate(16)
            self.stream, self.other = self.driver.create_stream(), self.driver.create_stream()
            self.event, self.outside = self.driver.create_event(), self.driver.create_event()
            self.work("before", stream=self.other)
            self.driver.record(self.outside, stream=self.other)
            self.driver.begin_capture(self.stream)

    def work(self, what: str, *, stream: int | None = None) -> None:
        """Queue something."""
        where = self.stream if stream is None else stream
        self.driver.queue(where, lambda: self.done.append(what), uses=[(self.address, 16)], what=what)
