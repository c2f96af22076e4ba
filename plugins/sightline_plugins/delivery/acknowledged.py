"""Which records a destination has acknowledged, also when it acknowledges them in another order than sent."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sightline.graph.transport import Record

_LIMIT = 10_000


class Acknowledged:
    """Remembers records acknowledged after one that was not, so that they are not sent again with it.

    A transport reports only the first acknowledged records of a call. Where partitions or queues fail one by one, many
    of those after them have arrived as well, and would arrive twice.
    """

    def __init__(self) -> None:
        self._ahead: set[tuple[str, int, int]] = set()

    def missing(self, records: Sequence[Record]) -> list[int]:
        """Return the indices of records that are still to be sent."""
        if not self._ahead:
            return list(range(len(records)))
        return [index for index, record in enumerate(records) if _identity(record) not in self._ahead]

    def count(self, records: Sequence[Record], missing: Collection[int]) -> int:
        """Return how many of the first records are acknowledged, and remember those after them: all not missing."""
        if not missing and not self._ahead:
            return len(records)
        first = next((index for index in range(len(records)) if index in missing), len(records))
        self._ahead.difference_update(_identity(record) for record in records[:first])
        if len(self._ahead) > _LIMIT:  # of records that were dropped meanwhile and never came again
            self._ahead.clear()
        self._ahead.update(_identity(records[index]) for index in range(first, len(records)) if index not in missing)
        return first


def _identity(record: Record) -> tuple[str, int, int]:
    return record.stream, record.epoch, record.seq
