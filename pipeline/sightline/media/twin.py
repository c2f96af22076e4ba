"""Copies of something in other memories, made once for all who ask."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Twin(Generic[T]):
    """Keeps the copies of `original`, by the place where each lies. For several threads: the first makes the copy, the
    others wait for it.
    """

    __slots__ = ("_copies", "_lock", "original")

    def __init__(self, original: object) -> None:
        self.original = original
        self._lock = Lock()
        self._copies: list[tuple[object, T]] = []

    def at(self, place: object, make: Callable[[], T]) -> T:
        """The copy in that place."""
        with self._lock:
            for known, copy in self._copies:
                if known is place:
                    return copy
            made = make()
            self._copies.append((place, made))
            return made
