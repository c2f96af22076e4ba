"""Records delivered at a steady rate by one thread, as a delivery worker does, while a test takes the server away."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from sightline.errors import DestinationLost
from sightline.graph.transport import Record, Transport

PER_SECOND = 200
BATCH = 500
STREAMS = ("gate", "yard", "lift", "hall", "roof")
Identity = tuple[str, int, int]


def records(count: int, *, to: str, streams: Sequence[str] = STREAMS, kind: str = "events") -> list[Record]:
    """Return records of several streams, in turn."""
    return [
        Record(streams[i % len(streams)], 7, i // len(streams), kind, to, b'{"number": %d}' % i, time.time_ns())
        for i in range(count)
    ]


class Delivering:
    """Delivers records in a thread, 200 a second; after an error it closes, connects and delivers the rest."""

    def __init__(self, transport: Transport, waiting: Sequence[Record]) -> None:
        self.delivered = 0
        self.errors: list[DestinationLost] = []
        self._transport = transport
        self._waiting = waiting
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stopped = threading.Event()

    def start(self) -> Delivering:
        """Begin."""
        self._thread.start()
        return self

    @property
    def is_done(self) -> bool:
        """Whether it has ended, with all delivered or with an error that a test should show."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        begin, is_connected = time.monotonic(), False
        while self.delivered < len(self._waiting):
            due = min(len(self._waiting), int((time.monotonic() - begin) * PER_SECOND), self.delivered + BATCH)
            try:
                if not is_connected:
                    self._transport.connect()
                    is_connected = True
                self._transport.deliver(self._waiting[self.delivered : due])
                self.delivered = max(self.delivered, due)
            except DestinationLost as error:
                self.errors.append(error)
                self.delivered += error.delivered
                self._transport.close()
                is_connected = False
                self._stopped.wait(0.2)
            self._stopped.wait(0.005)
        self._transport.close()


def doubles(received: Iterable[Identity]) -> int:
    """Return how many of the records received came before."""
    seen = list(received)
    return len(seen) - len(set(seen))


def without_doubles(received: Iterable[Identity]) -> dict[str, list[int]]:
    """Return `seq` of the records of each stream in the order they came, as a receiver keeps them."""
    kept: dict[str, list[int]] = {}
    for stream, _, seq in dict.fromkeys(received):
        kept.setdefault(stream, []).append(seq)
    return kept
