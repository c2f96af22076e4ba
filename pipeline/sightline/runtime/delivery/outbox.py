"""The outbox of a run: mailboxes that never wait, and one thread that writes what they hold to disk.

Records go from a step into the queue of their destination, from there to disk within a tenth of a second, and are
then delivered by the destination's worker. While it keeps up, the worker takes them from memory, and the disk only
sees one insert and one delete for many records. While the disk refuses them, they are delivered from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Final

from sightline.errors import ConfigurationError, OutputError
from sightline.graph import Clock, Message, MessageKind, Outputs
from sightline.graph.transport import Mailbox, Outbox, Record, Transport
from sightline.runtime.delivery.chunk_queue import ChunkQueue
from sightline.runtime.delivery.chunks import Chunk, Commit
from sightline.runtime.delivery.worker import DeadLetters, DeliveryWorker
from sightline.runtime.stats.counters import DeliveryStats
from sightline.runtime.threads import Worker

if TYPE_CHECKING:
    from sightline.runtime.delivery.store import OutboxStore

GATHER_SECONDS: Final = (0.02, 0.1)
"""How long records are gathered before they are written: few, so that a rare event is not kept waiting, and many."""
_MANY_RECORDS = 5
_TIDY_SECONDS = 1.0
_STOP_SECONDS = 1.0
_RETRY_NS = 1_000_000_000
_TOLD_AGAIN_NS = 60_000_000_000
_REMOVED_AT_ONCE = 200
_LOOK_SECONDS = 0.02
_LONGEST_LINGER_NS = 1 << 62


@dataclass(frozen=True, slots=True)
class OutboxLimits:
    """What the outbox holds at most; older records are dropped."""

    size_bytes: int = 1_000_000_000
    age_ns: int = 86_400_000_000_000


@dataclass(slots=True, eq=False)
class _Destination:
    """What belongs to one destination. `seq` is the number of the next record of each stream."""

    queue: ChunkQueue
    stats: DeliveryStats
    seq: dict[str, int]
    worker: DeliveryWorker | None = None
    told_ns: int | None = None


class RunMailbox(Mailbox):
    """The mailbox of one step; a step that is built anew gets another one for the same destination."""

    def __init__(self, outbox: RunOutbox, destination: _Destination) -> None:
        self._outbox = outbox
        self._destination = destination
        self._listeners: list[Callable[[Message], None]] = []
        self._is_closed = False

    def stamp(self, stream: str) -> tuple[int, int]:
        """Return `epoch` and `seq` of the stream's next record."""
        numbers = self._destination.seq
        seq = numbers.get(stream, 0)
        numbers[stream] = seq + 1
        return self._outbox.epoch(stream), seq

    def put(self, records: Sequence[Record]) -> None:
        """Keep records until they are delivered."""
        if records and not self._is_closed:
            self._outbox.put(records, self._destination)

    def listen(self, listener: Callable[[Message], None]) -> None:
        """Call `listener` with the messages of the run."""
        self._listeners.append(listener)

    def hear(self, message: Message) -> None:
        """Pass a message to the listeners."""
        for listener in tuple(self._listeners):
            listener(message)

    def close(self) -> None:
        """Take no more records."""
        self._is_closed = True
        self._listeners.clear()
        self._outbox.forget(self)


