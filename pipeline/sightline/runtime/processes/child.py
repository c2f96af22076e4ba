"""The process of a worker: it runs its share of a pipeline and sends results. The main process starts it:
`python -m sightline.runtime.processes.child`.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from threading import Event as Flag
from threading import Lock
from typing import Any

from sightline.devices.discovery import take_device
from sightline.errors import OperatorError, StreamError
from sightline.graph import Element, Message, MessageKind, Mounts, Outputs, Packets, Step
from sightline.graph.site import SystemClock
from sightline.media import Batch, Event, Stream
from sightline.runtime.processes.assignment import Assignment, ToldError, forwarding, named
from sightline.runtime.processes.channel import Channel, ChannelClosed
from sightline.runtime.processes.results import Results
from sightline.runtime.processes.streams import Done
from sightline.runtime.runner import Runner
from sightline.runtime.scheduling.lanes import AtItsEnd, Rebuilt
from sightline.runtime.sources.manager import PendingChange
from sightline.runtime.stats.counters import StreamStats
from sightline.runtime.threads import Worker

VIEW_SECONDS = 0.5
"""How often a worker sends what it has counted; any letter is a sign of life."""
_LOOK_SECONDS = 0.1
_END_SECONDS = 10.0
"""How long a worker without a main process has to close its files."""
_GRACE_SECONDS = 10.0
"""By how much longer than the main process a worker that hangs waits, before it ends itself."""
_OWN_MESSAGES = (MessageKind.STARTED, MessageKind.STOPPED)
"""Told by the main process for all workers."""


class _NotAgreed(Exception):
    """Another worker cannot take part in a change."""


class _WorkerRun:
    """One share of a run, from its assignment to its end."""

    def __init__(self, channel: Channel, assignment: Assignment) -> None:
        self._channel = channel
        self._description = assignment.description
        description = forwarding(assignment.description, assignment.forwarded, channel.send)
        self._outputs = Outputs(assignment.outputs_root)
        for path in assignment.claimed:
            self._outputs.claim(path)
        self.runner = Runner(
            description,
            device=take_device(description.device),
            outputs=self._outputs,
            clock=SystemClock(),
            post=self._post,
            probes={},
            mounts=Mounts(),
            packets=Packets(),
            limits=assignment.limits,
            on_events=self._send_events if assignment.wants_events else None,
            on_batch=self._send_done,
            telemetry=None if assignment.traces is None else assignment.traces(post=self._post),
            fresh=assignment.fresh,
            former=assignment.former,
        )
        self._stats: dict[str, StreamStats] = {}
        self._wants_batches = assignment.wants_batches
        self._pending: dict[int, PendingChange] = {}
        self._leaving: dict[int, StreamStats] = {}
        """The counts of streams that are being removed, by the numbers of the requests."""
        self._lock, self._failing = Lock(), Lock()
        self._contexts: dict[str, ExitStack] = {}
        self._told_failure: OperatorError | None = None
        self._decided, self._is_agreed = Flag(), False
        self._own_calls: Mapping[str, Callable[..., Any]] = {
            "runs": self._runs,
            "differs": self._differs,
            "rebuild": self._rebuild,
            "decide": self._decide,
            "settle_probation": self._settle_probation,
            "prove": self.prove,
            "keep_open": lambda keeps: self._enter("kept open", self.runner.kept_open, enters=keeps),
        }
        """What is asked of the worker and not of its runner as it is."""
        self.prove(begins=assignment.is_on_probation)

    def send_view(self) -> None:
        """Send what is counted now."""
        try:
            content = (self.runner.view(), time.process_time_ns(), tuple(self._outputs.files))
            self._channel.send("view", content)
        except RuntimeError:
            pass  # a table grew while it was pickled: the next view has it

    def settle(self) -> bool:
        """Answer requests whose changes are done, and report a change that has failed; return whether requests are
        under way.
        """
        with self._failing:
            failure = self.runner.probation.error
            if failure is not self._told_failure:
                self._told_failure = failure
                if failure is not None:
                    self._channel.send("change failed", ToldError.of(failure))
        with self._lock:
            done = {number: one for number, one in self._pending.items() if one.done}
            for number in done:
                del self._pending[number]
            is_waiting = bool(self._pending)
        for number, change in done.items():
            if (stats := self._leaving.pop(number, None)) is not None:
                self._channel.send("stream left", stats)  # views do not have it any more
            self._answer(number, change.wait)
        return is_waiting

    def call(self, number: int, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
        """Do what the main process asks for, and answer when it is done. Steps are changed in a thread of their own:
        that waits until models are loaded and batches have passed.
        """
        if name == "rebuild":
            _Call(lambda: self._do(number, name, arguments, options)).start()
        else:
            self._do(number, name, arguments, options)

    def prove(self, *, begins: bool) -> None:
        """Let a change be on probation from now on, or none any more."""
        self._enter("probation", self.runner.probation.of_a_change, enters=begins)

    def _do(self, number: int, name: str, arguments: Sequence[Any], options: Mapping[str, Any]) -> None:
        work = self._own_calls.get(name) or getattr(self.runner, name)
        if name == "remove_source" and (stats := self.runner.streams().get(arguments[0])) is not None:
            self._leaving[number] = stats
        try:
            answer = work(*arguments, **options)
        except Exception as error:  # noqa: BLE001  raised where it was asked for
            self._leaving.pop(number, None)
            self._channel.send("answer", (number, None, ToldError.of(error)))
            return
        if isinstance(answer, PendingChange):
            with self._lock:
                self._pending[number] = answer
        else:
            self._answer(number, lambda: answer)

    def _enter(self, name: str, context: Callable[[], AbstractContextManager[None]], *, enters: bool) -> None:
        """Enter a context, or leave it; it is entered once."""
        if enters and name not in self._contexts:
            self._contexts[name] = ExitStack()
            self._contexts[name].enter_context(context())
        elif not enters and name in self._contexts:
            self._contexts.pop(name).close()

    def _settle_probation(self) -> int:
        """What failed was taken back: a failure that comes now is another one, and is reported as such."""
        with self._failing:
            self._told_failure = None
            return self.runner.probation.settle()

    def _runs(self, element_id: str, element: Element) -> bool:
        return self.runner.runs(element_id, named(element_id, element))

    def _differs(self, steps: tuple[Step, ...], forwarded: Mapping[str, int]) -> bool:
        return self.runner.differs(self._own_steps(steps, forwarded))

    def _rebuild(self, steps: tuple[Step, ...], forwarded: Mapping[str, int], *, prove_ns: int) -> Rebuilt | None:
        """Continue with other steps; return None when this worker has nothing left to do, or another one refuses."""
        self._decided.clear()
        try:
            return self.runner.rebuild(self._own_steps(steps, forwarded), prove_ns=prove_ns, agree=self._agree)
        except (AtItsEnd, _NotAgreed):
            return None

    def _agree(self) -> None:
        """Wait until all workers have built what they need. Raises _NotAgreed when one could not."""
        self._channel.send("change built")
        self._decided.wait()
        if not self._is_agreed:
            raise _NotAgreed

    def _decide(self, *, is_agreed: bool) -> None:
        self._is_agreed = is_agreed
        self._decided.set()

    def _own_steps(self, steps: tuple[Step, ...], forwarded: Mapping[str, int]) -> tuple[Step, ...]:
        description = self._description.model_copy(update={"steps": steps})
        return forwarding(description, forwarded, self._channel.send).steps

    def _answer(self, number: int, answer: Callable[[], Any]) -> None:
        content: tuple[int, Any, ToldError | None]
        try:
            content = (number, answer(), None)
        except Exception as error:  # noqa: BLE001  raised where it was asked for
            content = (number, None, ToldError.of(error))
        self._channel.send("answer", content)

    def _post(self, message: Message) -> None:
        if message.kind not in _OWN_MESSAGES:
            with suppress(ChannelClosed):
                self._channel.send("message", message)

    def _received(self, name: str) -> int:
        """How many frames of a stream have been received."""
        if name not in self._stats:
            self._stats = dict(self.runner.streams())
        stats = self._stats.get(name)
        return 0 if stats is None else stats.received

    def _send_events(self, batch: Batch, events: Sequence[Event]) -> None:
        with suppress(ChannelClosed):
            self._channel.send("events", (Results.of(batch), tuple(events)))

    def _send_done(self, batch: Batch, arrivals_ns: Sequence[int]) -> None:
        """Tell which frames have passed all steps, behind all that these steps have sent of them."""
        counts: dict[str, Done] = {}
        for frame in batch.frames:
            name = frame.stream.name
            frames = counts[name].frames if name in counts else 0
            counts[name] = Done(frames + 1, frame.index, frame.pts_ns, self._received(name))
        shown = (Results.of(batch), tuple(arrivals_ns)) if self._wants_batches else None
        with suppress(ChannelClosed):
            self._channel.send("done", (counts, shown))


class _Call(Worker):
    """Does one thing that the main process asks for and that takes long."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__("worker-call")
        self._work = work

    def work(self) -> None:
        """Do it; nobody waits for the answer when the main process has ended."""
        with suppress(ChannelClosed):
            self._work()


