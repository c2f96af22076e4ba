"""Workers, links and failures in simulated time, around the real `Controller` and `WorkerLease`.

Messages take time and get lost, clocks run at different speeds, workers take a while to stop and start streams. The
world knows the truth: who runs each stream at every moment. `start` checks, each time that a stream starts, that nobody
else runs it and that its epoch has grown.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from sightline.cluster.controller import Controller
from sightline.cluster.lease import WorkerLease
from sightline.cluster.model import (
    ClusterConfiguration,
    ClusterEvent,
    ClusterEventKind,
    ClusterOptions,
    ConfigurationOrder,
    ConfigurationReport,
    Grant,
    Heartbeat,
    Refusal,
    StreamSpec,
)
from sightline.cluster.store import MemoryStore

SECOND = 1_000_000_000
_STEP_NS = SECOND // 4
_DRIFT = 200e-6
"""Clocks run this much too fast or too slow at most; quartz is below a tenth of it."""
_DAY_NS = 1_790_000_000 * SECOND
_PATH_SECONDS = (0.001, 0.02)
_STOP_SECONDS = (0.05, 0.4)
_CONNECT_SECONDS = (0.1, 0.7)
_BUILD_SECONDS = (0.02, 0.2)


class InvariantBroken(AssertionError):
    """The cluster did what it must never do."""


class SimulatedClock:
    """A clock that stands still until the world moves it."""

    def __init__(self, *, rate: float = 1.0, offset_ns: int = 0) -> None:
        self.now_ns = 0
        self._rate, self._offset_ns = rate, offset_ns

    def monotonic_ns(self) -> int:
        """Nanoseconds since some moment, at this clock's speed."""
        return self._offset_ns + round(self.now_ns * self._rate)

    def epoch_ns(self) -> int:
        """The time of day, which is synchronised."""
        return _DAY_NS + self.now_ns


@dataclass(slots=True, eq=False)
class SimulatedWorker:
    """A machine: what it runs, with which epoch, and whether it can be reached."""

    name: str
    labels: Mapping[str, str]
    capacity: float
    clock: SimulatedClock
    incarnation: int = 0
    lease: WorkerLease | None = None
    running: dict[str, int] = field(default_factory=dict)
    stopping: set[str] = field(default_factory=set)
    is_cut: bool = False
    late_share: float = 0.0
    closed: WorkerLease | None = None
    """That of a process whose end was noticed: its messages came over a connection that has ended."""
    is_checked: bool = False
    """Whether the end of the lease is being waited for."""
    setup: ConfigurationReport = field(default_factory=ConfigurationReport)
    confirmed: int = 0
    """The last order that the controller knows to be here."""
    task: ConfigurationOrder | None = None
    """The order that it carries out now."""
    is_leaving: bool = False
    """Whether it starts again for another configuration."""
    dislikes: str = ""
    """Configurations whose name has this are refused; with `dies`, they end its process while they prove themselves."""
    dies: bool = False
    is_stuck: bool = False
    """Whether it never ends with those that it dislikes."""


