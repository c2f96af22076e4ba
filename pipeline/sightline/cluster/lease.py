"""The worker's side of a lease: what it may run, and until when. Arithmetic alone; an engine carries the messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from sightline.cluster.model import ConfigurationOrder, ConfigurationReport, Grant, GrantedStream, Heartbeat

if TYPE_CHECKING:
    from sightline.graph import Clock

_KEPT_HEARTBEATS = 64


class WorkerLease:
    """What one start of a worker's process holds. One thread at a time may call it.

    The lease runs from when an answered heartbeat was *sent*, so that neither the time that messages take nor the
    difference of two clocks makes it longer than the controller assumes. `wanted` is empty from its end on: the worker
    must have stopped everything within the grace of `ClusterOptions`.
    """

    def __init__(self, worker: str, incarnation: str, *, clock: Clock) -> None:
        self.worker, self.incarnation = worker, incarnation
        self._clock = clock
        self._number = 0
        self._sent_ns: dict[int, int] = {}
        self._until_ns = 0
        self._lease_ns = 0
        self._term = 0
        self._generation = self._in_effect = self._lapses = 0
        self._streams: dict[str, GrantedStream] = {}
        self._order: ConfigurationOrder | None = None

    def heartbeat(
        self,
        *,
        capacity: float,
        limit: int = 1_000_000,
        labels: Mapping[str, str] | None = None,
        version: str = "",
        refused: Mapping[str, str] | None = None,
        configuration: ConfigurationReport | None = None,
    ) -> Heartbeat:
        """Make the next heartbeat, which is to be sent at once."""
        self._check()
        self._number += 1
        self._sent_ns[self._number] = self._clock.monotonic_ns()
        self._sent_ns.pop(self._number - _KEPT_HEARTBEATS, None)
        return Heartbeat(
            self.worker,
            self.incarnation,
            self._number,
            self._in_effect,
            self._lapses,
            capacity,
            self._clock.epoch_ns(),
            limit,
            labels or {},
            version,
            refused or {},
            replace(configuration or ConfigurationReport(), received=0 if self._order is None else self._order.number),
        )

    def take(self, grant: Grant) -> None:
        """Take an answer. Ignored are those of an earlier controller, too late, or overtaken."""
        self._check()
        sent_ns = self._sent_ns.get(grant.number)
        if sent_ns is None or grant.term < self._term:
            return
        until_ns = sent_ns + grant.lease_ns
        if until_ns <= self._clock.monotonic_ns():
            return
        self._term, self._lease_ns = grant.term, grant.lease_ns
        self._until_ns = max(self._until_ns, until_ns)
        if grant.streams is not None and grant.generation > self._generation:
            self._generation = grant.generation
            self._streams = {one.name: one for one in grant.streams}
        if grant.order is not None and (self._order is None or grant.order.number > self._order.number):
            self._order = grant.order

    def controller_absent(self, number: int) -> None:
        """Note that heartbeat `number` met no controller: its address refused the connection, so that no controller
        can have given the streams away since. The next one waits for all leases, so this one goes on.

        Silence is no such answer: the worker may be cut off, and the controller alive.
        """
        self._check()
        sent_ns = self._sent_ns.get(number)
        if sent_ns is not None and self._streams:
            self._until_ns = max(self._until_ns, sent_ns + self._lease_ns)

    @property
    def wanted(self) -> Mapping[str, GrantedStream]:
        """What is to run now, by name."""
        self._check()
        return self._streams

    @property
    def order(self) -> ConfigurationOrder | None:
        """What the pipeline is to become; None as long as that is not known, or not known any more."""
        self._check()
        return self._order

    @property
    def generation(self) -> int:
        """That of `wanted`."""
        return self._generation

    @property
    def in_effect(self) -> int:
        """The generation that was applied last; 0 since a lease was over."""
        return self._in_effect

    @property
    def lapses(self) -> int:
        """How often a lease was over before it was renewed."""
        return self._lapses

    @property
    def remaining_ns(self) -> int:
        """For how long the lease holds; 0 without one."""
        return max(0, self._until_ns - self._clock.monotonic_ns())

    def applied(self, generation: int) -> None:
        """Note that everything which is not wanted in a generation has stopped, and the rest has been started."""
        self._in_effect = generation

    def _check(self) -> None:
        """At the end of the lease, want nothing, and be open to any controller."""
        if self._until_ns and self._clock.monotonic_ns() >= self._until_ns:
            self._lapses += 1
            self._until_ns = self._lease_ns = self._term = self._generation = self._in_effect = 0
            self._streams, self._order = {}, None
