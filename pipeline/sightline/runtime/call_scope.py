"""Which code a pipeline calls: what it waits for must not wait for the pipeline."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sightline.errors import ConfigurationError

_ENTERED = threading.local()


class CallScope:
    """The code that one pipeline calls: listeners, probes, edits, sources and elements, in whatever thread.

    The pipeline waits for that code, so the code cannot wait for the pipeline: both would wait without end. Everything
    that waits asks `check` first. A `Worker` belongs to the scope in which it is made.
    """

    def __init__(self) -> None:
        self._loop_thread: int | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Execute the block as code that the pipeline calls."""
        before = entered_scopes()
        _ENTERED.scopes = (*before, self)
        try:
            yield
        finally:
            _ENTERED.scopes = before

    def yields(self) -> None:
        """Note that this thread gets a frame of the pipeline, and is to come back for the next one."""
        self._loop_thread = threading.get_ident()

    def resumes(self) -> None:
        """Note that a loop over the frames has come back, or was left."""
        self._loop_thread = None

    @property
    def is_current(self) -> bool:
        """Whether this thread executes code that the pipeline calls."""
        return self in entered_scopes()

    def check(self, call: str) -> None:
        """Raises ConfigurationError where `call`, which waits, would wait for the code that it is in."""
        self.check_called(call)
        if self._loop_thread == threading.get_ident():
            raise ConfigurationError(
                f"{call} would wait without end: the pipeline waits until this loop over its frames takes the next one."
                " Leave the loop (or close() its iterator), which stops the pipeline and waits for its end"
            )

    def check_called(self, call: str) -> None:
        """As `check`, but a loop over the frames may call it: what waits with a limit does no harm there."""
        if self.is_current:
            raise ConfigurationError(
                f"{call} would wait for itself: the pipeline has called this code (a listener, probe, edit or element)"
                " and goes on when it returns. stop() does not wait and may be called here; wait in a thread of your"
                " own"
            )


def entered_scopes() -> tuple[CallScope, ...]:
    """The scopes of the code that this thread executes, the innermost last."""
    scopes: tuple[CallScope, ...] = getattr(_ENTERED, "scopes", ())
    return scopes
