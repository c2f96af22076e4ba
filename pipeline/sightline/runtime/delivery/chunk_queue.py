"""The queue of one destination: records that are new, chunks in memory, and chunks on disk alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from threading import Condition
from typing import TYPE_CHECKING, Final

from sightline.graph.transport import Record
from sightline.runtime.delivery.chunks import Chunk

if TYPE_CHECKING:
    from sightline.runtime.delivery.store import OutboxStore

MEMORY_BYTES: Final = 4_000_000
"""What a destination may hold in memory, and twice as much of records that are not written yet."""
URGENT_BYTES: Final = 500_000
"""With more new records than this, they are written at once."""
_CHUNK_RECORDS = 500
_CHUNK_BYTES = 250_000
_NO_ID = 0


class ChunkQueue:
    """Chunks leave in the order in which their records were put. From any thread; one takes.

    Chunks on disk alone are older than those in memory, and chunks that the disk refused (without an id) are the
    newest. A destination that keeps up gets its chunks from memory; for one that does not they stay on disk, so that
    memory does not grow.
    """

    def __init__(self, destination: str, store: OutboxStore) -> None:
        self.destination = destination
        self._store = store
        self._ready = Condition()
        self._new: list[Record] = []
        self._new_bytes = 0
        self._in_memory: deque[Chunk] = deque()
        self._memory_bytes = 0
        self._is_on_disk = True
        self._left_to_disk = 0
        self._last_id = _NO_ID
        self._taken_unsaved: list[Chunk] = []

    def put(self, records: Sequence[Record]) -> int:
        """Add records; return how many older ones were dropped because they cannot be written. Never waits."""
        with self._ready:
            self._new += records
            self._new_bytes += sum([len(record.body) for record in records])
            return self._drop_new() if self._new_bytes > 2 * MEMORY_BYTES else 0

    @property
    def is_urgent(self) -> bool:
        """Whether many new records wait to be written."""
        return self._new_bytes > URGENT_BYTES

    def take_new(self) -> list[Chunk]:
        """Return what was put since the last call, as chunks that are to be written and then added."""
        with self._ready:
            records, self._new, self._new_bytes = self._new, [], 0
        return _chunks(self.destination, records)

    def add(self, chunks: Sequence[Chunk]) -> int:
        """Add chunks that were written, or that the disk refused; return how many records were dropped for them."""
        with self._ready:
            for chunk in chunks:
                if chunk.id is not None and self._is_on_disk:
                    self._left_to_disk += 1
                elif chunk.id is None or chunk.id > self._last_taken():
                    self._in_memory.append(chunk)
                    self._memory_bytes += chunk.size
            self._ready.notify()
            return self._leave_to_disk() if self._memory_bytes > MEMORY_BYTES else 0

    def put_back(self, chunks: Sequence[Chunk]) -> None:
        """Add chunks that were taken and not delivered, as the oldest."""
        with self._ready:
            for chunk in chunks:
                chunk.is_put_back = True
            self._in_memory.extendleft(reversed(chunks))
            self._memory_bytes += sum(chunk.size for chunk in chunks)

    def take(self, *, most_records: int, most_bytes: int, timeout_seconds: float) -> list[Chunk]:
        """Wait for chunks and return the oldest, until they have so many records or bytes; none when none came in
        time. From one thread. Raises OutputError.
        """
        with self._ready:
            if not self._in_memory and not self._is_on_disk:
                self._ready.wait(timeout_seconds)
        taken: list[Chunk] = []
        while most_records > 0 and most_bytes > 0 and (chunk := self._next()) is not None:
            if not chunk.is_done:
                taken.append(chunk)
                most_records -= len(chunk.waiting)
                most_bytes -= chunk.size
        return taken

    def wake(self) -> None:
        """Let `take` return."""
        with self._ready:
            self._ready.notify_all()

    def forget(self, ids: frozenset[int]) -> None:
        """Do not hand out chunks that were dropped."""
        with self._ready:
            for chunk in self._in_memory:
                chunk.is_done = chunk.is_done or chunk.id in ids

    def _next(self) -> Chunk | None:
        """Return the oldest chunk; the disk is read without the lock, so that `put` never waits for it."""
        while True:
            with self._ready:
                if (chunk := self._from_memory()) is not None or not self._is_on_disk:
                    return chunk
                left_to_disk, after = self._left_to_disk, self._last_taken()
            chunk = self._store.next_chunk(self.destination, after=after)
            with self._ready:
                if chunk is not None:
                    self._last_id = chunk.id or after
                    return chunk
                self._is_on_disk = self._left_to_disk != left_to_disk

    def _from_memory(self) -> Chunk | None:
        """Return the oldest chunk in memory if none on disk is older; skip those that were taken from disk."""
        while self._in_memory and (self._in_memory[0].is_put_back or not self._is_on_disk):
            chunk = self._in_memory.popleft()
            self._memory_bytes -= chunk.size
            if chunk.is_put_back:
                chunk.is_put_back = False
                return chunk
            if chunk.id is None:
                self._taken_unsaved.append(chunk)
                return chunk
            if chunk.id > self._last_taken():
                self._last_id = chunk.id
                return chunk
        return None

    def _last_taken(self) -> int:
        """Return the highest id that was taken, also of chunks that were written after that."""
        saved = [chunk.id for chunk in self._taken_unsaved if chunk.id is not None]
        if saved:
            self._last_id = max(self._last_id, *saved)
            self._taken_unsaved = [chunk for chunk in self._taken_unsaved if chunk.id is None and not chunk.is_done]
        return self._last_id

    def _leave_to_disk(self) -> int:
        """Forget the chunks that are on disk as well, and of the others drop the oldest; return their records."""
        kept = deque(chunk for chunk in self._in_memory if chunk.id is None or chunk.is_put_back)
        if len(kept) < len(self._in_memory):
            self._is_on_disk = True
            self._left_to_disk += 1
        self._in_memory, self._memory_bytes = kept, sum(chunk.size for chunk in kept)
        dropped = 0
        while self._memory_bytes > MEMORY_BYTES and len(kept) > 1:
            chunk = kept.popleft()
            self._memory_bytes -= chunk.size
            dropped += 0 if chunk.is_done else len(chunk.waiting)
            chunk.is_done = True
        return dropped

    def _drop_new(self) -> int:
        half = (len(self._new) + 1) // 2
        self._new = self._new[half:]
        self._new_bytes = sum(len(record.body) for record in self._new)
        return half


def _chunks(destination: str, records: Sequence[Record]) -> list[Chunk]:
    """Cut records into chunks of a size that is read and written at once."""
    chunks: list[Chunk] = []
    for start in range(0, len(records), _CHUNK_RECORDS):
        part = records[start : start + _CHUNK_RECORDS]
        first = size = 0
        if sum([len(record.body) for record in part]) > _CHUNK_BYTES:
            for index, record in enumerate(part):
                if index > first and size + len(record.body) > _CHUNK_BYTES:
                    chunks.append(Chunk.of(destination, part[first:index]))
                    first, size = index, 0
                size += len(record.body)
        chunks.append(Chunk.of(destination, part[first:]))
    return chunks
