"""Copies of images that are on their way to where somebody wants them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Coming(Generic[T]):
    """What a copy that was begun will give. From any thread; `finish` is called once, by the first that waits."""

    __slots__ = ("_finish", "_lock", "_there")

    def __init__(self, finish: Callable[[], T]) -> None:
        self._lock = Lock()
        self._finish: Callable[[], T] | None = finish
        self._there: T | None = None

    @classmethod
    def there(cls, thing: T) -> Coming[T]:
        """What need not be waited for."""
        return cls(lambda: thing)

    def wait(self) -> T:
        """Wait, without the GIL. What fails is raised, and raised again to the next."""
        with self._lock:
            if self._finish is not None:
                self._there, self._finish = self._finish(), None
            return self._there  # type: ignore[return-value]