class _Reporter(Worker):
    """Sends what is counted, again and again. If it does not come to that for longer than the main process waits,
    because something holds the interpreter, the process ends, whether or not the main process is still there to end it:
    a thread of `faulthandler`, which needs no interpreter, sees to that.
    """

    def __init__(self, run: _WorkerRun, *, hang_seconds: float, crash: int) -> None:
        super().__init__("worker-report")
        self._run = run
        self._last_seconds = hang_seconds + _GRACE_SECONDS
        self._crash = crash
        self._stopping = Flag()

    def stop(self) -> None:
        """Send nothing more."""
        self._stopping.set()
        self.wait(_END_SECONDS)
        faulthandler.cancel_dump_traceback_later()

    def work(self) -> None:
        """Send until the run is over, or nobody is there."""
        due = 0.0
        with suppress(ChannelClosed):
            while not self._stopping.wait(_LOOK_SECONDS):
                self._run.settle()
                if time.monotonic() >= due:
                    due = time.monotonic() + VIEW_SECONDS
                    faulthandler.dump_traceback_later(self._last_seconds, exit=True, file=self._crash)
                    self._run.send_view()


class _Commands(Worker):
    """Does what the main process says, and ends the process after it."""

    def __init__(self, channel: Channel, run: _WorkerRun) -> None:
        super().__init__("worker-commands")
        self._channel = channel
        self._run = run
        self.is_over = Flag()

    def work(self) -> None:
        """Receive until the main process has ended."""
        runner = self._run.runner
        try:
            while True:
                letter = self._channel.receive()
                if letter.kind == "stop":
                    runner.stop()
                elif letter.kind == "abort":
                    runner.abort()
                elif letter.kind == "fail stream":
                    stream, told, details = letter.content
                    runner.fail_stream(Stream(*stream), told.error(), details)
                else:
                    self._run.call(*letter.content)
        except ChannelClosed:
            pass
        if not self.is_over.is_set():
            runner.abort()
            if not self.is_over.wait(_END_SECONDS):
                os.kill(os.getpid(), signal.SIGKILL)


