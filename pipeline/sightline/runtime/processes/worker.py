"""The process of a worker, seen from the main process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from sightline.devices.cuda.budget import FRACTION_VARIABLE, memory_fraction
from sightline.redaction import redact
from sightline.runtime.processes.channel import Channel
from sightline.runtime.processes.restarts import place_of_crash, resident_bytes, signal_name

_ABORT_SECONDS = 1.0
_REAP_SECONDS = 10.0
_CRASH_BYTES = 100_000


class WorkerProcess:
    """A process that imports what runs a pipeline and waits for its share; for one thread, except `kill`.

    It is spawned, not forked: neither the threads of this process nor an engine or a GPU's context are copied. Its end
    of the connection is the only one, so that either process notices the end of the other however that ends. It is a
    session of its own: Ctrl-C in a terminal reaches the main process alone, and what it has started ends with it.
    """

    def __init__(self, *, gpu_share: int = 1) -> None:
        """Start it; with `gpu_share` workers on one GPU, it takes its part of the memory. Raises OSError."""
        ours, its = socket.socketpair()
        self._crash = tempfile.TemporaryFile()  # noqa: SIM115  closed with the process
        self.started = time.monotonic()
        try:
            self._process = subprocess.Popen(  # noqa: S603  the interpreter that runs this, and its own arguments
                [sys.executable, "-m", f"{__package__}.child", str(its.fileno()), str(self._crash.fileno())],
                stdin=subprocess.DEVNULL,
                env=_environment(gpu_share),
                pass_fds=(its.fileno(), self._crash.fileno()),
                start_new_session=True,
            )
        except BaseException:
            ours.close()
            self._crash.close()
            raise
        finally:
            its.close()
        self.channel = Channel(ours)
        self.pid = self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def ran_seconds(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self.started

    def resident_bytes(self) -> int | None:
        """The memory that it holds; None where the system does not tell, and after its end."""
        return resident_bytes(self.pid)

    def abort(self) -> None:
        """End a process that does not answer; where its threads are is written first, where that works."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGCONT)
                os.kill(self.pid, signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_ABORT_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Kill it, and what it has started; from any thread, harmless when it has ended."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def close(self) -> str:
        """Wait for its end, kill it when that takes long, and release all; return how it ended, in words."""
        self.channel.close()
        try:
            code = self._process.wait(_REAP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            code = self._process.wait()
        try:
            written = os.pread(self._crash.fileno(), _CRASH_BYTES, 0).decode(errors="replace")
        finally:
            self._crash.close()
        name = signal_name(code)
        if name is None:
            return f"ended with exit code {code}"
        return redact(f"was killed by {name}{place_of_crash(written.splitlines())}")


def _environment(gpu_share: int) -> dict[str, str]:
    """The environment of a worker: it finds the modules that this process finds."""
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(one or str(Path.cwd()) for one in sys.path)
    if gpu_share > 1:
        environment[FRACTION_VARIABLE] = f"{memory_fraction() / gpu_share:.4f}"
    return environment
