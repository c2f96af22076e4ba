"""Fan-in: how several stages send into one link."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Protocol

from sightline.runtime.link import Link
from sightline.runtime.parcel import Item


class Outlet(Protocol):
    """Where a stage sends to: a link, or one of several ways into it."""

    def send(self, item: Item) -> None:
        """Put an item in. Raises LinkClosed."""
        ...

    def end(self) -> None:
        """Say that nothing more will be sent."""
        ...


class FanInOutlet:
    """One of several ways into a link, which ends when all of them have been ended.

    `open_outlets` and `lock` are common to them.
    """

    def __init__(self, link: Link[Item], *, open_outlets: set[FanInOutlet], lock: Lock) -> None:
        self._link = link
        self._open = open_outlets
        self._lock = lock
        open_outlets.add(self)

    def send(self, item: Item) -> None:
        """Put an item in; from one thread. Raises LinkClosed."""
        self._link.send(item)

    def end(self) -> None:
        """Say that nothing more will be sent here; harmless when called again."""
        with self._lock:
            self._open.discard(self)
            is_last = not self._open
        if is_last:
            self._link.end()


def fan_in(link: Link[Item] | None, *, count: int) -> Sequence[Outlet | None]:
    """So many ways into a link; the link itself when there is one."""
    if link is None or count == 1:
        return [link] * count
    open_outlets, lock = set[FanInOutlet](), Lock()
    return [FanInOutlet(link, open_outlets=open_outlets, lock=lock) for _ in range(count)]
