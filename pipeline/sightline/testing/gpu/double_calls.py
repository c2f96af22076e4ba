"""What every call of the double goes through: whether it is allowed, whether it fails, and whether it is noted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from sightline.devices.gpu.driver import DriverError, Harm
from sightline.media.device_array import DeviceStream
from sightline.testing.gpu.double_graphs import Captures
from sightline.testing.gpu.double_journal import Journal
from sightline.testing.gpu.double_memory import GpuMisuse

Verb = Literal[
    "allocate",
    "allocate_pinned",
    "begin_capture",
    "copy",
    "end_capture",
    "fill",
    "free_pinned",
    "is_done",
    "launch",
    "launch_graph",
    "load",
    "queue",
    "synchronize",
    "work",
]


class DoubleCalls:
    """Contexts, faults, misuses and journals of a driver. From any thread; one call at a time is made."""

    def __init__(self) -> None:
        self.misuses: list[GpuMisuse] = []
        self.is_closed = False
        self._captures = Captures()
        self._lock = threading.RLock()
        self._local = threading.local()
        self._faults: dict[str, tuple[str, Harm]] = {}
        self._broken: str | None = None
        self._journals: list[Journal] = []

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make the context this thread's."""
        self._local.depth = self._depth + 1
        try:
            yield
        finally:
            self._local.depth -= 1

    def fail_next(self, verb: Verb, message: str, *, harm: Harm = Harm.DEVICE) -> None:
        """Let the next call of that verb fail."""
        self._faults[verb] = (message, harm)

    def check(self) -> None:
        """Raise the first misuse, if there was any."""
        if self.misuses:
            raise self.misuses[0]

    @contextmanager
    def journaling(self, **streams: DeviceStream) -> Iterator[Journal]:
        """Note the calls of a block: `with driver.journaling(work=stream) as journal: ...` calls that stream `work`."""
        journal = Journal({stream.handle: name for name, stream in streams.items()})
        with self._lock:
            self._journals.append(journal)
        try:
            yield journal
        finally:
            with self._lock:
                self._journals.remove(journal)

    @property
    def _depth(self) -> int:
        depth: int = getattr(self._local, "depth", 0)
        return depth

    @contextmanager
    def _verb(
        self, name: str = "", what: str = "", *, stream: int | None = None, other: int | None = None
    ) -> Iterator[None]:
        """One call: `what` it does, for which `stream`, and with which `other`, as journals tell it."""
        with self._lock:
            try:
                if self.is_closed:
                    raise GpuMisuse("the driver is used after it was closed")
                if not self._depth:
                    raise GpuMisuse("no context is current in this thread")
                if self._broken is not None:
                    raise DriverError(self._broken, harm=Harm.DEVICE)
                self._fail_if_asked_to(name)
                self._captures.check_thread(name)
                for journal in self._journals if name else ():
                    journal.note(name, what, stream=stream, other=other)
                yield
            except GpuMisuse as misuse:
                raise self._noted(misuse) from None

    def _fail_if_asked_to(self, verb: str) -> None:
        if verb in self._faults:
            message, harm = self._faults.pop(verb)
            if harm is Harm.DEVICE:
                self._broken = message
            raise DriverError(message, harm=harm)

    def _noted(self, misuse: GpuMisuse) -> GpuMisuse:
        self.misuses.append(misuse)
        return misuse
