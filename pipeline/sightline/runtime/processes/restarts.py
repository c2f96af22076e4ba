"""When a process that has failed is started again, and what its end says of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

_LONGEST_SECONDS = 60.0
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Backoff:
    """How long to wait before the next start: 1 s, 2 s, 4 s and so on, 60 s at most, or the same from
    `first_seconds` on. A run of a minute, or of `steady_seconds`, begins anew.

    >>> backoff = Backoff()
    >>> [backoff.fail(ran_seconds=0) for _ in range(3)], backoff.fail(ran_seconds=60)
    ([1.0, 2.0, 4.0], 1.0)
    """

    first_seconds: float = 1.0
    steady_seconds: float = 60.0
    failures: int = field(default=0, init=False)

    def fail(self, *, ran_seconds: float) -> float:
        """Note a failure; return the seconds to wait."""
        if ran_seconds >= self.steady_seconds:
            self.failures = 0
        self.failures += 1
        return float(min(_LONGEST_SECONDS, self.first_seconds * 2 ** min(self.failures - 1, 16)))

    def reset(self) -> None:
        """Forget the failures."""
        self.failures = 0


def signal_name(code: int) -> str | None:
    """The name of the signal that ended a process with that code; None when none did.

    >>> signal_name(-11), signal_name(1)
    ('SIGSEGV', None)
    """
    if code >= 0:
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def place_of_crash(lines: Sequence[str]) -> str:
    """Where Python was, from what `faulthandler` wrote; empty when it wrote nothing."""
    for line, following in pairwise(lines):
        if line.startswith("Current thread"):
            return f" in {following.strip()}"
    return ""


def resident_bytes(pid: int) -> int | None:
    """The memory that a process holds; None where the system does not tell, and after its end."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return None
