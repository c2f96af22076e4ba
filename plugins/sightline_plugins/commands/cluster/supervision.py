"""Keeps the controller of a head going, in a process of its own."""

from __future__ import annotations

import logging
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress

from sightline.cluster.wire import Connection, token_from_environment
from sightline.errors import ConfigurationError, SightlineError
from sightline.runtime.processes.restarts import Backoff, signal_name
from sightline.runtime.threads import Worker
from sightline_plugins.commands.cluster.charter import Charter
from sightline_plugins.commands.cluster.program import READY

_LOG = logging.getLogger(__name__)
_PROGRAM = "sightline_plugins.commands.cluster.program"
_FIRST_PAUSE_SECONDS = 0.1
_END_SECONDS = _START_SECONDS = _LONGEST_PATIENCE_SECONDS = 60.0


class ControllerSupervisor(Worker):
    """Starts the controller, and starts it again from its store whenever its process has ended or hangs.

    A process that lives and decides nothing for half a lease is killed: that refuses connections, which lets streams go
    on, while silence stops them at the end of their leases. It needs nothing of Ray, so a head that was killed has its
    controller back before Ray has started. The process ends with this one.
    """

    def __init__(self, charter: Charter) -> None:
        super().__init__("cluster-supervisor")
        self._charter = charter
        self._backoff = Backoff(first_seconds=_FIRST_PAUSE_SECONDS)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._hangs = 0
        """How many controllers in a row were killed because they hung."""

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
                problem = self._watched(process)
                _end(process)
                if self._stopping.is_set():
                    return
                _LOG.error("the controller %s: it is started again", problem)
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

    def _watched(self, process: subprocess.Popen[str]) -> str:
        """Wait until a controller has ended, or kill it when it hangs; return what was wrong."""
        watch = _ProgressWatch(self._charter, hangs=self._hangs)
        while True:
            try:
                code = process.wait(watch.pause_seconds)
            except subprocess.TimeoutExpired:
                if self._stopping.is_set() or not watch.is_hanging():
                    continue
                process.kill()
                self._hangs = watch.hangs + 1
                return f"has decided nothing for {watch.patience_seconds:g} s, and is killed"
            self._hangs = 0
            return f"has ended ({signal_name(code) or f'code {code}'})"

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
            process.kill()
            _end(process)
            self._process = None
            raise ConfigurationError(f"the controller cannot start: {said}")


class _ProgressWatch:
    """Asks a controller whether it goes on deciding.

    Its patience is half a lease, so that workers find the refused connection before their leases are over. It doubles
    with each controller that was killed before: a machine that is too slow has a controller, late rather than never.
    """

    def __init__(self, charter: Charter, *, hangs: int) -> None:
        self._address = charter.host, charter.port
        self.hangs = hangs
        self.patience_seconds = min(charter.options.lease_ns / 2e9 * 2.0**hangs, _LONGEST_PATIENCE_SECONDS)
        self.pause_seconds = min(self.patience_seconds / 4, 1.0)
        self._begun = self._progress = time.monotonic()
        self._steps = -1

    def is_hanging(self) -> bool:
        """Ask; return whether it has made no step for too long."""
        steps, now = self._asked(), time.monotonic()
        if steps is not None and steps != self._steps:
            self._steps, self._progress = steps, now
            if now - self._begun > _LONGEST_PATIENCE_SECONDS:
                self.hangs = 0
        return now - self._progress >= self.patience_seconds

    def _asked(self) -> int | None:
        """How many steps it has made; None when it does not say."""
        left = max(self.patience_seconds - (time.monotonic() - self._progress), self.pause_seconds)
        try:
            connection = Connection.to_controller(self._address, token=token_from_environment(), timeout_seconds=left)
            try:
                connection.send({"ask": "steps"})
                return int(connection.receive(timeout_seconds=left)["steps"])
            finally:
                connection.close()
        except (OSError, SightlineError):
            return None


def _give(process: subprocess.Popen[str], charter: Charter) -> None:
    """Let a process have a charter; harmless for one that has ended."""
    with suppress(BrokenPipeError, ValueError):  # it has ended, or `stop` has closed its input
        if process.stdin is not None:
            process.stdin.write(f"{charter.to_json()}\n")
            process.stdin.flush()


def _answer(process: subprocess.Popen[str]) -> str:
    """Return the one line of a process that was started, or why there is none."""
    if process.stdout is None:
        return ""
    with process.stdout as output:
        if not select.select([output], [], [], _START_SECONDS)[0]:
            return f"its process has not answered for {_START_SECONDS:g} s"
        return output.readline().strip() or "its process has ended"


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
