"""What a supervised pipeline is doing, why its worker ended, and when it starts again."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MANY_FAILURES = 10
"""Failures in a row after which the server reports that a pipeline does not come up."""
_DONE = frozenset({0, 3})
WRONG = 2


class SupervisedState(StrEnum):
    """What a supervised pipeline is doing."""

    STARTING = "starting"
    RUNNING = "running"
    BACKING_OFF = "backing_off"
    INVALID = "invalid"
    ENDED = "ended"
    STOPPING = "stopping"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Exit:
    """How a worker ended: `code` is its exit code, or None when a signal killed it; `log` holds the last lines that it
    wrote. Times are epoch seconds and seconds.
    """

    at: float
    ran_seconds: float
    reason: str
    code: int | None = None
    signal: str | None = None
    log: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SupervisedStatus:
    """A supervised pipeline at one moment. `why` says what keeps it from running, or from being ready; `url` is its
    page, relative to that of the server. Times are epoch seconds.
    """

    name: str
    file: str
    state: SupervisedState
    since: float
    running: bool
    ready: bool
    why: str
    pid: int | None
    resident_bytes: int | None
    restarts: int
    failures_in_a_row: int
    next_attempt_seconds: float | None
    last_exit: Exit | None
    url: str


def state_after(code: int, *, has_answered: bool) -> SupervisedState:
    """What a pipeline is after its worker ended by itself. `code` is negative for a signal, as in `subprocess`.

    Code 2 is a mistake in the configuration, unless the worker had come up with it.
    """
    if code in _DONE:
        return SupervisedState.ENDED
    return SupervisedState.INVALID if code == WRONG and not has_answered else SupervisedState.BACKING_OFF
