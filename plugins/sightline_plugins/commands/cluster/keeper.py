"""What Ray runs on a machine: it starts the process of the worker, and starts it again when it has ended."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from sightline.runtime.processes.restarts import Backoff
from sightline.runtime.threads import Worker
from sightline_plugins.commands.cluster.job import Job, Machine
from sightline_plugins.commands.cluster.process import holder_of

_LOG = logging.getLogger(__name__)
_GLANCE_SECONDS = 0.5
_START_SECONDS = 300.0
_LOCK_SECONDS = 5.0
_PROGRAM = "sightline_plugins.commands.cluster.process"


class WorkerKeeper(Worker):
    """Keeps the worker of this machine going. It adopts one that runs the same, and replaces one that runs another job.

    Its end leaves the worker alone: Ray ends whatever belongs to it when its head is lost.
    """

    def __init__(self, job: Job, machine: Machine) -> None:
        super().__init__("cluster-keeper")
        self._job, self._machine = job, machine
        self._backoff = Backoff()
        self._stopping = threading.Event()

    def work(self) -> None:
        """Look after the process until `stop`."""
        outputs, begun = Path(self._machine.outputs), 0.0
        while not self._stopping.is_set():
            holder = holder_of(outputs)
            if holder is None:
                pause = self._backoff.fail(ran_seconds=time.monotonic() - begun) if begun else 0.0
                self._stopping.wait(pause)
                if not self._stopping.is_set() and holder_of(outputs) is None:
                    begun = time.monotonic()
                    self._start(outputs)
            elif holder.pid and holder.fingerprint != self._job.fingerprint:
                _LOG.info("the worker %s runs another configuration: it is replaced", self._machine.name)
                _signal(holder.pid)
            self._stopping.wait(_GLANCE_SECONDS)

    def stop(self) -> None:
        """End the watch; the worker goes on."""
        self._stopping.set()
        if self.ident is not None:
            self.wait(60)

    def _start(self, outputs: Path) -> None:
        outputs.mkdir(parents=True, exist_ok=True)
        with (outputs / "worker.log").open("ab") as log:
            command = [sys.executable, "-m", _PROGRAM]
            started = msgspec.json.encode((self._job, self._machine))
            try:
                subprocess.run(command, input=started, stdout=log, stderr=log, timeout=_START_SECONDS, check=False)  # noqa: S603
            except (OSError, subprocess.TimeoutExpired) as error:
                _LOG.error("the worker %s cannot be started: %s", self._machine.name, error)
        until = time.monotonic() + _LOCK_SECONDS
        while holder_of(outputs) is None and time.monotonic() < until and not self._stopping.wait(0.1):
            pass


def end_worker(outputs: Path, *, timeout_seconds: float) -> bool:
    """End the worker of a folder in the regular way; return whether it has ended in time."""
    until = time.monotonic() + timeout_seconds
    asked = 0
    while (holder := holder_of(outputs)) is not None:
        if holder.pid and holder.pid != asked:
            _signal(holder.pid)
            asked = holder.pid
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def _signal(pid: int) -> None:
    with suppress(ProcessLookupError):  # it has ended since
        os.kill(pid, signal.SIGTERM)