class World:
    """A cluster from `begin` on; `run` moves its time. The same seed gives the same history."""

    def __init__(self, *, seed: int, options: ClusterOptions | None = None) -> None:
        self.random = Random(seed)
        self.options = options or ClusterOptions()
        self.clock = SimulatedClock()
        self.store = MemoryStore()
        self.workers: dict[str, SimulatedWorker] = {}
        self.streams: dict[str, StreamSpec] = {}
        self.controller: Controller | None = None
        self.events: list[ClusterEvent] = []
        self.configuration = configuration_of("first")
        self.ran: dict[str, list[str]] = {}
        """The names of the configurations that each worker has run, in order."""
        self.starts: Counter[str] = Counter()
        """How often each stream was started."""
        self.blind_ns = 0
        """The time for which wanted streams gave no frames, summed up over all of them."""
        self.controller_seconds = self.longest_step_seconds = 0.0
        self.silences: list[tuple[str, int, int]] = []
        """Of each stream the times of day between which nobody ran it; the time before its first start is not one."""
        self._silent_since: dict[str, int] = {}
        self._known: dict[str, ClusterConfiguration] = {}
        self._owner: dict[str, SimulatedWorker] = {}
        self._epochs: dict[str, tuple[int, SimulatedWorker]] = {}
        self._flowing: set[str] = set()
        self._blind_since_ns = 0
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.refused: Counter[str] = Counter()

    @property
    def seconds(self) -> float:
        """Simulated seconds since the beginning."""
        return self.clock.now_ns / SECOND

    @property
    def blind(self) -> int:
        """How many wanted streams give no frames now."""
        return len(self.streams) - len(self._flowing)

    def owner(self, stream: str) -> str | None:
        """The worker that runs a stream."""
        owner = self._owner.get(stream)
        return None if owner is None else owner.name

    def begin(self, streams: Mapping[str, StreamSpec]) -> None:
        """Want streams, and start the controller."""
        self.want(streams)
        self.start_controller()
        self._after(0.0, self._step)

    def want(self, streams: Mapping[str, StreamSpec]) -> None:
        """Want these streams, and no others."""
        self._account()
        self.streams = dict(streams)
        self._flowing &= self.streams.keys()
        self._silent_since = {name: since for name, since in self._silent_since.items() if name in self.streams}
        self.silences = [one for one in self.silences if one[0] in self.streams]
        if self.controller is not None:
            self.controller.desire(self.streams)

    def configure(self, name: str, **more: str) -> None:
        """Want a configuration of that name; what differs in `more` takes a new process."""
        self.configuration = configuration_of(name, **more)
        if self.controller is not None:
            self.controller.configure(self.configuration)

    def add_worker(self, name: str, *, capacity: float, labels: Mapping[str, str] | None = None) -> None:
        """Let a new machine report."""
        rate = 1 + self.random.uniform(-_DRIFT, _DRIFT)
        clock = SimulatedClock(rate=rate, offset_ns=self.random.randrange(10**6 * SECOND))
        worker = self.workers[name] = SimulatedWorker(name, labels or {}, capacity, clock)
        self.boot(name)
        self._after(self.random.random() * self.options.heartbeat_ns / SECOND, lambda: self._beat_forever(worker))

    def kill(self, name: str, *, is_noticed: bool = False) -> None:
        """End a worker's process, or machine; an engine may notice the former."""
        worker = self.workers[name]
        if worker.lease is None:
            return
        worker.lease, ended = None, worker.lease
        for stream in tuple(worker.running):
            self._stop(worker, stream)
        worker.stopping.clear()
        worker.setup, worker.task, worker.confirmed = ConfigurationReport(), None, 0
        if is_noticed and self.controller is not None:
            worker.closed = ended
            self.controller.worker_ended(name, f"{name}-{worker.incarnation}")

    def boot(self, name: str) -> None:
        """Start a worker's process again; harmless while it runs."""
        worker = self.workers[name]
        if worker.lease is None:
            worker.incarnation += 1
            self._tick(worker)
            worker.lease = WorkerLease(name, f"{name}-{worker.incarnation}", clock=worker.clock)

    def cut(self, name: str, *, is_cut: bool = True) -> None:
        """Pull a worker's cable, or plug it in."""
        self.workers[name].is_cut = is_cut

    def kill_controller(self) -> None:
        """End the controller's process: connections to it are refused."""
        self.controller = None

    def start_controller(self) -> None:
        """Start a controller where there is none."""
        if self.controller is None:
            self.controller = Controller(
                self.streams,
                store=self.store,
                clock=self.clock,
                options=self.options,
                configuration=self.configuration,
            )

    def run(self, seconds: float) -> None:
        """Let time pass. Raises InvariantBroken."""
        until_ns = self.clock.now_ns + round(seconds * SECOND)
        while self._queue and self._queue[0][0] <= until_ns:
            now_ns, _, action = heapq.heappop(self._queue)
            self.clock.now_ns = now_ns
            action()
        self.clock.now_ns = until_ns
        self._account()

    def run_until(self, condition: Callable[[], bool], *, seconds: float) -> float:
        """Let time pass until a condition holds; return how many seconds that took. Raises InvariantBroken when it
        does not hold in time.
        """
        began = self.seconds
        while not condition():
            if self.seconds - began >= seconds:
                raise InvariantBroken(f"not reached within {seconds} s: {self.blind} streams are blind")
            self.run(0.25)
        return self.seconds - began

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something in so many seconds."""
        self._after(seconds, action)

    def check(self) -> None:
        """Check what must hold at every moment, over all streams. Raises InvariantBroken."""
        running = Counter(stream for worker in self.workers.values() for stream in worker.running)
        if doubles := [stream for stream, count in running.items() if count > 1]:
            raise InvariantBroken(f"run by two workers: {doubles[:5]}")
        if running.keys() != self._owner.keys():
            raise InvariantBroken(f"the world lost count of {len(running.keys() ^ self._owner.keys())} streams")

    def check_reports(self) -> None:
        """Check that every silence is part of a gap that was reported, and that streams run where the controller says,
        and nowhere else: to be called when nothing is under way. Raises InvariantBroken.
        """
        self.check()
        assert self.controller is not None
        reported: dict[str, list[tuple[int, int]]] = {}
        for one in self.events:
            if one.kind is ClusterEventKind.STREAM_GAP:
                reported.setdefault(one.stream, []).append((one.since_ns, one.until_ns))
        for stream, since_ns, until_ns in self.silences:
            if not any(since <= since_ns and until_ns <= until for since, until in reported.get(stream, ())):
                raise InvariantBroken(f"the gap of {stream} from {since_ns} to {until_ns} is not reported")
        assigned = {name: worker for name, (worker, _) in self.controller.status.assignment.items()}
        if assigned != {name: worker.name for name, worker in self._owner.items()}:
            raise InvariantBroken("streams run elsewhere than the controller says")

    def is_even(self, *, tolerance: float) -> bool:
        """Whether the fullest worker is at most so far above the mean."""
        return self.controller is not None and self.controller.status.imbalance <= tolerance

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.clock.now_ns + round(seconds * SECOND), self._count, action))

    def _tick(self, worker: SimulatedWorker) -> None:
        worker.clock.now_ns = self.clock.now_ns

    def _step(self) -> None:
        if self.controller is not None:
            began = time.process_time()
            events = self.controller.step()
            changed = self.controller.changed
            took = time.process_time() - began
            self.controller_seconds += took
            self.longest_step_seconds = max(self.longest_step_seconds, took)
            self.events.extend(events)
            for name in changed:
                self._after(self.random.uniform(*_PATH_SECONDS), self._wake(self.workers[name]))
        self._after(_STEP_NS / SECOND, self._step)

    def _wake(self, worker: SimulatedWorker) -> Callable[[], None]:
        return lambda: None if worker.is_cut else self._beat(worker)

    def _beat_forever(self, worker: SimulatedWorker) -> None:
        self._beat(worker)
        self._after(self.options.heartbeat_ns / SECOND, lambda: self._beat_forever(worker))

    def _beat(self, worker: SimulatedWorker) -> None:
        lease = worker.lease
        if lease is None:
            return
        self._tick(worker)
        beat = lease.heartbeat(capacity=worker.capacity, labels=worker.labels, configuration=worker.setup)
        if not worker.is_cut:
            is_late = worker.late_share and self.random.random() < worker.late_share
            delay = self.random.uniform(1, 5) if is_late else self.random.uniform(*_PATH_SECONDS)
            self._after(delay, lambda: self._arrive(worker, lease, beat))

    def _arrive(self, worker: SimulatedWorker, lease: WorkerLease, beat: Heartbeat) -> None:
        if worker.closed is lease:
            return
        answer: Grant | Refusal | None = None
        if self.controller is not None:
            began = time.process_time()
            answer = self.controller.heartbeat(beat)
            self.controller_seconds += time.process_time() - began
            if answer is None:
                return
        is_absent = self.controller is None
        self._after(self.random.uniform(*_PATH_SECONDS), lambda: self._answer(worker, lease, beat, answer, is_absent))

    def _answer(
        self,
        worker: SimulatedWorker,
        lease: WorkerLease,
        beat: Heartbeat,
        answer: Grant | Refusal | None,
        is_absent: bool,
    ) -> None:
        if worker.is_cut or worker.lease is not lease:
            return
        self._tick(worker)
        if is_absent:
            lease.controller_absent(beat.number)
        elif isinstance(answer, Grant):
            lease.take(answer)
            worker.confirmed = beat.configuration.received
        elif isinstance(answer, Refusal):
            self.refused[answer.text] += 1
        self._reconcile(worker, lease)

    def _reconcile(self, worker: SimulatedWorker, lease: WorkerLease) -> None:
        """Run what the lease allows, and nothing else."""
        if worker.lease is not lease:
            return
        self._tick(worker)
        self._follow(worker, lease)
        wanted = lease.wanted if worker.setup.fingerprint else {}
        for stream, epoch in tuple(worker.running.items()):
            granted = wanted.get(stream)
            if (granted is None or granted.epoch != epoch) and stream not in worker.stopping:
                worker.stopping.add(stream)
                self._after(self.random.uniform(*_STOP_SECONDS), self._stopped(worker, lease, stream))
        for stream, granted in wanted.items():
            if stream not in worker.running:
                self._start(worker, stream, granted.epoch)
        if (
            not worker.stopping
            and (worker.setup.fingerprint or not lease.wanted)
            and lease.generation != lease.in_effect
        ):
            lease.applied(lease.generation)
            self._beat(worker)
        if not worker.is_checked and lease.remaining_ns:
            worker.is_checked = True
            self._after(lease.remaining_ns / SECOND, lambda: self._check_lease(worker, lease))

    def _follow(self, worker: SimulatedWorker, lease: WorkerLease) -> None:
        """Carry out an order, as `WorkerPipeline` does."""
        order = lease.order
        if order is not None and order.number != worker.confirmed:
            self._beat(worker)
            return
        if order is None or worker.task is not None or worker.is_leaving or order.number == worker.setup.done:
            return
        if order.fingerprint == worker.setup.fingerprint:
            worker.setup = ConfigurationReport(done=order.number, fingerprint=order.fingerprint)
            self._beat(worker)
            return
        name, runs = _name(order.configuration), self.ran.setdefault(worker.name, [])
        if worker.setup.fingerprint and order.configuration.needs_new_process(self._known[worker.setup.fingerprint]):
            worker.is_leaving = True
            self._after(self.random.uniform(*_STOP_SECONDS), lambda: self._restart(worker, lease))
            return
        worker.task = order
        seconds = self.random.uniform(*_BUILD_SECONDS)

        def done() -> None:
            is_disliked = bool(worker.dislikes) and worker.dislikes in name
            if worker.lease is not lease or worker.task is not order or (is_disliked and worker.is_stuck):
                return
            worker.task = None
            if is_disliked and worker.dies:
                self.kill(worker.name, is_noticed=True)
                return
            if is_disliked:
                runs.append(f"({name})")
                fingerprint, problem = worker.setup.fingerprint, f"it dislikes {name}"
            else:
                runs.append(name)
                fingerprint, problem = order.fingerprint, ""
                self._known[fingerprint] = order.configuration
            worker.setup = ConfigurationReport(done=order.number, fingerprint=fingerprint, problem=problem)
            self._beat(worker)
            self._reconcile(worker, lease)

        self._after(seconds + order.prove_ns / SECOND, done)

    def _restart(self, worker: SimulatedWorker, lease: WorkerLease) -> None:
        worker.is_leaving = False
        if worker.lease is lease:
            self.kill(worker.name, is_noticed=True)
            self._after(0.5, lambda: self.boot(worker.name))

    def _check_lease(self, worker: SimulatedWorker, lease: WorkerLease) -> None:
        worker.is_checked = False
        self._reconcile(worker, lease)

    def _stopped(self, worker: SimulatedWorker, lease: WorkerLease, stream: str) -> Callable[[], None]:
        def done() -> None:
            if worker.lease is lease:
                worker.stopping.discard(stream)
                self._stop(worker, stream)
                self._reconcile(worker, lease)

        return done

    def _start(self, worker: SimulatedWorker, stream: str, epoch: int) -> None:
        owner = self._owner.get(stream)
        if owner is not None:
            raise InvariantBroken(f"{self.seconds:.3f}: {stream} starts at {worker.name}, and runs at {owner.name}")
        before, former = self._epochs.get(stream, (0, worker))
        if epoch < before or (epoch == before and former is not worker):
            raise InvariantBroken(f"{self.seconds:.3f}: {stream} starts with the epoch {epoch} after {before}")
        self._owner[stream], self._epochs[stream] = worker, (epoch, worker)
        worker.running[stream] = epoch
        self.starts[stream] += 1
        if (since_ns := self._silent_since.pop(stream, None)) is not None:
            self.silences.append((stream, since_ns, self.clock.epoch_ns()))
        incarnation = worker.incarnation

        def flows() -> None:
            if worker.incarnation == incarnation and worker.running.get(stream) == epoch and stream in self.streams:
                self._account()
                self._flowing.add(stream)

        self._after(self.random.uniform(*_CONNECT_SECONDS), flows)

    def _stop(self, worker: SimulatedWorker, stream: str) -> None:
        if worker.running.pop(stream, None) is not None:
            del self._owner[stream]
            if stream in self.streams:
                self._silent_since[stream] = self.clock.epoch_ns()
            self._account()
            self._flowing.discard(stream)

    def _account(self) -> None:
        now_ns = self.clock.now_ns
        self.blind_ns += (now_ns - self._blind_since_ns) * self.blind
        self._blind_since_ns = now_ns


def configuration_of(name: str, **more: str) -> ClusterConfiguration:
    """A configuration with a step of that name."""
    return ClusterConfiguration({"pipeline": [name], **more})


def _name(configuration: ClusterConfiguration) -> str:
    steps = configuration.pipeline["pipeline"]
    assert isinstance(steps, list)
    return str(steps[0])
