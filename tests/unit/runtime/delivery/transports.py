"""A destination in memory that does what a test says, and what puts records into an outbox."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Event, Lock

from sightline.errors import DeliveryError, DestinationLost, RecordRefused
from sightline.graph import Message, Outputs
from sightline.graph.site import SystemClock
from sightline.graph.transport import Mailbox, Record, Transport
from sightline.runtime.delivery.outbox import OutboxLimits, RunOutbox


class Destination(Transport):
    """Keeps what is delivered. `trouble` is raised by each delivery; `refused` are the bodies that it does not take."""

    def __init__(self, *, trouble: DeliveryError | None = None, refused: frozenset[bytes] = frozenset()) -> None:
        self.trouble = trouble
        self.refused = refused
        self.records: list[Record] = []
        self.calls = self.connections = self.closed = 0
        self._lock = Lock()

    def connect(self) -> None:
        self.connections += 1
        if self.trouble is not None:
            raise self.trouble

    def deliver(self, records: Sequence[Record]) -> None:
        self.calls += 1
        if self.trouble is not None:
            raise self.trouble
        with self._lock:
            for index, record in enumerate(records):
                if record.body in self.refused:
                    raise RecordRefused("bad record", delivered=index)
                self.records.append(record)

    def close(self) -> None:
        self.closed += 1

    @property
    def bodies(self) -> list[bytes]:
        with self._lock:
            return [record.body for record in self.records]


class Hanging(Destination):
    """Answers nothing until it is released; then it is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.released = Event()
        self.held: list[Record] = []

    def deliver(self, records: Sequence[Record]) -> None:
        self.held = list(records)
        self.released.wait()
        raise DestinationLost("no answer")


class ForwardClock(SystemClock):
    """The clock of the system, set forward."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def monotonic_ns(self) -> int:
        return super().monotonic_ns() + self.ahead_ns


class Slow(Destination):
    """Takes some time of a clock for each record."""

    def __init__(self, clock: ForwardClock, *, ns_per_record: int) -> None:
        super().__init__()
        self.batches: list[int] = []
        self._clock = clock
        self._ns_per_record = ns_per_record

    def deliver(self, records: Sequence[Record]) -> None:
        super().deliver(records)
        self.batches.append(len(records))
        self._clock.ahead_ns += self._ns_per_record * len(records)


class Messages(list[Message]):
    """The messages of a run."""

    def texts(self, kind: str) -> list[str]:
        return [message.text for message in self if message.kind == kind]


def outbox_at(
    folder: Path,
    *,
    messages: list[Message] | None = None,
    limits: OutboxLimits | None = None,
    clock: SystemClock | None = None,
) -> RunOutbox:
    """Make an outbox in a folder."""
    heard: list[Message] = [] if messages is None else messages
    return RunOutbox(
        folder / "run.outbox", outputs=Outputs(folder), clock=clock or SystemClock(), post=heard.append, limits=limits
    )


def put(mailbox: Mailbox, bodies: Sequence[bytes], *, stream: str = "gate") -> None:
    """Put records with these bodies, as a step does."""
    records = []
    for body in bodies:
        epoch, seq = mailbox.stamp(stream)
        records.append(Record(stream, epoch, seq, "events", f"site/{stream}", body, SystemClock().epoch_ns()))
    mailbox.put(records)


def numbers(first: int, last: int) -> list[bytes]:
    """Bodies that are numbers."""
    return [str(number).encode() for number in range(first, last)]


def close(outbox: RunOutbox, *, seconds: float) -> None:
    """Close an outbox, and let it wait for deliveries so long."""
    outbox.linger(at_most_ns=round(seconds * 1e9))
    outbox.close()
