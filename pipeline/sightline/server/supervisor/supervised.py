"""One pipeline that is kept running: started, watched, and started again when it fails."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

from sightline.graph import Message, MessageKind
from sightline.runtime.processes.restarts import Backoff, place_of_crash, signal_name
from sightline.server.supervisor.claim import Claim
from sightline.server.supervisor.exchange import fetch
from sightline.server.supervisor.lifecycle import (
    MANY_FAILURES,
    Exit,
    SupervisedState,
    SupervisedStatus,
    state_after,
)
from sightline.server.supervisor.process import WorkerProcess

_TICK_SECONDS = 0.1
_ASK_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_START_SECONDS = 300.0
"""Within which a worker answers for the first time: it imports its elements and loads its configuration before."""
_INVALID_SECONDS = 60.0
"""A mistake may be outside the file (a model, a device), so that it is tried again."""
_ORPHAN_SECONDS = 20.0
_SHOWN_LINES = 40
_MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """How workers run. `command` is what starts one; the name and file of its pipeline and descriptors are
    added. A worker that holds more than `memory_limit` bytes, or gives no answer for `hang_timeout` seconds, is started
    again. `end_timeout` is how many seconds it has to close its outputs.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    memory_limit: int | None = None
    hang_timeout: float = 30.0
    end_timeout: float = 20.0


