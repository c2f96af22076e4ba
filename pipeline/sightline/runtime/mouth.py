"""Mouths: how several stages send into one link."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Protocol

from sightline.runtime.link import Link
from sightline.runtime.parcel import Item


class Outlet(Protocol):
    """Where a stage sends to: a link, or its mouth into one."""

    def send(self, item: Item) -> None:
        """Put an item in. Raises LinkClosed."""
        ...

    def end(self) -> None:
        """Say that nothing more will be sent."""
        ...


class Mouth:
    """One of several ways into a link, which ends when all of them have been ended; `open_mouths` is common to them."""

    def __init__(self, link: Link[Item], *, open_mouths: set[Mouth], lock: Lock) -> None:
        self._link = link
        self._open = open_mouths
        self._lock = lock
        open_mouths.add(self)

    def send(self, item: Item) -> None:
        """Put an item in; from the thread of this mouth. Raises LinkClosed."""
        self._link.send(item)

    def end(self) -> None:
        """Say that nothing more will be sent here; harmless when called again."""
        with self._lock:
            self._open.discard(self)
            is_last = not self._open
        if is_last:
            self._link.end()


def mouths_of(link: Link[Item] | None, *, count: int) -> Sequence[Outlet | None]:
    """So many ways into a link; the link itself when there is one."""
    if link is None or count == 1:
        return [link] * count
    open_mouths, lock = set[Mouth](), Lock()
    return [Mouth(link, open_mouths=open_mouths, lock=lock) for _ in range(count)]
