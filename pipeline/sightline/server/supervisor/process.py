"""The process of one pipeline, seen from the server."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from sightline.redaction import redact
from sightline.runtime.processes.restarts import resident_bytes
from sightline.server.supervisor.claim import Claim

_KEPT_LINES = 400
_LONGEST_LINE = 2000
_READ_BYTES = 1 << 16
_POLL_SECONDS = 0.05
_ABORT_SECONDS = 3.0
_LAST_LINES_SECONDS = 1.0


class WorkerProcess:
    """Runs a command in a session of its own; used in one event loop. `command` is given three options more: the
    descriptors of the socket to listen at, of the pipe whose end is the end of the server, and of its lock.

    What it writes on standard error goes to `say` line by line, without secrets; the last lines are kept.
    """

    def __init__(
        self,
        command: Sequence[str],
        claim: Claim,
        *,
        lock: int,
        environment: Mapping[str, str],
        say: Callable[[str], None],
    ) -> None:
        """Takes the lock over. Raises OSError when the process cannot be started."""
        self.started_at = time.time()
        self._started = time.monotonic()
        self._say = say
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        alive, self._alive = os.pipe()
        try:
            with claim.listen() as listening:
                passed = (listening.fileno(), alive, lock)
                self._process = subprocess.Popen(  # noqa: S603  the interpreter that runs this, and its own arguments
                    [*command, "--socket", str(passed[0]), "--alive", str(alive)],
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=dict(environment),
                    pass_fds=passed,
                    start_new_session=True,
                )
            claim.note(lock, self._process.pid)
        except BaseException:
            os.close(self._alive)
            raise
        finally:
            os.close(alive)
            os.close(lock)
        self.pid = self._process.pid
        self._reading = asyncio.ensure_future(self._read())

    @property
    def ran_seconds(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self._started

    @property
    def code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines that it wrote."""
        return tuple(self._lines)

    def resident_bytes(self) -> int | None:
        """The memory that it holds; None where the system does not tell, and after its end."""
        return resident_bytes(self.pid)

    async def end(self, *, seconds: float) -> None:
        """Ask it to finish, and wait for that; kill it when it takes longer."""
        self._signal(signal.SIGTERM)
        if not await self._ended_within(seconds):
            await self.kill()

    async def abort(self) -> None:
        """End a process that does not answer; the stacks of its threads are written first, where that works."""
        self._signal(signal.SIGABRT)
        await self._ended_within(_ABORT_SECONDS)
        await self.kill()

    async def kill(self) -> None:
        """Kill it and what it has started."""
        self._kill_group()
        while self.code is None:
            await asyncio.sleep(_POLL_SECONDS)

    async def close(self) -> None:
        """Kill what is left of it, and read what it wrote last; harmless when called again."""
        await self.kill()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._reading, _LAST_LINES_SECONDS)
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1

    async def _ended_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.code is None and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
        return self.code is not None

    def _signal(self, number: signal.Signals) -> None:
        if self.code is None:  # it is not reaped yet, so that the number is still its own
            os.kill(self.pid, number)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    async def _read(self) -> None:
        assert self._process.stderr is not None
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._process.stderr)
        rest = b""
        try:
            while data := await reader.read(_READ_BYTES):
                *lines, rest = (rest + data).split(b"\n")
                if len(rest) > _LONGEST_LINE:
                    lines, rest = [*lines, rest], b""
                for line in lines:
                    self._take(line)
            if rest:
                self._take(rest)
        finally:
            transport.close()

    def _take(self, line: bytes) -> None:
        text = redact(line[:_LONGEST_LINE].decode(errors="replace").rstrip())
        if text:
            self._lines.append(text)
            self._say(text)
