"""A target that goes wrong on purpose: it shows that the limits work."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from random import Random

from tools.fuzz.targets.target import Mutant

_SWOLLEN_BYTES = 200 << 20


class TrapTarget:
    """Does what the suffix says; made from seeds, each third mutant kills the process."""

    extra_mib = 64

    def __init__(self, folder: Path, *, shared: Path | None) -> None:
        del folder, shared
        self._made = -1

    def mutant(self, random: Random) -> Mutant:
        """The number of the mutant."""
        del random
        self._made += 1
        return Mutant(b"%d" % max(self._made - 1, 0), ".dies" if self._made == _DEADLY else ".passes")

    def exercise(self, path: Path) -> str:
        """`dies`, `hangs`, `swells`, `raises`, or nothing."""
        what = path.suffix.removeprefix(".")
        if what == "dies":
            os.kill(os.getpid(), signal.SIGSEGV)
        elif what == "hangs":
            threading.Event().wait()
        elif what == "swells":
            return str(len(b"x" * _SWOLLEN_BYTES))
        elif what == "raises":
            raise KeyError(what)
        return "taken"


_DEADLY = 3
