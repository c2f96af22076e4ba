"""Observations of several streams in the order of their time, with a bounded delay."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class TimeOrder(Generic[Item]):
    """Holds items of streams back until no open stream can bring an earlier one, but no longer than `max_wait_ns`.

    An item is released when every open stream has reached its time, or the latest stream is `max_wait_ns` ahead of it.
    Items of equal time come in the order of the streams' names. An item that is later than what was released already
    comes at once.
    """

    def __init__(self, max_wait_ns: int) -> None:
        self._max_wait_ns = max_wait_ns
        self._waiting: list[tuple[int, str, int, Item]] = []
        self._latest_ns: dict[str, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, stream: str, time_ns: int, item: Item) -> Iterator[tuple[int, Item]]:
        """Add an item of an open stream; yield what is released by it, with its time."""
        self._latest_ns[stream] = time_ns
        self._add(stream, time_ns, item)
        return self._release()

    def end(self, stream: str, item: Item) -> Iterator[tuple[int, Item]]:
        """End a stream, which nothing waits for any more; `item` follows its last one. Yield what is released."""
        if stream in self._latest_ns:
            self._add(stream, self._latest_ns.pop(stream), item)
        return self._release()

    def _add(self, stream: str, time_ns: int, item: Item) -> None:
        heapq.heappush(self._waiting, (time_ns, stream, self._count, item))
        self._count += 1

    def _release(self) -> Iterator[tuple[int, Item]]:
        open_ns = self._latest_ns.values()
        reached = max(min(open_ns), max(open_ns) - self._max_wait_ns) if open_ns else None
        while self._waiting and (reached is None or self._waiting[0][0] <= reached):
            time_ns, _, _, item = heapq.heappop(self._waiting)
            yield time_ns, item
