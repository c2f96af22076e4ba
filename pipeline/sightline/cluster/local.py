"""A cluster in one process: real pipelines as workers, under the real controller. For tests, and to try placements."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from sightline.cluster.agent import WorkerAgent, WorkerFacts
from sightline.cluster.configured import WorkerPipeline
from sightline.cluster.controller import Controller
from sightline.cluster.engine import ControllerAbsent, ControllerLoop, ControllerSilent
from sightline.cluster.lease import WorkerLease
from sightline.cluster.model import (
    ClusterConfiguration,
    ClusterEvent,
    ClusterOptions,
    ClusterStatus,
    Grant,
    Heartbeat,
    Refusal,
    StreamSpec,
)
from sightline.cluster.store import Store
from sightline.errors import ConfigurationError
from sightline.graph.site import SystemClock

if TYPE_CHECKING:
    from typing import Self

    from sightline.graph import Clock
    from sightline.pipeline import Pipeline


class LocalCluster:
    """A cluster whose machines are pipelines in this process; from any thread, and as a context manager.

    `pipelines` makes the pipeline of a worker, by its name and the configuration, without sources and with
    `keep_running`. The pipelines are started and closed here. `kill_worker`, `cut` and `kill_controller` are failures
    of machines, links and processes.
    """

    def __init__(
        self,
        streams: Mapping[str, StreamSpec],
        *,
        pipelines: Callable[[str, ClusterConfiguration], Pipeline],
        store: Store,
        configuration: ClusterConfiguration | None = None,
        options: ClusterOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.options = options or ClusterOptions()
        self._streams, self._pipelines, self._store = dict(streams), pipelines, store
        self._configuration = configuration or ClusterConfiguration()
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._agents: dict[str, WorkerAgent] = {}
        self._running: dict[str, WorkerPipeline] = {}
        self._starts: dict[str, int] = {}
        self._cut: set[str] = set()
        self._loop: ControllerLoop | None = None
        self._events: list[ClusterEvent] = []

    @property
    def events(self) -> tuple[ClusterEvent, ...]:
        """What has happened so far."""
        with self._lock:
            return tuple(self._events)

    @property
    def status(self) -> ClusterStatus:
        """The cluster at this moment. Raises ConfigurationError without a controller."""
        found: list[ClusterStatus] = []
        self._controller(lambda controller: found.append(controller.status))
        return found[0]

    def start_controller(self) -> None:
        """Start a controller. Raises OutputError when its state cannot be read or written."""
        controller = Controller(
            self._streams,
            store=self._store,
            clock=self._clock,
            options=self.options,
            configuration=self._configuration,
        )
        loop = ControllerLoop(controller, engine=self, on_event=self._note)
        with self._lock:
            self._loop = loop
        loop.start()

    def kill_controller(self) -> None:
        """End the controller."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.stop()

    def desire(self, streams: Mapping[str, StreamSpec]) -> None:
        """Want these streams, and no others."""
        self._streams = dict(streams)
        self._controller(lambda controller: controller.desire(self._streams))

    def configure(self, configuration: ClusterConfiguration) -> None:
        """Roll out a configuration."""
        self._configuration = configuration
        self._controller(lambda controller: controller.configure(configuration))

    def retry(self) -> None:
        """Try again what was refused. Raises ConfigurationError when there is nothing of that."""
        self._controller(Controller.retry)

    def drain(self, worker: str, *, is_draining: bool = True) -> None:
        """Drain a worker. Raises ConfigurationError when there is none of that name."""
        self._controller(lambda controller: controller.drain(worker, is_draining=is_draining))

    def start_worker(self, name: str, facts: WorkerFacts) -> None:
        """Start a worker, or start one again that was killed. Raises ConfigurationError when it runs."""
        with self._lock:
            if name in self._agents:
                raise ConfigurationError(f"the worker {name!r} runs already")
            number = self._starts[name] = self._starts.get(name, 0) + 1
        pipeline = WorkerPipeline(lambda configuration: self._pipelines(name, configuration))
        lease = WorkerLease(name, f"{name}-{number}", clock=self._clock)
        agent = WorkerAgent(lease, pipeline, facts=facts, engine=self, options=self.options, clock=self._clock)
        with self._lock:
            self._agents[name], self._running[name] = agent, pipeline
        agent.start()

    def pipeline(self, worker: str) -> Pipeline:
        """What a worker runs. Raises ConfigurationError when it runs nothing."""
        with self._lock:
            found = self._running[worker].pipeline if worker in self._running else None
        if found is None:
            raise ConfigurationError(f"the worker {worker!r} runs nothing")
        return found

    def kill_worker(self, name: str) -> None:
        """End a worker at once, and what it was working on with it. The controller is not told."""
        with self._lock:
            agent, pipeline = self._agents.pop(name), self._running.pop(name)
        agent.stop()
        pipeline.abort()
        pipeline.end()

    def cut(self, name: str, *, is_cut: bool = True) -> None:
        """Let no message of a worker through, or let them through again."""
        with self._lock:
            (self._cut.add if is_cut else self._cut.discard)(name)

    def report(self, beat: Heartbeat) -> Grant | Refusal | None:
        """Carry a heartbeat to the controller. Raises ControllerSilent for a cut link, and ControllerAbsent."""
        with self._lock:
            loop, is_cut = self._loop, beat.worker in self._cut
        if is_cut:
            raise ControllerSilent
        if loop is None:
            raise ControllerAbsent
        return loop.report(beat)

    def wake(self, workers: Sequence[str]) -> None:
        """Let workers report soon."""
        with self._lock:
            agents = [agent for name in workers if (agent := self._agents.get(name)) and name not in self._cut]
        for agent in agents:
            agent.wake()

    def close(self) -> None:
        """End workers, then the controller; outputs are closed. Harmless when called again."""
        with self._lock:
            agents, pipelines = list(self._agents.values()), list(self._running.values())
            self._agents, self._running = {}, {}
        for agent in agents:
            agent.stop()
        for pipeline in pipelines:
            pipeline.end()
        self.kill_controller()

    def __enter__(self) -> Self:
        self.start_controller()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _controller(self, action: Callable[[Controller], None]) -> None:
        with self._lock:
            loop = self._loop
        if loop is None:
            raise ConfigurationError("the cluster has no controller: start one first")
        loop.call(action)

    def _note(self, event: ClusterEvent) -> None:
        with self._lock:
            self._events.append(event)
