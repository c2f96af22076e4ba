"""Deliver records as the outbox does, through failures, while a server is killed and started again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sightline.errors import DestinationLost
from sightline.graph.transport import Record, Transport
from tests.integration.delivery.servers import Server
from tests.waiting import LIMIT_SECONDS, wait_until


class Courier:
    """Delivers records in batches, and goes on where a lost connection stopped it. `delivered` counts those that
    were acknowledged, `losses` the connections that broke.
    """

    def __init__(self, transport: Transport, *, batch: int = 100) -> None:
        self.transport = transport
        self.delivered = 0
        self.losses = 0
        self._batch = batch
        self._connected = False

    def deliver(self, records: Sequence[Record]) -> None:
        """Return when all are delivered."""
        self.delivered = 0

        def is_done() -> bool:
            self._deliver_some(records)
            return self.delivered == len(records)

        wait_until(is_done)

    def _deliver_some(self, records: Sequence[Record]) -> None:
        start = self.delivered
        batch = records[start : start + self._batch]
        try:
            if not self._connected:
                self.transport.connect()
                self._connected = True
            self.transport.deliver(batch)
            self.delivered = start + len(batch)
        except DestinationLost as error:
            self.losses += self._connected
            self.delivered = start + error.delivered
            self.transport.close()
            self._connected = False


@contextmanager
def killed_amid(server: Server, courier: Courier, *, at: Sequence[int]) -> Iterator[None]:
    """Kill the server each time so many records are delivered, and start it again when that was noticed."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            for number, count in enumerate(at, start=1):
                wait_until(lambda count=count: courier.delivered >= count)  # type: ignore[misc]
                server.kill()
                wait_until(lambda number=number: courier.losses >= number)  # type: ignore[misc]
                server.start()
        except BaseException as error:  # noqa: BLE001  the test raises it
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
        thread.join(LIMIT_SECONDS)
    finally:
        if failures:
            raise failures[0]
    assert not thread.is_alive()


def hang(server: Server) -> None:
    """Stop the server where it is, and wait until it has stopped: the signal takes a moment on a busy machine."""
    server.hang()
    assert server._process is not None
    tasks = Path(f"/proc/{server._process.pid}/task")
    wait_until(lambda: all((task / "stat").read_text().rpartition(") ")[2][0] == "T" for task in tasks.iterdir()))


def doubles(found: Sequence[tuple[str, int]]) -> int:
    """Return how many of the records, by stream and seq, came more than once."""
    return len(found) - len(set(found))


def first_in_order(found: Sequence[tuple[str, int]], stream: str) -> list[int]:
    """Return the seq of each record of a stream in the order of its first arrival."""
    return list(dict.fromkeys(seq for name, seq in found if name == stream))


def made(
    address: Callable[[str, str], str], count: int, *, streams: Sequence[str] = ("gate",), body: bytes = b""
) -> list[Record]:
    """Return so many records of events for each stream, taking turns."""
    return [
        Record(
            stream=stream,
            epoch=3,
            seq=seq,
            kind="events",
            to=address(stream, "events"),
            body=body or f'{{"seq": {seq}, "stream": "{stream}"}}'.encode(),
            time_ns=1_700_000_000_000_000_000 + seq,
        )
        for seq in range(count)
        for stream in streams
    ]