class RunOutbox(Outbox):
    """The outbox of one run. Its file is opened with the first mailbox, and its threads start then."""

    def __init__(
        self,
        path: Path,
        *,
        outputs: Outputs,
        clock: Clock,
        post: Callable[[Message], None],
        limits: OutboxLimits | None = None,
    ) -> None:
        self.path = path
        self._outputs = outputs
        self._clock = clock
        self._post = post
        self._limits = limits or OutboxLimits()
        self._opening = Lock()
        self._lock = Lock()
        self._committing = Lock()
        self._store: OutboxStore | None = None
        self._writer: _Writer | None = None
        self._dead_letters = DeadLetters(path.with_name(f"{path.name}.refused.jsonl"), outputs=outputs, clock=clock)
        self._destinations: dict[str, _Destination] = {}
        self._mailboxes: list[RunMailbox] = []
        self._epochs: dict[str, int] = {}
        self._stored_epochs: dict[str, int] = {}
        self._unsaved: list[Chunk] = []
        self._finished: list[Chunk] = []
        self._size = 0
        self._retry_at_ns = 0
        self._tidy_at_ns = 0
        self._is_degraded = False
        self._linger_ns = _LONGEST_LINGER_NS
        self.others: dict[str, int] = {}
        """Records for destinations that no step has opened, when the outbox was opened."""

    @property
    def stats(self) -> tuple[DeliveryStats, ...]:
        """What was counted, by destination."""
        return tuple(one.stats for one in tuple(self._destinations.values()))

    def mailbox(self, destination: str, *, address: str, transport: Transport) -> RunMailbox:
        """Open a mailbox and begin to deliver. A destination that has one already goes on with its new transport."""
        with self._opening:
            if self._store is None:
                self._open()
            assert self._store is not None
            own = self._destinations.get(destination)
            if own is None:
                waiting = self.others.pop(destination, 0)
                stats = DeliveryStats(destination, address, found=waiting)
                own = _Destination(ChunkQueue(destination, self._store), stats, seq={})
                self._destinations[destination] = own
            elif own.worker is not None:
                own.worker.stop()
                own.worker.wait(_STOP_SECONDS)
            own.stats.address = address
            own.worker = DeliveryWorker(
                own.queue,
                transport,
                stats=own.stats,
                dead_letters=self._dead_letters,
                clock=self._clock,
                post=self._post,
                finished=self._chunks_finished,
                after=own.worker,
            )
            own.worker.start()
            mailbox = RunMailbox(self, own)
            self._mailboxes.append(mailbox)
            return mailbox

    def epoch(self, stream: str) -> int:
        """Return the epoch of a stream in this run: the time of its first record in seconds, and never an old one."""
        epoch = self._epochs.get(stream)
        if epoch is None:
            now_seconds = self._clock.epoch_ns() // 1_000_000_000
            epoch = self._epochs[stream] = max(now_seconds, self._stored_epochs.get(stream, 0) + 1)
        return epoch

    def begin_epoch(self, stream: str, epoch: int) -> None:
        """Let the records of a stream carry this epoch from now on, counted from 0. Raises ConfigurationError when one
        of its records has had that epoch, or a higher one.
        """
        last = max(self._epochs.get(stream, 0), self._stored_epochs.get(stream, 0))
        if epoch <= last:
            text = f"the records of the stream {stream!r} cannot begin the epoch {epoch}"
            raise ConfigurationError(f"{text}: they have had {last}; give a higher one")
        self._epochs[stream] = epoch
        for one in tuple(self._destinations.values()):
            one.seq.pop(stream, None)

    def put(self, records: Sequence[Record], destination: _Destination) -> None:
        """Queue records for a destination; never waits for the disk."""
        destination.stats.put += len(records)
        self._dropped(destination, destination.queue.put(records), reason="disk")
        if self._writer is not None:
            self._writer.wake(at_once=destination.queue.is_urgent)

    def hear(self, message: Message) -> None:
        """Pass a message of the run to the steps that send such."""
        for mailbox in tuple(self._mailboxes):
            mailbox.hear(message)

    def forget(self, mailbox: RunMailbox) -> None:
        """Pass no more messages to a mailbox."""
        with self._lock:
            if mailbox in self._mailboxes:
                self._mailboxes.remove(mailbox)

    def linger(self, *, at_most_ns: int) -> None:
        """Let `close` wait for deliveries no longer than this, also when it waits already; from any thread."""
        self._linger_ns = min(self._linger_ns, at_most_ns)

    def close(self) -> None:
        """Deliver what waits as long as `linger` allows, end all threads and close the file; harmless when called
        again. Records that are left stay on disk, for the next run.
        """
        if self._store is None:
            return
        destinations = tuple(self._destinations.values())
        for mailbox in tuple(self._mailboxes):
            mailbox.close()
        self.commit()
        began_ns, pause = self._clock.monotonic_ns(), Event()
        while any(one.stats.depth for one in destinations):
            if self._clock.monotonic_ns() - began_ns >= self._linger_ns:
                break
            pause.wait(_LOOK_SECONDS)
        workers = [one.worker for one in destinations if one.worker is not None]
        for worker in workers:
            worker.stop()
        end_ns = self._clock.monotonic_ns() + round(_STOP_SECONDS * 1e9)
        for worker in workers:
            worker.wait(max(end_ns - self._clock.monotonic_ns(), 0) / 1e9)
        if self._writer is not None:
            self._writer.stop()
        self.commit()
        for one in destinations:
            if one.stats.depth:
                text = (
                    f"{one.stats.depth} records for {one.stats.address} wait in the outbox {self.path}: the next run "
                    "delivers them, or `sightline outbox drain`"
                )
                self._tell(MessageKind.WARNING, text, one)
        self._store.close()
        self._store = None

    def commit(self) -> int:
        """Write what is new, and remove what is delivered; return how many records were new. What cannot be written is
        tried again a second later.
        """
        if self._store is None:
            return 0
        with self._committing:
            new = [chunk for one in tuple(self._destinations.values()) for chunk in one.queue.take_new()]
            self._write(new, self._store)
            return sum(len(chunk.records) for chunk in new)

    def _write(self, new: Sequence[Chunk], store: OutboxStore) -> None:
        with self._lock:
            finished, self._finished = self._finished, []
        self._unsaved = [*(chunk for chunk in self._unsaved if not chunk.is_done), *new]
        epochs = {name: epoch for name, epoch in self._epochs.items() if self._stored_epochs.get(name) != epoch}
        commit = Commit(
            new=self._unsaved,
            progress=[chunk for chunk in finished if not chunk.is_done and chunk.id is not None],
            done=[chunk for chunk in finished if chunk.is_done and chunk.id is not None],
            epochs=epochs,
        )
        if not commit or (self._is_degraded and self._clock.monotonic_ns() < self._retry_at_ns):
            self._keep(new, finished)
            return
        try:
            store.write(commit)
        except OutputError as error:
            self._keep(new, finished)
            self._degraded(error)
            return
        self._size += sum(chunk.stored for chunk in self._unsaved) - sum(chunk.stored for chunk in commit.done)
        self._stored_epochs |= epochs
        self._unsaved = []
        self._recovered()
        self._pass_on(new)

    def tidy(self) -> None:
        """Remove the oldest records while there are more bytes, or older ones, than the limits allow."""
        with self._committing:
            now_ns = self._clock.monotonic_ns()
            if self._store is not None and (now_ns >= self._tidy_at_ns or self._size > self._limits.size_bytes):
                self._remove_oldest(self._store, now_ns=now_ns)

    def _remove_oldest(self, store: OutboxStore, *, now_ns: int) -> None:
        self._tidy_at_ns = now_ns + round(_TIDY_SECONDS * 1e9)
        too_old_ns = self._clock.epoch_ns() - self._limits.age_ns
        held = frozenset[int | None]().union(*(one.worker.held for one in self._destinations.values() if one.worker))
        try:
            rows = store.oldest(limit=_REMOVED_AT_ONCE)
            excess = self._size - self._limits.size_bytes
            removed: dict[int, tuple[str, int, str]] = {}
            for number, name, records, size, created_ns in rows:
                if number in held or (excess <= 0 and created_ns >= too_old_ns):
                    continue
                removed[number] = name, records, "full" if excess > 0 else "age"
                excess -= size
            if removed:
                store.remove(removed)
                self._size = excess + self._limits.size_bytes
        except OutputError as error:
            self._degraded(error)
            return
        for one in self._destinations.values():
            one.queue.forget(frozenset(removed))
        for name, records, reason in removed.values():
            if (known := self._destinations.get(name)) is not None:
                self._dropped(known, records, reason=reason)

    def _open(self) -> None:
        from sightline.runtime.delivery.store import OutboxStore

        self._store = store = OutboxStore(self.path, outputs=self._outputs)
        waiting = store.waiting()
        self._size = sum(one.size for one in waiting.values())
        self.others = {name: one.records for name, one in waiting.items()}
        self._stored_epochs = store.epochs()
        self._writer = _Writer(self)
        self._writer.start()

    def _pass_on(self, chunks: Sequence[Chunk]) -> None:
        """Let the workers have chunks."""
        for name, one in tuple(self._destinations.items()):
            own = [chunk for chunk in chunks if chunk.destination == name]
            if own:
                self._dropped(one, one.queue.add(own), reason="disk")

    def _keep(self, new: Sequence[Chunk], finished: Sequence[Chunk]) -> None:
        """Go on with what could not be written: new chunks are delivered from memory."""
        with self._lock:
            self._finished = [*finished, *self._finished]
        self._pass_on(new)

    def _chunks_finished(self, chunks: Sequence[Chunk]) -> None:
        """Note chunks that were delivered, completely or in part; from a worker."""
        for chunk in chunks:
            chunk.is_done = not chunk.waiting
        with self._lock:
            self._finished += chunks
        if self._writer is not None:
            self._writer.wake()

    def _dropped(self, destination: _Destination, records: int, *, reason: str) -> None:
        """Count lost records, and report them once a minute."""
        if not records:
            return
        stats, now_ns = destination.stats, self._clock.monotonic_ns()
        stats.dropped[reason] += records
        if destination.told_ns is None or now_ns - destination.told_ns >= _TOLD_AGAIN_NS:
            destination.told_ns = now_ns
            why = {
                "full": "the outbox is full",
                "age": "they are older than the outbox keeps records",
                "disk": "the outbox cannot be written",
            }[reason]
            text = f"the oldest records for {stats.address} are dropped: {why} ({self.path})"
            self._tell(MessageKind.SINK_DEGRADED, text, destination)

    def _degraded(self, error: OutputError) -> None:
        self._retry_at_ns = self._clock.monotonic_ns() + _RETRY_NS
        if not self._is_degraded:
            self._is_degraded = True
            text = f"{error}; records are delivered from memory, and would be lost with this process"
            self._tell(MessageKind.SINK_DEGRADED, text)

    def _recovered(self) -> None:
        if self._is_degraded:
            self._is_degraded = False
            self._tell(MessageKind.SINK_RECOVERED, f"the outbox {self.path} is written again")

    def _tell(self, kind: MessageKind, text: str, destination: _Destination | None = None) -> None:
        self._post(Message(kind, text, element=None if destination is None else destination.stats.destination))


class _Writer(Worker):
    """Writes what is new to disk, soon after it came."""

    def __init__(self, outbox: RunOutbox) -> None:
        super().__init__("outbox")
        self._outbox = outbox
        self._wakes = Event()
        self._hurries = Event()
        self._stopping = Event()

    def wake(self, *, at_once: bool = False) -> None:
        """Write soon, or at once."""
        if not self._wakes.is_set():  # called for each put: setting costs more than looking
            self._wakes.set()
        if at_once:
            self._hurries.set()

    def stop(self) -> None:
        """End, and wait a short time for that."""
        self._stopping.set()
        self.wake(at_once=True)
        self.wait(_STOP_SECONDS)

    def work(self) -> None:
        """Write until it is stopped."""
        written = 0
        while not self._stopping.is_set():
            self._wakes.wait(_TIDY_SECONDS)
            self._hurries.wait(GATHER_SECONDS[written >= _MANY_RECORDS])
            self._wakes.clear()
            self._hurries.clear()
            written = self._outbox.commit()
            self._outbox.tidy()
