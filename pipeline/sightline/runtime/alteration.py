"""Alterations: what is changed while a pipeline runs, to be waited for in threads and in event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future


class Alteration:
    """A change that was asked for: under way, done or failed.

    In a thread, `wait` for it; in an event loop, `await` it; or let it be, it needs nobody. Waiting raises what it
    failed with. Not to be waited for where a pipeline calls: in probes and in listeners of messages, which the change
    itself may have to wait for.
    """

    def __init__(self) -> None:
        self._future: Future[None] = Future()
        self._future.set_running_or_notify_cancel()  # from now on nobody can cancel it

    @property
    def done(self) -> bool:
        """Whether it is over, well or not."""
        return self._future.done()

    def wait(self, timeout_seconds: float | None = None) -> None:
        """Wait for the end of it. Raises what it failed with, and TimeoutError when the time was not enough."""
        self._future.result(timeout_seconds)

    def __await__(self) -> Generator[object, None, None]:
        return asyncio.wrap_future(self._future).__await__()

    def finish(self) -> None:
        """It is done; for who carries it out."""
        self._future.set_result(None)

    def fail(self, error: BaseException) -> None:
        """It cannot be done; for who carries it out."""
        self._future.set_exception(error)


def done() -> Alteration:
    """An alteration that there was nothing to wait for in."""
    alteration = Alteration()
    alteration.finish()
    return alteration
