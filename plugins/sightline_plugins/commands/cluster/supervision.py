"""Keeps the controller of a head going, in a process of its own."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from contextlib import suppress

from sightline.errors import ConfigurationError
from sightline.runtime.processes.restarts import Backoff, signal_name
from sightline.runtime.threads import Worker
from sightline_plugins.commands.cluster.charter import Charter
from sightline_plugins.commands.cluster.program import READY

_LOG = logging.getLogger(__name__)
_PROGRAM = "sightline_plugins.commands.cluster.program"
_FIRST_PAUSE_SECONDS = 0.1
_END_SECONDS = 60.0


class ControllerSupervisor(Worker):
    """Starts the controller, and starts it again from its store whenever its process has ended.

    It needs nothing of Ray, so a head that was killed has its controller back before Ray has started. The process ends
    with this one.
    """

    def __init__(self, charter: Charter) -> None:
        super().__init__("cluster-supervisor")
        self._charter = charter
        self._backoff = Backoff(first_seconds=_FIRST_PAUSE_SECONDS)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        """The controller's process; 0 while there is none."""
        process = self._process
        return 0 if process is None else process.pid

    def start(self) -> None:
        """Start the controller; it answers when this returns. Raises ConfigurationError when it cannot."""
        self._begin()
        super().start()

    def want(self, charter: Charter) -> None:
        """Give the controller another charter, now and whenever it is started again."""
        with self._lock:
            self._charter = charter
            if self._process is not None:
                _give(self._process, charter)

    def work(self) -> None:
        """Start it again when it ends, until `stop`."""
        begun = time.monotonic()
        while not self._stopping.is_set():
            if (process := self._process) is not None:
                code = process.wait()
                _end(process)
                if self._stopping.is_set():
                    return
                _LOG.error("the controller has ended (%s): it is started again", signal_name(code) or f"code {code}")
            if self._stopping.wait(self._backoff.fail(ran_seconds=time.monotonic() - begun)):
                return
            begun = time.monotonic()
            try:
                self._begin()
            except ConfigurationError as error:
                _LOG.error("%s", error)

    def stop(self) -> None:
        """End the controller; workers go on. Harmless when called again."""
        self._stopping.set()
        with self._lock:
            if self._process is not None:
                _end(self._process)
        if self.ident is not None:
            self.wait(_END_SECONDS)

    def _begin(self) -> None:
        with self._lock:
            self._process = None
            if self._stopping.is_set():
                return
            process = self._process = subprocess.Popen(  # noqa: S603  the interpreter that runs this
                [sys.executable, "-m", _PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C is for the command, which ends it then
            )
            _give(process, self._charter)
        said = _answer(process)
        if said != READY and not self._stopping.is_set():
            _end(process)
            self._process = None
            raise ConfigurationError(f"the controller cannot start: {said or 'its process has ended'}")


def _give(process: subprocess.Popen[str], charter: Charter) -> None:
    """Let a process have a charter; harmless for one that has ended."""
    with suppress(BrokenPipeError, ValueError):  # it has ended, or `stop` has closed its input
        if process.stdin is not None:
            process.stdin.write(f"{charter.to_json()}\n")
            process.stdin.flush()


def _answer(process: subprocess.Popen[str]) -> str:
    """Return the one line of a process that was started; empty when it has ended."""
    if process.stdout is None:
        return ""
    with process.stdout as output:
        return output.readline().strip()


def _end(process: subprocess.Popen[str]) -> None:
    """Let a controller end in the regular way, or kill it; harmless for one that has ended."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
