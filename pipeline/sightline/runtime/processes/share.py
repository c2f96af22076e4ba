"""The share of one worker: its process is watched, and started again with the same streams when it fails."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from threading import Event as Flag
from threading import RLock, current_thread
from types import MappingProxyType
from typing import Any, Protocol

from sightline.errors import OperatorError
from sightline.graph import SourceElement
from sightline.redaction import redact
from sightline.runtime.processes.assignment import Assignment
from sightline.runtime.processes.channel import ChannelClosed, Letter
from sightline.runtime.processes.merged import folded
from sightline.runtime.processes.restarts import Backoff
from sightline.runtime.processes.worker import WorkerProcess
from sightline.runtime.sources.manager import PendingChange
from sightline.runtime.stats.report import Report
from sightline.runtime.stats.snapshot import RunView
from sightline.runtime.threads import Worker

_FIRST_DELAY_SECONDS = 0.1
_STEADY_SECONDS = 10.0
_LOOK_SECONDS = 0.1
_START_SECONDS = 300.0
"""Within which a worker gives its first sign of life: it imports elements and loads models before."""
_ABORT_SECONDS = 3.0
_ANSWER_SECONDS = 30.0
_MEGABYTE = 1_000_000


class ShareEvents(Protocol):
    """What a share reports to the run, from its thread."""

    def process(self) -> WorkerProcess:
        """Return a process for a worker. Raises OSError."""
        ...

    def has_work(self, share: Share) -> bool:
        """Whether there is something left to do for it."""
        ...

    def assignment(self, share: Share) -> Assignment:
        """Return what its next worker is to run."""
        ...

    def take(self, share: Share, letter: Letter) -> None:
        """Take a letter of its worker."""
        ...

    def lost(self, share: Share, reason: str, *, delay_seconds: float) -> None:
        """Note that its worker has ended before its end; it is started again after so many seconds."""
        ...

    def failed(self, error: BaseException) -> None:
        """End the run with an error."""
        ...

    def over(self, share: Share) -> None:
        """Note that its last worker has ended."""
        ...


@dataclass(frozen=True, slots=True)
class Watching:
    """When a worker has failed: it gives no sign of life for `hang_seconds`, or holds more than `memory_limit`."""

    hang_seconds: float
    memory_limit: int | None = None


class Share(Worker):
    """Runs the worker with a number (from 1) until its streams have ended or the run is stopped; a thread of its own.

    `sources` are the streams that it reads, `view` what its worker has counted, `former` what workers before have.
    """

    def __init__(self, number: int, *, device: str, events: ShareEvents, watching: Watching) -> None:
        super().__init__(f"worker-{number}")
        self.number = number
        self.device = device
        self.sources: dict[str, SourceElement] = {}
        self.paused: set[str] = set()
        self.view: RunView | None = None
        self.former: RunView | None = None
        self.report: Report | None = None
        self.files: tuple[Any, ...] = ()
        self.load = 0.0
        """CPU time a second of its process, as last measured (`load_at`, by `time.monotonic`)."""
        self.restarts = self.fruitless = 0
        """How often a worker was started again, and how many failed in a row that had processed no frame."""
        self.could_begin = True
        self.begun = Flag()
        """Set when its first worker runs, or could not be started."""
        self.built = Flag()
        """Set when its worker has built what a change needs, and waits for the others."""
        self.progress = 0
        """Frames that its workers have processed."""
        self._cpu_ns: tuple[float, int] | None = None
        self._events = events
        self._watching = watching
        self._backoff = Backoff(_FIRST_DELAY_SECONDS, _STEADY_SECONDS)
        self._stopping, self._aborting = Flag(), Flag()
        self._aborting_since = 0.0
        self.lock = RLock()
        """Held while its streams change, and with them what its worker runs."""
        self._process: WorkerProcess | None = None
        self._is_assigned = self._has_begun = False
        self._numbers = count(1)
        self._calls: dict[int, PendingChange | Answer] = {}
        self._held: deque[Letter] = deque()
        """Letters that came while this thread waited for an answer."""

    @property
    def pid(self) -> int | None:
        """The process of its worker; None between two."""
        process = self._process
        return None if process is None else process.pid

    @property
    def is_stopping(self) -> bool:
        """Whether no other worker follows the present one."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Let the worker finish what is under way; from any thread."""
        self._stopping.set()
        self._tell("stop")

    def abort(self) -> None:
        """Let the worker drop what is under way; kill it when it does not end soon. From any thread."""
        self._stopping.set()
        self._aborting.set()
        self._tell("abort")

    def fail_stream(self, content: Any) -> None:
        """Let the worker give a stream up."""
        self._tell("fail stream", content)

    def request(self, name: str, *arguments: Any, **options: Any) -> PendingChange:
        """Ask the worker for a change; done when that is, or when a worker that is started later begins with it."""
        change = PendingChange()
        if not self._call(change, name, arguments, options):
            change.finish()
        return change

    def ask(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Return what a method of the worker's run returns; None when there is no worker now, or it does not answer
        within half a minute. Raises its error.
        """
        answer = self.begin_to_ask(name, *arguments, **options)
        if current_thread() is self:
            self._receive_answer(answer)
            return answer.wait(0.0)
        return answer.wait(_ANSWER_SECONDS)

    def begin_to_ask(self, name: str, *arguments: Any, **options: Any) -> Answer:
        """Ask as `ask` does, for an answer that may take long: it comes at the end of the worker at the latest."""
        answer = Answer()
        if not self._call(answer, name, arguments, options):
            answer.give(None, None)
        return answer

    def note_cpu(self, cpu_ns: int) -> None:
        """Note the CPU time of the worker's process so far."""
        now, before = time.monotonic(), self._cpu_ns
        self._cpu_ns = (now, cpu_ns)
        if before is not None and now > before[0]:
            self.load = max(0.0, (cpu_ns - before[1]) / 1e9 / (now - before[0]))

    @property
    def load_at(self) -> float:
        """When the load was measured last; 0 when it never was."""
        return 0.0 if self._cpu_ns is None else self._cpu_ns[0]

    def answer(self, number: int, value: Any, error: Any) -> None:
        """Give an answer of the worker to who asked."""
        with self.lock:
            asked = self._calls.pop(number, None)
        if isinstance(asked, Answer):
            asked.give(value, None if error is None else error.error())
        elif asked is not None:
            asked.finish() if error is None else asked.fail(error.error())

    def work(self) -> None:
        """Run one worker after another."""
        try:
            while self._events.has_work(self):
                reason, ran_seconds, had = None, 0.0, self.progress
                try:
                    process = self._events.process()
                except OSError as error:
                    reason = f"cannot be started: {error.strerror}"
                else:
                    reason = self._run(process)
                    ran_seconds = process.ran_seconds
                if reason is None:
                    break
                self.fruitless = 0 if self.progress > had else self.fruitless + 1
                delay_seconds = self._backoff.fail(ran_seconds=ran_seconds)
                if self.view is not None:
                    self.former = self.view if self.former is None else folded(self.former, self.view)
                    self.view, self._cpu_ns = None, None
                self.restarts += not self.is_stopping
                self._events.lost(self, reason, delay_seconds=delay_seconds)
                self.begun.set()
                self._stopping.wait(delay_seconds)
        except Exception as error:  # noqa: BLE001  the thread's outermost frame: the run ends with it
            name = f"worker {self.number}"
            failure = OperatorError(f"{name} failed: {redact(f'{type(error).__name__}: {error}')}", element=name)
            failure.__cause__ = error
            self._events.failed(failure)
        finally:
            self._events.over(self)
            self.begun.set()

    def _run(self, process: WorkerProcess) -> str | None:
        """Run one worker to its end; return why it is to be started again, None after its regular end."""
        trouble: str | None = None
        has_ended = False
        try:
            with self.lock:
                self._process = process
            trouble, has_ended = self._receive(process)
        except ChannelClosed:
            pass
        finally:
            with self.lock:
                self._process, self._is_assigned, self._has_begun = None, False, False
            self._held.clear()
            if not has_ended:
                process.kill()
            end = process.close()
            self._forget_calls()
        return None if has_ended else trouble or end

    def _receive(self, process: WorkerProcess) -> tuple[str | None, bool]:
        """Receive letters until the worker has ended, or has failed by what is watched; return the trouble, if any, and
        whether it has ended regularly. Raises ChannelClosed.
        """
        heard, looked = time.monotonic(), 0.0
        while True:
            if self._held or process.channel.has_letter(_LOOK_SECONDS):
                letter = self._held.popleft() if self._held else process.channel.receive()
                self._take(process, letter)
                heard = time.monotonic()  # after it was dealt with: a slow sink is no silence
                if letter.kind in ("ended", "failed"):
                    return None, True
            now = time.monotonic()
            if now - looked > _LOOK_SECONDS:
                looked = now
                if (trouble := self._trouble(process, silent_seconds=now - heard)) is not None:
                    return trouble, False

    def _receive_answer(self, answer: Answer) -> None:
        """Receive until the worker has answered what a listener, which this thread calls, has asked; hold the other
        letters until that has returned. Its end is found again where letters are received.
        """
        channel = None if self._process is None else self._process.channel
        end = time.monotonic() + _ANSWER_SECONDS
        while channel is not None and not answer.is_there and (left := end - time.monotonic()) > 0:
            try:
                if not channel.has_letter(left):
                    return
                letter = channel.receive()
            except ChannelClosed:
                return
            if letter.kind == "answer":
                self.answer(*letter.content)
            else:
                self._held.append(letter)

    def _take(self, process: WorkerProcess, letter: Letter) -> None:
        if letter.kind == "ready":
            with self.lock:
                process.channel.send("begin", self._events.assignment(self))
                self._is_assigned = True
        elif letter.kind == "begun":
            self._begin()
        elif letter.kind == "answer":
            self.answer(*letter.content)
        elif letter.kind == "failed" and not self._has_begun:
            self.could_begin = False
        self._events.take(self, letter)
        if letter.kind in ("begun", "failed"):
            self.begun.set()

    def _trouble(self, process: WorkerProcess, *, silent_seconds: float) -> str | None:
        """Return why a worker is to be killed, in words that follow its name; one that hangs is killed already."""
        if self._aborting.is_set():
            self._aborting_since = self._aborting_since or time.monotonic()
            if time.monotonic() - self._aborting_since > _ABORT_SECONDS:
                return "did not stop, and was killed"
        if silent_seconds > (self._watching.hang_seconds if self._has_begun else _START_SECONDS):
            process.abort()
            return f"gave no sign of life for {silent_seconds:.0f} s, and was killed"
        return self._over_memory(process)

    def _over_memory(self, process: WorkerProcess) -> str | None:
        limit = self._watching.memory_limit
        held = None if limit is None else process.resident_bytes()
        if limit is None or held is None or held <= limit:
            return None
        return f"held {held / _MEGABYTE:.0f} MB of memory, where {limit / _MEGABYTE:.0f} MB are allowed, and was killed"

    def _begin(self) -> None:
        self._has_begun = True
        with self.lock:
            paused = [name for name in self.paused if name in self.sources]
        for name in paused:
            self.request("pause_source", name)
        if self._stopping.is_set():
            self._tell("abort" if self._aborting.is_set() else "stop")

    def _tell(self, kind: str, content: Any = None) -> None:
        with self.lock:
            process = self._process if self._is_assigned else None
            if process is not None:
                with suppress(ChannelClosed):  # its end is noticed where letters are received
                    process.channel.send(kind, content)

    def _call(
        self,
        answer: PendingChange | Answer,
        name: str,
        arguments: tuple[Any, ...],
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> bool:
        with self.lock:
            if not self._is_assigned:
                return False
            number = next(self._numbers)
            self._calls[number] = answer
            self._tell("call", (number, name, arguments, dict(options)))
            return True

    def _forget_calls(self) -> None:
        """Answer what an ended worker has not: changes are in the assignment of the next one."""
        with self.lock:
            calls, self._calls = self._calls, {}
        for one in calls.values():
            if isinstance(one, Answer):
                one.give(None, None)
            else:
                one.finish()


class Answer:
    """The answer of a worker, to be waited for."""

    def __init__(self) -> None:
        self._there = Flag()
        self._value: Any = None
        self._error: BaseException | None = None

    @property
    def is_there(self) -> bool:
        """Whether it has come."""
        return self._there.is_set()

    @property
    def has_failed(self) -> bool:
        """Whether it has come, and is an error."""
        return self._error is not None

    def give(self, value: Any, error: BaseException | None) -> None:
        """Note the answer."""
        self._value, self._error = value, error
        self._there.set()

    def wait(self, timeout_seconds: float | None = None) -> Any:
        """Return the answer, None when there is none or it does not come in time; raises the error that it is."""
        self._there.wait(timeout_seconds)
        if self._error is not None:
            raise self._error
        return self._value
