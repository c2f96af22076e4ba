"""A process that waits to take over from a worker that fails."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from threading import Lock

from sightline.graph import SourceElement, Step
from sightline.runtime.processes.channel import ChannelClosed
from sightline.runtime.processes.worker import WorkerProcess


class Spare:
    """Keeps one process that has imported Python's modules and those of the steps; from any thread.

    Without it, imports are most of the time until the streams of a worker that has failed are back. With `gpu_share`
    workers on one GPU, a process takes its part of the memory.
    """

    def __init__(self, *, gpu_share: int) -> None:
        self._gpu_share = gpu_share
        self._lock = Lock()
        self._process: WorkerProcess | None = None

    def take(self) -> WorkerProcess:
        """Return it, for the caller to end, or a new process when there is none. Raises OSError."""
        process = self._exchange(None)
        if process is not None and process.is_alive:
            return process
        _end(process)
        return WorkerProcess(gpu_share=self._gpu_share)

    def renew(self, steps: Sequence[Step], sources: Sequence[SourceElement]) -> None:
        """Keep a process that imports what these need, unless one is kept. If none can be started, none is kept."""
        if self._process is not None:
            return
        with suppress(OSError, ChannelClosed):
            process = WorkerProcess(gpu_share=self._gpu_share)
            process.channel.send("prepare", (tuple(steps), tuple(sources)))
            _end(self._exchange(process))

    def discard(self) -> None:
        """End it; harmless when there is none."""
        _end(self._exchange(None))

    def _exchange(self, process: WorkerProcess | None) -> WorkerProcess | None:
        with self._lock:
            former, self._process = self._process, process
        return former


def _end(process: WorkerProcess | None) -> None:
    if process is not None:
        process.kill()
        process.close()
