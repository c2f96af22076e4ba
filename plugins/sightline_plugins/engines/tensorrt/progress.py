"""How far the compiling of a model is, told in lines for the person who waits."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Any

Tell = Callable[[str], None]
EVERY_SECONDS = 5.0
"""A line is told at most so often, apart from the first and the last."""


class Progress:
    """Tells what the compiler does, with the time it took. Its threads call it, in any order.

    Where `is_stopped` says so, the compiler gives up at its next step.
    """

    def __init__(self, tell: Tell, *, is_stopped: Callable[[], bool], every_seconds: float = EVERY_SECONDS) -> None:
        self._tell = tell
        self._is_stopped = is_stopped
        self._every_seconds = every_seconds
        self._lock = Lock()
        self._steps: dict[str, int] = {}
        self._began = self._told = monotonic()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return monotonic() - self._began

    def phase_start(self, phase: str, parent: str | None, steps: int) -> None:
        """A phase of so many steps begins."""
        del parent
        with self._lock:
            self._steps[phase] = steps

    def step_complete(self, phase: str, step: int) -> bool:
        """A step is done; whether to go on."""
        with self._lock:
            is_due = monotonic() - self._told >= self._every_seconds
            if is_due:
                self._told = monotonic()
            steps = self._steps.get(phase, step + 1)
        if is_due:
            self._tell(f"{phase}: step {step + 1} of {steps}, after {self.seconds:.0f} s")
        return not self._is_stopped()

    def phase_finish(self, phase: str) -> None:
        """A phase is over."""
        with self._lock:
            self._steps.pop(phase, None)

    def monitor(self, module: Any) -> Any:
        """It as the library's own class of monitors; None where the library has none. Keep both until it is done."""
        if not hasattr(module, "IProgressMonitor"):
            return None

        def begin(monitor: Any) -> None:
            module.IProgressMonitor.__init__(monitor)

        def phase_start(_: Any, phase: str, parent: str | None, steps: int) -> None:
            self.phase_start(phase, parent, steps)

        def step_complete(_: Any, phase: str, step: int) -> bool:
            return self.step_complete(phase, step)

        def phase_finish(_: Any, phase: str) -> None:
            self.phase_finish(phase)

        verbs = {"phase_start": phase_start, "step_complete": step_complete, "phase_finish": phase_finish}
        return type("Monitor", (module.IProgressMonitor,), {"__init__": begin, **verbs})()
