"""Chunks: records of one destination that are written, read and delivered together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sightline.graph.transport import Record

if TYPE_CHECKING:
    from typing import Self


@dataclass(slots=True, eq=False)
class Chunk:
    """Records of one destination that were put together; the first `delivered` of them have been delivered.

    `size` are the bytes of bodies and addresses, `stored` those on disk once it was written; `id` is None until then. A
    chunk with `is_done` is delivered or dropped, and is not written any more; one with `is_put_back` was taken for
    delivery and stands before all others.
    """

    destination: str
    created_ns: int
    records: Sequence[Record]
    size: int
    id: int | None = None
    stored: int = 0
    delivered: int = 0
    is_done: bool = False
    is_put_back: bool = False

    @classmethod
    def of(cls, destination: str, records: Sequence[Record]) -> Self:
        """Make a chunk of new records."""
        size = sum([len(record.body) + len(record.to) for record in records])
        return cls(destination, records[0].time_ns, records, size)

    @property
    def waiting(self) -> Sequence[Record]:
        """The records that are not delivered."""
        return self.records[self.delivered :] if self.delivered else self.records


@dataclass(frozen=True, slots=True)
class Waiting:
    """What waits for one destination: records, their bytes, and when the oldest was made (None without any)."""

    records: int = 0
    size: int = 0
    oldest_ns: int | None = None


@dataclass(slots=True)
class Commit:
    """What is written in one transaction."""

    new: list[Chunk] = field(default_factory=list)
    progress: list[Chunk] = field(default_factory=list)
    done: list[Chunk] = field(default_factory=list)
    epochs: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.new or self.progress or self.done or self.epochs)