class SupervisedPipeline:
    """Keeps the pipeline of one file running until it is closed. Used in one event loop, except `status`."""

    def __init__(
        self,
        name: str,
        file: Path,
        options: WorkerOptions,
        *,
        post: Callable[[str, Message], None],
        say: Callable[[str, str], None],
    ) -> None:
        """`post` and `say` get the name with each message and with each line of the worker's log.

        Raises ConfigurationError when another server runs the file.
        """
        self.name, self.file = name, file
        self._options, self._post, self._say = options, post, say
        self._claim = Claim(file)
        self._process: WorkerProcess | None = None
        self._state, self._since = SupervisedState.STARTING, time.time()
        self._why = ""
        self._is_ready = self._has_answered = False
        self._silent_seconds = 0.0
        self._backoff = Backoff()
        self._restarts = 0
        self._next_attempt: float | None = None
        self._last_exit: Exit | None = None
        self._is_wanted, self._is_closing = True, False
        self._interrupted = asyncio.Event()
        """That somebody wants something else than what is going on."""

    @property
    def socket(self) -> Path:
        """Where the worker answers."""
        return self._claim.socket

    @property
    def is_answering(self) -> bool:
        """Whether there is a worker that has answered."""
        return self._process is not None and self._has_answered

    def status(self) -> SupervisedStatus:
        """What it is doing now; from any thread."""
        process, at = self._process, self._next_attempt
        return SupervisedStatus(
            name=self.name,
            file=str(self.file),
            state=self._state,
            since=self._since,
            running=self._state is SupervisedState.RUNNING,
            ready=self._is_ready,
            why=self._why,
            pid=None if process is None else process.pid,
            resident_bytes=None if process is None else process.resident_bytes(),
            restarts=self._restarts,
            failures_in_a_row=self._backoff.failures,
            next_attempt_seconds=None if at is None else max(0.0, at - time.monotonic()),
            last_exit=self._last_exit,
            url=f"pipelines/{quote(self.name)}/",
        )

    def start(self) -> None:
        """Run it, if it does not run: at once, also when it waits for its next attempt."""
        self._is_wanted = True
        if self._process is None:
            self._backoff.reset()
            self._interrupted.set()

    def stop(self) -> None:
        """Finish it, and leave it so until it is started."""
        self._is_wanted = False
        self._interrupted.set()

    def restart(self) -> None:
        """Finish it, if it runs, and start it."""
        self._is_wanted = True
        self._backoff.reset()
        self._interrupted.set()

    def note_change(self) -> None:
        """Try again what does not run, because its file has changed; a worker follows its file itself."""
        if self._is_wanted and self._process is None:
            self.start()

    def close(self) -> None:
        """Finish it for good; `run` returns then."""
        self._is_closing = True
        self._interrupted.set()

    async def run(self) -> None:
        """Keep it running until `close`."""
        try:
            while not self._is_closing:
                if not self._is_wanted:
                    self._become(SupervisedState.STOPPED)
                    await self._pause(None)
                    continue
                self._become(SupervisedState.STARTING)
                lock = await self._lock()
                if lock is not None:
                    await self._run_once(lock)
        finally:
            if self._process is not None:  # only when cancelled
                await self._process.close()
            self._claim.close()

    async def _lock(self) -> int | None:
        """Return the lock for a worker, once that of an earlier server has ended; None when there is other news."""
        began = time.monotonic()
        while (lock := self._claim.take()) is None:
            pid = self._claim.holder()
            self._why = f"the process {pid} of an earlier server is still closing its outputs"
            if time.monotonic() - began > _ORPHAN_SECONDS and pid is not None:
                self._tell(MessageKind.WARNING, f"{self._why}: it is killed")
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if await self._pause(_ASK_SECONDS):
                return None
        self._why = ""
        return lock

    async def _run_once(self, lock: int) -> None:
        """Run a worker to its end, and wait as long as its end demands."""
        self._interrupted.clear()
        self._has_answered, self._silent_seconds = False, 0.0
        command = (*self._options.command, "--name", self.name, str(self.file))
        try:
            process = WorkerProcess(
                command,
                self._claim,
                lock=lock,
                environment=self._options.environment,
                say=lambda line: self._say(self.name, line),
            )
        except OSError as error:
            await self._fail(f"it cannot be started: {error.strerror}", ran_seconds=0)
            return
        self._process = process
        asking = asyncio.ensure_future(self._ask())
        try:
            trouble = await self._watch(process)
        finally:
            asking.cancel()
            code, ran_seconds = process.code, process.ran_seconds
            await process.close()
            self._process, self._is_ready = None, False
        await self._settle(process, process.code if code is None else code, trouble, ran_seconds=ran_seconds)

    async def _watch(self, process: WorkerProcess) -> str | None:
        """Wait for the end of a worker, or bring it about; return the trouble that demanded it.

        "" means that somebody wanted the end.
        """
        while process.code is None:
            if await self._pause(_TICK_SECONDS):
                self._become(SupervisedState.STOPPING)
                self._is_ready = False
                await process.end(seconds=self._options.end_timeout)
                return ""
            if (trouble := self._over_memory(process)) is not None:
                self._tell(MessageKind.ERROR, f"{trouble}: it is started again")
                await process.end(seconds=self._options.end_timeout)
                return trouble
            if self._silent_seconds >= (self._options.hang_timeout if self._has_answered else _START_SECONDS):
                trouble = f"it gave no answer for {self._silent_seconds:.0f} s"
                self._tell(MessageKind.ERROR, f"{trouble}: it is killed")
                await process.abort()
                return trouble
        return None

    def _over_memory(self, process: WorkerProcess) -> str | None:
        limit, held = self._options.memory_limit, process.resident_bytes()
        if limit is None or held is None or held <= limit:
            return None
        return f"it holds {held / _MEGABYTE:.0f} MB of memory, and may hold {limit / _MEGABYTE:.0f} MB"

    async def _ask(self) -> None:
        """Ask the worker again and again whether it is ready, until cancelled; any answer is a sign of life."""
        answer_seconds = min(_ANSWER_SECONDS, self._options.hang_timeout)
        while True:
            began = time.monotonic()
            try:
                status, body = await fetch(self.socket, "/readyz", timeout_seconds=answer_seconds)
            except OSError:
                await asyncio.sleep(_TICK_SECONDS)
                self._silent_seconds += min(time.monotonic() - began, answer_seconds + _TICK_SECONDS)
                continue
            self._silent_seconds = 0.0
            self._is_ready = status == HTTPStatus.OK
            self._why = "" if self._is_ready else "; ".join(body.decode(errors="replace").splitlines()[1:])
            if not self._has_answered:
                self._has_answered = True
                self._become(SupervisedState.RUNNING)
            await asyncio.sleep(_ASK_SECONDS if self._is_ready else _TICK_SECONDS)

    async def _settle(
        self, process: WorkerProcess, code: int | None, trouble: str | None, *, ran_seconds: float
    ) -> None:
        """Act on the end of a worker."""
        assert code is not None
        reason = trouble if trouble is not None else _reason(code, process.lines)
        self._last_exit = Exit(
            at=time.time(),
            ran_seconds=round(ran_seconds, 3),
            reason=reason or "it was ended as asked",
            code=code if code >= 0 else None,
            signal=signal_name(code),
            log=process.lines[-_SHOWN_LINES:],
        )
        if trouble == "":
            return
        state = state_after(code, has_answered=self._has_answered)
        if trouble or state is SupervisedState.BACKING_OFF:
            await self._fail(reason, ran_seconds=ran_seconds)
        elif state is SupervisedState.ENDED:
            self._backoff.reset()
            self._become(state, reason if code else "")
            self._tell(MessageKind.STOPPED, "it has come to its end")
            await self._pause(None)
        else:
            self._become(state, "; ".join(process.lines[-_SHOWN_LINES:]))
            self._tell(MessageKind.ERROR, f"its configuration is wrong; it is tried again when {self.file} changes")
            await self._pause(_INVALID_SECONDS)

    async def _fail(self, reason: str, *, ran_seconds: float) -> None:
        """Wait for the next attempt."""
        delay = self._backoff.fail(ran_seconds=ran_seconds)
        failures = self._backoff.failures
        self._next_attempt = time.monotonic() + delay
        self._become(SupervisedState.BACKING_OFF, reason)
        self._tell(MessageKind.ERROR, f"{reason}; next attempt in {delay:.0f} s")
        if failures >= MANY_FAILURES:
            self._why = f"{reason} ({failures} failures in a row)"
        if failures == MANY_FAILURES:
            text = f"it has failed {failures} times in a row; it is tried again every minute at most"
            self._post(self.name, Message(MessageKind.ERROR, text, data={"failures": failures}))
        await self._pause(delay)
        self._next_attempt = None
        self._restarts += not self._is_closing and self._is_wanted

    async def _pause(self, seconds: float | None) -> bool:
        """Wait; return at once, and True, when somebody wants something else."""
        try:
            await asyncio.wait_for(self._interrupted.wait(), seconds)
        except TimeoutError:
            return False
        self._interrupted.clear()
        return True

    def _become(self, state: SupervisedState, why: str = "") -> None:
        if state is not self._state:
            self._since = time.time()
        self._state, self._why = state, why

    def _tell(self, kind: MessageKind, text: str) -> None:
        self._post(self.name, Message(kind, text))


def _reason(code: int, lines: Sequence[str]) -> str:
    """Why a worker ended by itself, in one line: its signal and where it was, or its last error."""
    name = signal_name(code)
    if name is not None:
        return f"it was killed by {name}" + place_of_crash(lines)
    errors = [line for line in lines if line.startswith(("error: ", "internal error: "))]
    said = errors[-1] if errors else lines[-1] if lines else ""
    return f"it ended with exit code {code}" + (f": {said}" if said else "")
