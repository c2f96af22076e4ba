"""Where the program begins: signals that come before a pipeline runs end it, or wait for it.

Everything else is imported after the handlers are set, because that takes most of the time until then.
"""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

_INTERRUPTED, _HUNG_UP = 130, 129
_LASTING = frozenset({"run", "serve", "cluster"})
"""Commands that whoever runs programs ends with SIGTERM."""
_RELOADING = frozenset({"run", "cluster"})
"""Commands that SIGHUP asks to read their configuration again."""


class EarlySignals:
    """The signals that nobody else handles: before a pipeline runs, and after it."""

    def __init__(self) -> None:
        self._hangups = 0
        self._has_terminal = self._has_run = False

    def handle(self, command: str) -> None:
        """Handle SIGTERM and SIGHUP from now on as the command means them; what is ignored (`nohup`) stays ignored."""
        if command in _LASTING and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._end)
        if command in _RELOADING and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            self._has_terminal = has_terminal()
            signal.signal(signal.SIGHUP, self._note)

    def pass_on(self) -> int:
        """Note that somebody else handles signals from now on; return how often a reload was asked for before."""
        self._has_run = True
        return self._hangups

    def _end(self, number: int, frame: FrameType | None) -> None:
        """End regularly: nothing has begun that would have to be finished. After a run, that is ending already."""
        del number, frame
        if self._has_run:
            return
        print("stopped by SIGTERM before anything ran", file=sys.stderr)  # noqa: T201  nothing else is imported yet
        sys.exit(0)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._has_terminal and not has_terminal():
            sys.exit(_HUNG_UP)
        self._hangups += 1


EARLY = EarlySignals()


def has_terminal() -> bool:
    """Whether there is a controlling terminal, which can hang up."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def main() -> NoReturn:
    """The entry point of the command."""
    try:
        EARLY.handle(next(iter(sys.argv[1:]), ""))
        from sightline.cli.main import main as run_command

        run_command()
    except KeyboardInterrupt:  # while everything was being imported
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
