"""What becomes of a driver's errors: one place that names them, and remembers the one after which nothing works."""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import TracebackType

from sightline.devices.gpu.driver import Driver, DriverError, Harm
from sightline.errors import GpuError, GpuFailed, GpuOutOfMemory


class Guard:
    """Surrounds every use of a driver: `with guard("copying to the host"): driver.copy(...)`.

    It makes the GPU's context current. A DriverError becomes a GpuError that says what was being done. After an error
    that leaves nothing usable, every later use raises GpuFailed with the first cause. From any thread.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.cause: str | None = None
        """Why nothing works any more; None while all is well."""
        self.is_closed = False

    @property
    def where(self) -> str:
        """The GPU in messages: `cuda:0`."""
        return f"cuda:{self._driver.index}"

    def __call__(self, doing: str) -> Guarded:
        """A block in which the driver is used."""
        return Guarded(self, self._driver, doing)

    def check(self) -> None:
        """Raise GpuFailed when nothing works any more."""
        if self.cause is not None:
            raise GpuFailed(f"{self.where} cannot be used any more: {self.cause}")
        if self.is_closed:
            raise GpuFailed(f"{self.where} was closed: the run that used it is over")

    def failed(self, doing: str, error: DriverError) -> GpuError:
        """What to raise for a driver's error."""
        text = f"{self.where}: {doing} failed: {error}"
        if error.harm is Harm.MEMORY:
            return GpuOutOfMemory(f"{text}; use fewer streams or smaller batches, or end other programs that use it")
        if error.harm is Harm.NONE:
            return GpuError(text)
        self.cause = self.cause or f"{doing} failed: {error}"
        return GpuFailed(f"{self.where} cannot be used any more: {self.cause}")


class Guarded:
    """One use of the driver, in which its context is current."""

    __slots__ = ("_current", "_doing", "_driver", "_guard")

    def __init__(self, guard: Guard, driver: Driver, doing: str) -> None:
        self._guard = guard
        self._driver = driver
        self._doing = doing
        self._current: AbstractContextManager[None] | None = None

    def __enter__(self) -> Driver:
        self._guard.check()
        self._current = self._driver.current()
        try:
            self._current.__enter__()
        except DriverError as error:
            raise self._guard.failed(self._doing, error) from error
        return self._driver

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._current is not None:
            try:
                self._current.__exit__(kind, error, trace)
            except DriverError as failed:
                raise self._guard.failed(self._doing, failed) from failed
        if isinstance(error, DriverError):
            raise self._guard.failed(self._doing, error) from error