def run_share(channel: Channel, assignment: Assignment, *, crash: int) -> None:
    """Run a share of a pipeline to its end; `crash` is the descriptor for what a crash leaves. Raises ChannelClosed
    when the main process ends before.
    """
    try:
        run = _WorkerRun(channel, assignment)
    except Exception as error:  # noqa: BLE001  raised in the main process
        channel.send("failed", ToldError.of(error))
        return
    commands = _Commands(channel, run)
    reporter = _Reporter(run, hang_seconds=assignment.hang_seconds, crash=crash)
    commands.start()

    def begin() -> None:
        channel.send("begun", str(run.runner.device))
        reporter.start()

    try:
        try:
            run.runner.start(on_built=begin)  # from the first frame on it is watched whether the worker hangs
        except Exception as error:  # noqa: BLE001  raised in the main process
            if reporter.running:
                reporter.stop()
            channel.send("failed", ToldError.of(error))
            return
        told = None
        try:
            run.runner.wait()
        except StreamError:
            pass  # each stream's failure was reported when it happened, and is in its counts
        except Exception as error:  # noqa: BLE001  raised in the main process
            told = ToldError.of(error)
        reporter.stop()
        run.settle()
        channel.send("ended", (run.runner.view(), run.runner.report, told))
    finally:
        commands.is_over.set()


def main(arguments: Sequence[str]) -> int:
    """Run a worker: the arguments are the descriptors of its socket and of the file for what a crash leaves."""
    connection, crash = map(int, arguments)
    for descriptor in (connection, crash):
        os.set_inheritable(descriptor, False)
    faulthandler.enable(file=crash)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the main process says when to end
    channel = Channel(socket.socket(fileno=connection))
    with suppress(ChannelClosed):
        channel.send("ready")
        while (letter := channel.receive()).kind != "begin":
            pass  # steps that a spare worker may get: to receive them has imported their modules
        run_share(channel, letter.content, crash=crash)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
