"""The worker of one destination: takes records from its queue and has its transport deliver them, again and again."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event, Lock
from typing import Final

from sightline.errors import (
    DeliveryError,
    DestinationLost,
    DestinationRefused,
    OutputError,
    RecordRefused,
    RecordsRejected,
)
from sightline.graph import Clock, Message, MessageKind, Outputs
from sightline.graph.transport import Record, Transport
from sightline.media.time import format_time
from sightline.redaction import redact
from sightline.runtime.delivery.chunk_queue import ChunkQueue
from sightline.runtime.delivery.chunks import Chunk
from sightline.runtime.stats.counters import DeliveryState, DeliveryStats
from sightline.runtime.threads import Worker

MOST_RECORDS: Final = 500
MOST_BYTES: Final = 1_000_000
"""About how much a transport gets at once."""
_FIRST_RECORDS = 32
_FEWEST_RECORDS = 16
_LONG_NS = 3_000_000_000
"""A delivery that takes longer is followed by a smaller one: its records count as delivered at its end only."""
ATTEMPTS: Final = 5
"""How often a record is tried that the destination refuses."""
_FIRST_WAIT_NS = 200_000_000
_LONGEST_WAIT_NS = 2_000_000_000
_REFUSED_WAIT_NS = 5_000_000_000
_MOST_WAIT_NS = 300_000_000_000
_RECORD_WAIT_NS = 50_000_000
_IDLE_SECONDS = 1.0


class DeadLetters:
    """A file of JSON lines with the records that a destination refused; it grows over runs. From any thread."""

    def __init__(self, path: Path, *, outputs: Outputs, clock: Clock) -> None:
        self.path = path
        self._outputs = outputs
        self._clock = clock
        self._lock = Lock()

    def add(self, record: Record, *, destination: str, reason: str) -> None:
        """Append a record. Raises OutputError."""
        try:
            body = {"body": record.body.decode()}
        except UnicodeDecodeError:
            body = {"body_base64": base64.b64encode(record.body).decode()}
        line = {
            "destination": destination,
            "reason": reason,
            "refused": format_time(self._clock.epoch_ns()),
            "stream": record.stream,
            "epoch": record.epoch,
            "seq": record.seq,
            "kind": record.kind,
            "to": record.to,
            "content_type": record.content_type,
            **body,
        }
        with self._lock:
            size = self.path.stat().st_size if self.path.is_file() else 0
            if not size:
                self._outputs.prepare(self.path)
            file = self._outputs.open_again(self.path, whole_bytes=size)
            file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            file.close()


class DeliveryWorker(Worker):
    """Delivers until it is stopped. It reports when the destination is lost and when it is back, nothing in between."""

    def __init__(
        self,
        queue: ChunkQueue,
        transport: Transport,
        *,
        stats: DeliveryStats,
        dead_letters: DeadLetters,
        clock: Clock,
        post: Callable[[Message], None],
        finished: Callable[[Sequence[Chunk]], None],
        after: DeliveryWorker | None = None,
    ) -> None:
        """Make the worker; it begins when the one of the same queue before it has ended, however long that hangs."""
        super().__init__(f"deliver-{stats.destination}")
        self._queue = queue
        self._transport = transport
        self._stats = stats
        self._dead_letters = dead_letters
        self._clock = clock
        self._post = post
        self._finished = finished
        before = () if after is None else (*after.before, after)
        self.before: tuple[DeliveryWorker, ...] = tuple(one for one in before if one.running)
        self._stopping = Event()
        self._wait_ns = self._pause_ns = 0
        self._attempts = 0
        self._most_records = _FIRST_RECORDS
        self._is_connected = False
        self.held: frozenset[int | None] = frozenset()
        """The ids of the chunks that it works on."""

    def stop(self) -> None:
        """End soon; a delivery that is under way is waited for by the transport's time limit."""
        self._stopping.set()
        self._queue.wake()

    def work(self) -> None:
        """Connect, and deliver until it is stopped; then put back what is not delivered."""
        if not self._is_alone():
            return
        chunks: list[Chunk] = self._deliver([])
        while not self._stopping.is_set():
            chunks = chunks or self._taken()
            if chunks:
                chunks = self._deliver(chunks)
            if self._pause_ns:
                self._put_back(chunks)
                chunks = []
                self._stopping.wait(self._pause_ns / 1e9)
                self._pause_ns = 0
        self._put_back(chunks)
        self._transport.close()

    def _is_alone(self) -> bool:
        """Wait until the workers before have put back what they held, so that the order stays; False when stopped."""
        while not self._stopping.is_set():
            if all(one.wait(_IDLE_SECONDS / 10) for one in self.before):
                self.before = ()
                return True
        return False

    def _put_back(self, chunks: Sequence[Chunk]) -> None:
        """Hold nothing while the destination is away, so that the oldest records can give way to others."""
        self._queue.put_back(chunks)
        self.held = frozenset()

    def _taken(self) -> list[Chunk]:
        try:
            chunks = self._queue.take(
                most_records=self._most_records, most_bytes=MOST_BYTES, timeout_seconds=_IDLE_SECONDS
            )
        except OutputError as error:
            self._stats.error = error.reason
            self._pause_ns = _LONGEST_WAIT_NS
            return []
        self.held = frozenset(chunk.id for chunk in chunks)
        self._stats.oldest_ns = chunks[0].waiting[0].time_ns if chunks else None
        return chunks

    def _deliver(self, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Deliver what it can of the chunks, and return those that are left."""
        records = [record for chunk in chunks for record in chunk.waiting][: self._most_records]
        try:
            if not self._is_connected:
                self._transport.connect()
                self._is_connected = True
            if records:
                began_ns = self._clock.monotonic_ns()
                self._transport.deliver(records)
                self._choose_size(len(records), self._clock.monotonic_ns() - began_ns)
        except RecordRefused as error:
            left = self._advance(chunks, error.delivered)
            return self._after_refusal(left, error)
        except RecordsRejected as error:
            left = self._advance(chunks, error.delivered)
            return self._after_rejection(left, error)
        except DeliveryError as error:
            left = self._advance(chunks, error.delivered)
            self._lost(error)
            return left
        except Exception as error:  # noqa: BLE001  somebody's transport: it must not end the delivery
            self._lost(DestinationLost(f"the transport failed: {type(error).__name__}: {error}"))
            return list(chunks)
        left = self._advance(chunks, len(records))
        self._succeeded()
        return left

    def _choose_size(self, records: int, took_ns: int) -> None:
        """Deliver fewer records at once to a slow destination, so that few come twice when the process ends amid it."""
        if took_ns > _LONG_NS:
            self._most_records = max(records // 2, _FEWEST_RECORDS)
        elif records >= self._most_records and 2 * took_ns <= _LONG_NS:
            self._most_records = min(2 * self._most_records, MOST_RECORDS)

    def _advance(self, chunks: Sequence[Chunk], delivered: int) -> list[Chunk]:
        """Note the first records as delivered, and return the chunks of which some are not."""
        if not delivered:
            return list(chunks)
        self._attempts = 0
        self._stats.delivered += delivered
        touched = []
        for chunk in chunks:
            own = min(delivered, len(chunk.waiting))
            chunk.delivered += own
            delivered -= own
            if own:
                touched.append(chunk)
        left = [chunk for chunk in chunks if chunk.waiting]
        self._stats.oldest_ns = left[0].waiting[0].time_ns if left else None
        self._finished(touched)
        return left

    def _after_refusal(self, chunks: Sequence[Chunk], error: RecordRefused) -> list[Chunk]:
        """Try the refused record again soon; set it aside after several attempts."""
        self._succeeded()
        self._attempts += 1
        if self._attempts < ATTEMPTS or not chunks:
            self._stats.retries += 1
            self._stopping.wait(_RECORD_WAIT_NS * self._attempts / 1e9)
            return list(chunks)
        try:
            self._set_aside(chunks[0].waiting[:1], redact(error))
        except OutputError as failure:
            self._warn(f"a refused record cannot be set aside, and is tried again: {failure}")
            self._attempts = 0
            self._stopping.wait(_IDLE_SECONDS)
            return list(chunks)
        return self._advance_refused(chunks, 1, refused=1)

    def _after_rejection(self, chunks: Sequence[Chunk], error: RecordsRejected) -> list[Chunk]:
        """Set aside the records of a request of which the destination rejected some, and send none of them again."""
        self._succeeded()
        records = [record for chunk in chunks for record in chunk.waiting][: error.among]
        try:
            self._set_aside(records, redact(error))
        except OutputError as failure:
            self._warn(f"records that were rejected are lost, because they cannot be set aside: {failure}")
        return self._advance_refused(chunks, len(records), refused=min(error.rejected, len(records)))

    def _set_aside(self, records: Sequence[Record], reason: str) -> None:
        """Write records to the file of those that were refused. Raises OutputError."""
        for record in records:
            self._dead_letters.add(record, destination=self._stats.destination, reason=reason)
        if not self._stats.refused:
            place = self._dead_letters.path
            self._warn(f"{self._stats.address} refuses a record: {reason}; such records are set aside in {place}")

    def _advance_refused(self, chunks: Sequence[Chunk], records: int, *, refused: int) -> list[Chunk]:
        """Go on behind records of which some were refused."""
        self._stats.refused += refused
        self._stats.delivered -= refused
        return self._advance(chunks, records)

    def _succeeded(self) -> None:
        self._wait_ns = 0
        if self._stats.state is DeliveryState.CONNECTED:
            return
        was_lost = self._stats.state in (DeliveryState.LOST, DeliveryState.REFUSED)
        self._stats.state, self._stats.error = DeliveryState.CONNECTED, None
        if was_lost:
            waiting = self._stats.depth
            self._tell(MessageKind.DESTINATION_BACK, f"{self._stats.address} is back; {waiting} records wait for it")

    def _lost(self, error: DeliveryError) -> None:
        """Report the loss when it is new, and pause before the next attempt, longer each time."""
        self._transport.close()
        self._is_connected = False
        if self._stopping.is_set():
            return
        is_refused = isinstance(error, DestinationRefused)
        state = DeliveryState.REFUSED if is_refused else DeliveryState.LOST
        self._stats.error = redact(error)
        self._stats.retries += 1
        if self._stats.state is not state:
            self._stats.state = state
            self._tell(MessageKind.DESTINATION_LOST, f"{redact(error)}; records are kept and delivered when it is back")
        self._wait_ns = min(max(2 * self._wait_ns, _FIRST_WAIT_NS), _LONGEST_WAIT_NS)
        asked_ns = getattr(error, "retry_after_ns", None) or (_REFUSED_WAIT_NS if is_refused else 0)
        self._pause_ns = min(max(self._wait_ns, asked_ns), _MOST_WAIT_NS)

    def _warn(self, text: str) -> None:
        self._tell(MessageKind.WARNING, text)

    def _tell(self, kind: MessageKind, text: str) -> None:
        self._post(Message(kind, text, element=self._stats.destination))
