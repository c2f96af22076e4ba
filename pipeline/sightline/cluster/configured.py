"""The pipeline of a worker, as the controller orders it: made by the first order, and changed by each later one."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from sightline.cluster.model import ClusterConfiguration, ConfigurationOrder, ConfigurationReport
from sightline.errors import SightlineError
from sightline.redaction import redact
from sightline.runtime.threads import Worker

if TYPE_CHECKING:
    from sightline.pipeline import Pipeline

_LOG = logging.getLogger(__name__)
_END_SECONDS = 0.5


class WorkerPipeline:
    """Carries out orders, one at a time, each in a thread of its own. One thread calls `follow`, any the rest.

    `make` makes a pipeline that has not been started, without sources and with `keep_running`, and raises
    SightlineError where this machine cannot run that. A pipeline that runs is changed with `Pipeline.change`, which has
    the change on probation and reverts it.
    """

    def __init__(self, make: Callable[[ClusterConfiguration], Pipeline]) -> None:
        self._make = make
        self._pipeline: Pipeline | None = None
        self._task: _Task | None = None
        self._done: tuple[int, str] = (0, "")
        self._in_effect: ClusterConfiguration | None = None
        self._problem = ""
        self.must_restart = False
        """Whether what is ordered takes a new process."""
        self.on_done: Callable[[], None] = lambda: None
        """Called from another thread when an order has been carried out."""

    @property
    def pipeline(self) -> Pipeline | None:
        """What runs; None before the first order has been carried out."""
        return self._pipeline

    @property
    def has_ended(self) -> bool:
        """Whether the pipeline has run, and runs no more."""
        return self._pipeline is not None and not self._pipeline.is_running

    @property
    def report(self) -> ConfigurationReport:
        """What the controller is to know."""
        fingerprint = "" if self._in_effect is None else self._in_effect.fingerprint
        return ConfigurationReport(done=self._done[0], fingerprint=fingerprint, problem=self._problem)

    def follow(self, order: ConfigurationOrder | None) -> None:
        """Begin to carry out an order when it is a new one and no other is under way; never waits."""
        if self._task is not None:
            if self._task.running:
                return
            self._take(self._task)
            self._task = None
        if order is None or (order.number, order.fingerprint) == self._done:
            return
        if self._in_effect is not None and order.fingerprint == self._in_effect.fingerprint:
            self._done, self._problem = (order.number, order.fingerprint), ""
            self.on_done()
        elif self._in_effect is not None and order.configuration.needs_new_process(self._in_effect):
            self.must_restart = True
        else:
            self._task = _Task(order, make=self._make, pipeline=self._pipeline, on_done=self.on_done)
            self._task.start()

    def abort(self) -> None:
        """End everything now."""
        for one in self._pipelines:
            one.abort()

    def end(self) -> None:
        """End what runs and what is being started, and wait for that. Raises the error that the pipeline has ended
        with.
        """
        task = self._task
        while True:
            for one in self._pipelines:
                one.stop()
            if task is None or task.wait(_END_SECONDS):
                break
        for one in self._pipelines:
            if one.has_begun:
                one.stop()
                one.wait()

    @property
    def _pipelines(self) -> tuple[Pipeline, ...]:
        found = (self._pipeline, None if self._task is None else self._task.started)
        return tuple(one for one in found if one is not None)

    def _take(self, task: _Task) -> None:
        self._done, self._problem = (task.order.number, task.order.fingerprint), task.problem
        if task.problem:
            _LOG.error("the configuration %s cannot run here: %s", task.order.fingerprint, task.problem)
            return
        self._in_effect, self._pipeline = task.order.configuration, task.started or self._pipeline
        _LOG.info("the configuration %s runs", task.order.fingerprint)


class _Task(Worker):
    """Carries out one order."""

    def __init__(
        self,
        order: ConfigurationOrder,
        *,
        make: Callable[[ClusterConfiguration], Pipeline],
        pipeline: Pipeline | None,
        on_done: Callable[[], None],
    ) -> None:
        super().__init__("cluster-configuration")
        self.order, self.problem = order, ""
        self.started: Pipeline | None = None
        self._make, self._pipeline, self._on_done = make, pipeline, on_done

    def run(self) -> None:
        """Carry it out, and report that when it is over."""
        super().run()
        self._on_done()

    def work(self) -> None:
        """Start a pipeline, or change the one that runs."""
        try:
            made = self._make(self.order.configuration)
            if self._pipeline is None:
                self.started = made
                made.start()
            else:
                update = {"steps": made.description.steps, "batch": made.description.batch}
                changed = self._pipeline.change(
                    lambda now: now.model_copy(update=update), prove=self.order.prove_ns / 1e9, by="cluster"
                )
                changed.wait()
        except SightlineError as error:
            self.problem = redact(error)
        except Exception as error:  # noqa: BLE001  the boundary to steps, which may be anybody's code
            _LOG.exception("the configuration %s cannot run here", self.order.fingerprint)
            self.problem = redact(f"{type(error).__name__}: {error}")
