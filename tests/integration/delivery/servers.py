"""Real servers as child processes: started on a free port, killed, stopped, continued, and started again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.waiting import LIMIT_SECONDS, wait_until


def program(name: str, *, package: str) -> str:
    """Return the path of a program; the test is skipped without it."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if found is None:
        missing(f"{name} is not installed (apt-get install {package})")
        raise AssertionError
    return found


def listens(port: int) -> bool:
    """Whether something accepts connections at a port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Server:
    """A server in a process group of its own. `start` waits until it is ready; the same port and folder each time."""

    def __init__(
        self, command: Sequence[str | Path], *, port: int, folder: Path, ready: Callable[[], object] | None = None
    ) -> None:
        self.port = port
        self.folder = folder
        self._command = [str(part) for part in command]
        self._ready = ready or (lambda: listens(port))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, cwd=self.folder
            )
        wait_until(self._is_ready)

    def kill(self) -> None:
        """End it and its children with SIGKILL."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(LIMIT_SECONDS)
            self._process = None

    def terminate(self) -> None:
        """Ask it to end, and wait until it has."""
        self._signal(signal.SIGTERM)
        if self._process is not None:
            self._process.wait(LIMIT_SECONDS)
            self._process = None

    def hang(self) -> None:
        """Stop it where it is: connections stay open, nothing answers. Returns when it has stopped, which takes a
        moment on a busy machine.
        """
        self._signal(signal.SIGSTOP)
        wait_until(lambda: all(map(_is_stopped, self._processes())))

    def go_on(self) -> None:
        """Let a stopped server go on."""
        self._signal(signal.SIGCONT)

    def _is_ready(self) -> object:
        assert self._process is not None
        if self._process.poll() is not None:
            pytest.fail(f"{self._command[0]} ended: {(self.folder / 'server.log').read_text()[-2000:]}")
        return self._ready()

    def _processes(self) -> list[int]:
        """The processes that a signal reaches: its process group."""
        if self._process is None:
            return []
        group = self._process.pid
        everything = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        return [process for process in everything if _group_of(process) == group]

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)


def _group_of(process: int) -> int | None:
    try:
        return os.getpgid(process)
    except OSError:  # it has ended meanwhile
        return None


def _is_stopped(process: int) -> bool:
    """Whether all threads of a process are stopped, or it has ended."""
    try:
        states = [_state(task) for task in Path(f"/proc/{process}/task").iterdir()]
    except OSError:
        return True
    return all(state in "TZ" for state in states)


def _state(task: Path) -> str:
    return (task / "stat").read_text().rpartition(") ")[2][0]
