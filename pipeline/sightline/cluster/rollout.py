"""How a changed configuration reaches workers: one at a time, each on probation, and back from all when one cannot.

Like the controller, it decides and keeps no time but the clock's. Each worker has an order: a number, and what its
pipeline is to become. A worker that joins has the order for what was accepted. While another configuration is wanted,
one worker after the other gets that, and proves it by the probation of `Pipeline.change`. When the last one present has
proved it, it is accepted. Where one cannot, or is lost while it tries, all get the order for what was accepted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from sightline.cluster.model import (
    ClusterConfiguration,
    ClusterEvent,
    ClusterEventKind,
    ConfigurationOrder,
    ConfigurationReport,
    RolloutStatus,
)
from sightline.cluster.store import SavedRollout
from sightline.errors import ConfigurationError

if TYPE_CHECKING:
    from sightline.graph import Clock

_LONGEST_TURN_NS = 600_000_000_000
"""A worker that is not done for so long, beside its probation, cannot: an engine is compiled in less."""


class Rollout:
    """The orders of all workers, and how far the configuration that is wanted has come. One thread at a time.

    `see`, `lost` and `step` are for the controller. While `is_dirty`, `saved` has to be kept before anyone learns of
    it. Without a configuration, workers run what they were started with, and nobody gets orders.
    """

    def __init__(
        self, wanted: ClusterConfiguration | None, *, saved: SavedRollout | None, prove_ns: int, clock: Clock
    ) -> None:
        self._prove_ns, self._clock = prove_ns, clock
        self._accepted = self._wanted = self._problem = self._turn = ""
        self._proved: list[str] = []
        self._number = 0
        self._orders: dict[str, tuple[int, str]] = {}
        self._configurations: dict[str, ClusterConfiguration] = {}
        self._reports: dict[str, ConfigurationReport] = {}
        self._events: list[ClusterEvent] = []
        self._turn_ns, self._well_ns = clock.monotonic_ns(), 0
        self._restarts = self._has_restarted = False
        self.is_dirty = False
        if saved is not None:
            self._accepted, self._wanted, self._problem = saved.accepted, saved.wanted, saved.problem
            self._turn, self._proved, self._number = saved.turn, list(saved.proved), saved.number
            self._orders = dict(saved.orders)
            self._configurations = {key: ClusterConfiguration(**one) for key, one in saved.configurations.items()}
            self._restarts = self._needs_new_process()
        if wanted is not None:
            self.want(wanted)

    def want(self, configuration: ClusterConfiguration) -> None:
        """Roll out a configuration. One that is under way is left: who has proved it goes on with it until its turn.
        What was rolled back is not tried again because it is given again; see `retry`.
        """
        wanted = configuration.fingerprint
        if wanted == self._wanted:
            return
        self._configurations[wanted] = configuration
        former, was_rolling = self._wanted, self.is_rolling
        self._wanted, self._problem, self._proved = wanted, "", []
        if not self._accepted:
            self._accepted = wanted
        elif wanted == self._accepted:
            self._go_back()
            if was_rolling:
                self._tell(
                    ClusterEventKind.ROLLOUT_WITHDRAWN, f"the configuration {former} is withdrawn: {wanted} runs again"
                )
        else:
            text = f"the configuration {wanted} goes to one worker after the other, in place of {self._accepted}"
            self._tell(ClusterEventKind.ROLLOUT_BEGUN, text)
        self.is_dirty = True

    def retry(self) -> None:
        """Roll out again what was rolled back, and give workers their orders again that could not do them. Raises
        ConfigurationError when there is nothing of that.
        """
        unable = [name for name, one in self._reports.items() if one.problem and self._is_done(name)]
        if not unable and not self._problem:
            raise ConfigurationError("there is nothing to try again: no configuration was refused or rolled back")
        for name in unable:
            self._order(name, self._orders[name][1])
        if self._problem:
            self._problem, self._proved = "", []
            self._tell(ClusterEventKind.ROLLOUT_BEGUN, f"the configuration {self._wanted} is tried again")
        self.is_dirty = True

    @property
    def is_rolling(self) -> bool:
        """Whether a configuration is on its way to workers."""
        return self._wanted != self._accepted and not self._problem

    @property
    def status(self) -> RolloutStatus:
        """How far it has come."""
        trying = self._turn if self.is_rolling else ""
        return RolloutStatus(self._accepted, self._wanted, trying, tuple(self._proved), self._problem)

    @property
    def saved(self) -> SavedRollout | None:
        """What is to be kept; None without a configuration."""
        if not self._accepted:
            return None
        used = {self._accepted, self._wanted, *(one for _, one in self._orders.values())}
        self._configurations = {key: one for key, one in self._configurations.items() if key in used}
        return SavedRollout(
            self._accepted,
            self._wanted,
            self._problem,
            self._turn,
            tuple(self._proved),
            self._number,
            dict(self._orders),
            {key: asdict(one) for key, one in self._configurations.items()},
        )

    def path_of(self, sha256: str) -> Path | None:
        """Where a file of a model lies at the head, by its content, of the configurations that are in use."""
        for one in self._configurations.values():
            for path, files in one.models.items():
                for name, content in files.items():
                    if content == sha256:
                        return Path(path).parent / name
        return None

    def see(self, worker: str, report: ConfigurationReport) -> None:
        """Note what a worker says of itself."""
        self._reports[worker] = report

    def lost(self, worker: str, cause: str) -> None:
        """Note that a worker's process has ended, or that its lease is over."""
        report = self._reports.pop(worker, None)
        if worker != self._turn:
            return
        number, given = self._orders[worker]
        if report is not None and report.received != number:  # a worker confirms an order before it begins with it
            self._end_turn()
            return
        if self._restarts and not self._has_restarted:  # its process ends by itself, and a new one comes
            self._has_restarted = True
            return
        self._end_turn()
        if self.is_rolling and given == self._wanted:
            self._fail(f"{cause} while it tried it")

    def forget(self, worker: str) -> None:
        """Note that a worker will not come back."""
        self._reports.pop(worker, None)
        if self._orders.pop(worker, None) is not None:
            self.is_dirty = True

    def runs_something(self, worker: str) -> bool:
        """Whether a worker has a pipeline, so that it may be given streams."""
        return not self._accepted or bool(self._reports.get(worker, ConfigurationReport()).fingerprint)

    def problem_of(self, worker: str) -> str:
        """Why a worker does not run what was accepted, although it should; empty when it does, or is about to."""
        report = self._reports.get(worker)
        if report is None or not (report.problem and self._is_done(worker)) or worker == self._turn:
            return ""
        return report.problem if report.fingerprint != self._orders[worker][1] else ""

    def fingerprint_of(self, worker: str) -> str:
        """What a worker runs; empty when that is not known."""
        return self._reports.get(worker, ConfigurationReport()).fingerprint

    def order_for(self, worker: str) -> ConfigurationOrder | None:
        """What a worker has to learn; None when it knows."""
        order = self._orders.get(worker)
        report = self._reports.get(worker, ConfigurationReport())
        if order is None or order[0] == report.received:
            return None
        number, wanted = order
        prove_ns = self._prove_ns if worker == self._turn else 0
        return ConfigurationOrder(number, wanted, prove_ns, self._configurations[wanted])

    def step(self, present: Mapping[str, int]) -> tuple[ClusterEvent, ...]:
        """Decide what comes next; return what has happened. `present` has the streams of each worker that is there."""
        for name in present:
            if name not in self._orders and self._accepted:
                self._order(name, self._accepted)
        if self._turn:
            self._look_at_turn()
        if self.is_rolling and not self._turn:
            able = [name for name in present if self.runs_something(name)]
            left = [name for name in able if name not in self._proved]
            if left:
                self._begin_turn(min(left, key=lambda name: (not present[name], present[name], name)))
            elif present and all(name in able or self.problem_of(name) for name in present):
                self._accept()
        events, self._events = tuple(self._events), []
        return events

    def _begin_turn(self, worker: str) -> None:
        """Fewest streams first, but some: without frames, little is proved."""
        self._order(worker, self._wanted)
        self._turn, self._turn_ns, self._well_ns = worker, self._clock.monotonic_ns(), 0
        self._restarts, self._has_restarted = self._needs_new_process(), False

    def _needs_new_process(self) -> bool:
        """Whether the worker whose turn it is has to start again for it."""
        if not self._turn:
            return False
        former = self._configurations.get(self.fingerprint_of(self._turn) or self._accepted)
        return former is None or self._configurations[self._orders[self._turn][1]].needs_new_process(former)

    def _look_at_turn(self) -> None:
        worker, now_ns = self._turn, self._clock.monotonic_ns()
        given, why = self._orders[worker][1], ""
        if not self._is_done(worker):
            if now_ns - self._turn_ns <= _LONGEST_TURN_NS + self._prove_ns:
                return
            why = f"{worker} was not done with it after {(now_ns - self._turn_ns) / 1e9:.0f} s"
        elif self._reports[worker].problem:
            why = f"{worker} cannot run it: {self._reports[worker].problem}"
        elif self._has_restarted:  # a pipeline that has just started is on no probation of its own
            self._well_ns = self._well_ns or now_ns
            if now_ns - self._well_ns < self._prove_ns:
                return
        self._end_turn()
        if given != self._wanted:  # another one is wanted by now
            if why:
                self._order(worker, self._accepted)
        elif why:
            self._fail(why)
        else:
            self._proved.append(worker)
            self._tell(ClusterEventKind.ROLLOUT_PROVED, f"{worker} has proved the configuration {given}", worker=worker)

    def _accept(self) -> None:
        former, self._accepted = self._accepted, self._wanted
        for name, (_, given) in tuple(self._orders.items()):
            if given != self._accepted:  # it is away, or could not run the former one
                self._order(name, self._accepted)
        why = f"{', '.join(self._proved)} have proved it" if self._proved else "no worker could run the former one"
        text = f"the configuration {self._accepted} runs everywhere, in place of {former}: {why}"
        self._tell(ClusterEventKind.ROLLOUT_DONE, text)
        self._proved, self.is_dirty = [], True

    def _fail(self, why: str) -> None:
        had = len(self._proved)
        self._problem, self._proved = why, []
        self._go_back()
        text = f"the configuration {self._wanted} is rolled back: {why}"
        others = f"; {had} workers that had it already go back" if had else ""
        self._tell(ClusterEventKind.ROLLOUT_REVERTED, f"{text}{others}; {self._accepted} runs everywhere")

    def _go_back(self) -> None:
        """Let all workers run what was accepted."""
        self._end_turn()
        for name, (_, given) in tuple(self._orders.items()):
            if given != self._accepted:
                self._order(name, self._accepted)

    def _end_turn(self) -> None:
        self._turn, self._restarts, self._has_restarted = "", False, False
        self.is_dirty = True

    def _order(self, worker: str, fingerprint: str) -> None:
        self._number += 1
        self._orders[worker] = self._number, fingerprint
        self.is_dirty = True

    def _is_done(self, worker: str) -> bool:
        report = self._reports.get(worker)
        return report is not None and worker in self._orders and report.done == self._orders[worker][0]

    def _tell(self, kind: ClusterEventKind, text: str, *, worker: str = "") -> None:
        self._events.append(ClusterEvent(kind, text, worker))
