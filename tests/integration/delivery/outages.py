"""Records delivered by one thread, as a delivery worker does, while a test takes the server away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from sightline.errors import DestinationLost
from sightline.graph.transport import Record, Transport
from tests.integration.delivery.servers import Server
from tests.waiting import wait_until

PER_SECOND = 200
BATCH = 500
STREAMS = ("gate", "yard", "lift", "hall", "roof")
Identity = tuple[str, int, int]
_MADE_NS = time.time_ns()


def records(
    count: int,
    *,
    to: str | Callable[[str, str], str],
    streams: Sequence[str] = STREAMS,
    kind: str = "events",
    body: bytes = b"",
) -> list[Record]:
    """Return records of several streams, in turn, the same each time. `to` may be made from stream and kind."""
    made = []
    for number in range(count):
        stream = streams[number % len(streams)]
        address = to if isinstance(to, str) else to(stream, kind)
        content = body or b'{"number": %d}' % number
        made.append(Record(stream, 7, number // len(streams), kind, address, content, _MADE_NS + number))
    return made


class Delivering:
    """Delivers records in a thread, so many a second; after an error it closes, connects and delivers the rest.

    `delivered` counts those that were acknowledged, `errors` holds all errors, `losses` counts connections that broke.
    `unconfirmed` counts the records that were under way then, which alone may come twice.
    """

    def __init__(self, transport: Transport, waiting: Sequence[Record], *, per_second: float = PER_SECOND) -> None:
        self.delivered = 0
        self.errors: list[DestinationLost] = []
        self.losses = self.unconfirmed = 0
        self._transport = transport
        self._waiting = waiting
        self._per_second = per_second
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
            due = min(len(self._waiting), int((time.monotonic() - begin) * self._per_second), self.delivered + BATCH)
            try:
                if not is_connected:
                    self._transport.connect()
                    is_connected = True
                self._transport.deliver(self._waiting[self.delivered : due])
                self.delivered = max(self.delivered, due)
            except DestinationLost as error:
                self.errors.append(error)
                self.losses += is_connected
                self.unconfirmed += (due - self.delivered - error.delivered) * is_connected
                self.delivered += error.delivered
                self._transport.close()
                is_connected = False
                self._stopped.wait(0.2)
            self._stopped.wait(0.005)
        self._transport.close()


def deliver_through_kills(server: Server, delivering: Delivering, *, at: Sequence[int]) -> None:
    """Deliver, kill the server each time so many records are delivered, and start it again when that was noticed."""
    delivering.start()
    for number, count in enumerate(at, start=1):
        wait_until(lambda count=count: delivering.delivered >= count or delivering.is_done)  # type: ignore[misc]
        server.kill()
        wait_until(lambda number=number: delivering.losses >= number or delivering.is_done)  # type: ignore[misc]
        server.start()
    wait_until(lambda: delivering.is_done)


def doubles(received: Iterable[tuple[str | int, ...]]) -> int:
    """Return how many of the records received came before."""
    seen = list(received)
    return len(seen) - len(set(seen))


def without_doubles(received: Iterable[tuple[str, *tuple[int, ...]]]) -> dict[str, list[int]]:
    """Return `seq` of the records of each stream in the order they came, as a receiver keeps them.

    A record received is its stream, perhaps its epoch, and its seq.
    """
    kept: dict[str, list[int]] = {}
    for stream, *numbers in dict.fromkeys(received):
        kept.setdefault(stream, []).append(numbers[-1])
    return kept
