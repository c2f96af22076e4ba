"""An outbox in memory: what an element that delivers has put there, without a destination."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Lock

from sightline.graph.messages import Message
from sightline.graph.transport import Mailbox, Outbox, Record, Transport


class MemoryMailbox(Mailbox):
    """Keeps records in a list, in the order in which they were put. `tell` passes a message to who listens."""

    def __init__(self, *, epoch: int = 1) -> None:
        self.records: list[Record] = []
        self.is_closed = False
        self._epoch = epoch
        self._next: Counter[str] = Counter()
        self._listeners: list[Callable[[Message], None]] = []
        self._lock = Lock()

    def stamp(self, stream: str) -> tuple[int, int]:
        """Return the epoch, and how often it was asked for a number of this stream before."""
        with self._lock:
            seq = self._next[stream]
            self._next[stream] = seq + 1
        return self._epoch, seq

    def put(self, records: Sequence[Record]) -> None:
        """Append the records. Raises ValueError after `close`."""
        with self._lock:
            if self.is_closed:
                raise ValueError("records were put into a mailbox that is closed")
            self.records += records

    def listen(self, listener: Callable[[Message], None]) -> None:
        """Call the listener with each message that `tell` gets."""
        self._listeners.append(listener)

    def tell(self, message: Message) -> None:
        """Pass a message on, in this thread, as the run does until the mailbox is closed."""
        for listener in () if self.is_closed else tuple(self._listeners):
            listener(message)

    def close(self) -> None:
        """Take no more records; those put are still there."""
        with self._lock:
            self.is_closed = True


class MemoryOutbox(Outbox):
    """Keeps the mailboxes of a run by destination; nothing is delivered, and transports are never connected."""

    def __init__(self, *, epoch: int = 1) -> None:
        self.mailboxes: dict[str, MemoryMailbox] = {}
        self._epoch = epoch

    @property
    def records(self) -> list[Record]:
        """The records of all mailboxes, one mailbox after the other."""
        return [record for mailbox in self.mailboxes.values() for record in mailbox.records]

    def mailbox(self, destination: str, *, address: str, transport: Transport) -> MemoryMailbox:
        """Open a mailbox; one of the same name takes the place of the former."""
        del address, transport
        self.mailboxes[destination] = MemoryMailbox(epoch=self._epoch)
        return self.mailboxes[destination]

    def tell(self, message: Message) -> None:
        """Pass a message of the run to all who listen."""
        for mailbox in tuple(self.mailboxes.values()):
            mailbox.tell(message)
