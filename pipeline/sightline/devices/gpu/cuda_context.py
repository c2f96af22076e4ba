"""A context of pycuda, made a thread's own for a while."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any


class Current:
    """A block in which a context is this thread's; it may stand within another."""

    __slots__ = ("_context", "_contexts", "_local")

    def __init__(self, context: Any, contexts: Any, local: threading.local) -> None:
        self._context = context
        self._contexts = contexts
        self._local = local

    def __enter__(self) -> None:
        depth = getattr(self._local, "depth", 0)
        if depth == 0:
            self._context.push()
        self._local.depth = depth + 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._local.depth -= 1
        if self._local.depth == 0:
            self._contexts.pop()
