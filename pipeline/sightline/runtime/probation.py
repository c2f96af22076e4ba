"""A run whose changes have to prove themselves: an operator that fails then ends the change, and not the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

from sightline.errors import OperatorError


class Probation:
    """Takes the errors of operators while changes of a run are on probation; from any thread.

    The first error is kept (`error`), and `hold` is called: no more frames enter the steps, so that no more than those
    under way meet the error. They are dropped and counted. When all changes are over, errors end the
    run again.
    """

    def __init__(self, *, hold: Callable[[], None]) -> None:
        self.error: OperatorError | None = None
        self._frames_lost = 0
        self._hold = hold
        self._noted = Condition()
        self._open = 0

    @contextmanager
    def of_a_change(self) -> Iterator[None]:
        """Take errors while the block is open."""
        with self._noted:
            self._open += 1
        try:
            yield
        finally:
            with self._noted:
                self._open -= 1
                if not self._open:
                    self.error, self._frames_lost = None, 0

    def takes(self, error: OperatorError, *, closing: bool = False) -> bool:
        """Return whether the run goes on although an operator has failed.

        An operator that fails on its way out (`closing`) is forgiven only after an error: it is then one of those that
        are taken back. Before, it is one of those that a change replaces, and its output is not whole.
        """
        with self._noted:
            if not self._open or (closing and self.error is None):
                return False
            is_first = self.error is None
            if is_first:
                self.error = error
            self._noted.notify_all()
        if is_first:
            self._hold()
        return True

    def report(self, error: OperatorError) -> None:
        """Note that a change has failed, although all goes on: an operator has gone back to what it had before."""
        with self._noted:
            if self._open and self.error is None:
                self.error = error
                self._noted.notify_all()

    def lose(self, frames: int) -> None:
        """Count frames that met an error and were dropped."""
        with self._noted:
            self._frames_lost += frames

    def wait(self, timeout_seconds: float) -> None:
        """Wait for an error, at most so long."""
        with self._noted:
            if self.error is None:
                self._noted.wait(timeout_seconds)

    def settle(self) -> int:
        """Note that what failed was taken back, so that an error from now on is a new one; return how many frames were
        dropped.
        """
        with self._noted:
            lost, self._frames_lost, self.error = self._frames_lost, 0, None
            return lost
