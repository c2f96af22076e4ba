"""The transport contract: records in, delivered to a destination outside, or an error that says how far it came.

A transport is one small class: connect, deliver these records or raise, close. Everything else is shared by all: the
outbox keeps records on disk until they are delivered, in order, also when the process is killed; a delivery worker
for each destination calls its transport, waits and tries again after failures, and sets records aside that the
destination refuses. A package registers an element that makes its transport under the entry-point group
`sightline.transports`. `sightline.testing.transport_conformance` tests the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from sightline.graph.messages import Message

if TYPE_CHECKING:
    from sightline.graph.site import Site


class Record(NamedTuple):
    """One record on its way to a destination.

    `(stream, epoch, seq)` identifies it among all records for one destination: `epoch` grows with each start of the
    pipeline, `seq` counts the records of the stream from 0 without gaps. The receiver drops what it has already.
    `to` is the topic, subject, key or path, with its placeholders filled in; `body` is encoded as the element's format
    says. `time_ns` is when it was made, since the epoch of the clock.
    """

    stream: str
    epoch: int
    seq: int
    kind: str
    to: str
    body: bytes
    time_ns: int
    content_type: str = "application/json"


class Transport(ABC):
    """Delivers records to one destination. One thread at a time calls it.

    It keeps no records of its own. It may remember the ids of those it knows to be acknowledged behind one that failed,
    so that they are not sent again when they come again.
    """

    @abstractmethod
    def connect(self) -> None:
        """Connect, within the time limit of its element. Called once when a run starts, before there are records, and
        again after `close` when a delivery failed. A transport without a connection does nothing.

        Raises DestinationLost when the destination cannot be reached, DestinationRefused when it does not let us in.
        """

    @abstractmethod
    def deliver(self, records: Sequence[Record]) -> None:
        """Deliver the records in order, and return when the destination has acknowledged all of them.

        The time limit begins again with each acknowledgement: a destination that is slow is not lost.

        `delivered` of an error counts those acknowledged, which are the first ones; the others are delivered again.
        Raises RecordRefused when the destination refuses the record after those; RecordsRejected when it has taken
        those after them but for some, which must not be sent again; DestinationLost when it is gone, or acknowledges
        nothing within the time limit; DestinationRefused when it does not let us write.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the connection, without waiting for the destination; harmless when called again."""


@runtime_checkable
class Delivers(Protocol):
    """An element with a destination outside."""

    def destination(self) -> str:
        """Return its address for messages, without credentials."""
        ...

    def address(self, stream: str, kind: str, *, pipeline: str) -> str:
        """Return where a record of this stream and kind goes: what `Record.to` holds."""
        ...

    def transport(self, site: Site) -> Transport:
        """Make its transport, without connecting. Raises MissingExtra when its client is not installed."""
        ...

    def others(self) -> Mapping[str, Delivers]:
        """Return further destinations of the step, by what stands behind its id and a slash in their names."""
        ...


def destinations(elements: Iterable[tuple[str, object]]) -> Iterator[tuple[str, Delivers]]:
    """Yield the name of each destination of these elements, which come with their ids, and what delivers there."""
    for element_id, element in elements:
        if isinstance(element, Delivers):
            yield element_id, element
            yield from ((f"{element_id}/{name}", one) for name, one in element.others().items())


class Mailbox(ABC):
    """Where one step puts its records. They are delivered later; nothing here waits for a destination."""

    @abstractmethod
    def stamp(self, stream: str) -> tuple[int, int]:
        """Return `epoch` and `seq` of the stream's next record."""

    @abstractmethod
    def put(self, records: Sequence[Record]) -> None:
        """Keep records until they are delivered, in this order; those put after `close` are lost. From any thread;
        never waits.
        """

    @abstractmethod
    def listen(self, listener: Callable[[Message], None]) -> None:
        """Call `listener` with every message of the run from now on, from any thread, until the mailbox is closed."""

    @abstractmethod
    def close(self) -> None:
        """Take no more records; those put here are still delivered. Harmless when called again."""


class Outbox(ABC):
    """Keeps the records of a run for all destinations until they are delivered."""

    @abstractmethod
    def mailbox(self, destination: str, *, address: str, transport: Transport) -> Mailbox:
        """Open the mailbox of a destination, and begin to deliver what it holds from earlier runs.

        `destination` is its name (see `destinations`): the id of its step, or that with a slash and a word behind it.
        `address` names the destination in messages, without credentials. Raises OutputError when the outbox cannot be
        written, ConfigurationError when another process has it open.
        """
