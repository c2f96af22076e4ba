"""The controller: which worker has which stream. It decides; engines carry what it says, and call it in turn.

A stream has at most one holder. It is given to another worker only when its holder has confirmed that it runs it no
more, has ended, or must have stopped by itself because its lease is over. Every start of a stream has a higher epoch
than the one before. What workers learn is in the store before they learn it, so a controller that is started again has
the same assignment.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sightline.cluster.decisions import evacuations, fleet_of, moves_that_balance, reason_to_wait, status_of
from sightline.cluster.model import (
    ClusterConfiguration,
    ClusterEvent,
    ClusterEventKind,
    ClusterOptions,
    ClusterStatus,
    Grant,
    GrantedStream,
    Heartbeat,
    Refusal,
    StreamSpec,
)
from sightline.cluster.placement import NOWHERE, place
from sightline.cluster.rollout import Rollout
from sightline.cluster.store import Saved, SavedHead, Store
from sightline.cluster.tables import Tables
from sightline.errors import ConfigurationError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sightline.graph import Clock

_CAPACITY_CHANGE = 0.05
"""A measured capacity that differs by less from the one before is the same: noise moves no streams."""
_FORGET_NS = 86_400_000_000_000
"""A worker without streams that was not seen for so long is forgotten."""


class Controller:
    """Places streams on workers, and moves them. One thread at a time may call it; nothing in it waits but the store.

    `heartbeat` answers workers; `step` decides and returns what happened since it was last called. `changed` has the
    workers whose assignment differs from what they confirmed: an engine may wake them, so that they ask sooner.
    """

    def __init__(
        self,
        streams: Mapping[str, StreamSpec],
        *,
        store: Store,
        clock: Clock,
        options: ClusterOptions | None = None,
        version: str = "",
        configuration: ClusterConfiguration | None = None,
    ) -> None:
        """Go on where the store says that the controller before it was. `version` must be that of all workers.
        `configuration` is what their pipelines are made from; None when they have such. Raises OutputError when the
        store cannot be read or written.
        """
        self.options = options or ClusterOptions()
        self._store, self._clock, self._version = store, clock, version
        self._tables = Tables()
        self._workers, self._streams = self._tables.workers, self._tables.streams
        self._events: list[ClusterEvent] = []
        self._changed_workers: set[int] = set()
        self._changed_streams: set[int] = set()
        self._removed_streams: set[str] = set()
        self._removed_workers: set[str] = set()
        self._is_committed = True
        self._waiting: dict[int, str] = {}
        self._refused: dict[int, Mapping[str, str]] = {}
        self._refused_workers: dict[str, tuple[str, int]] = {}
        """Why those that report do not take part, and when they were heard last."""
        self._begun_ns = self._balanced_ns = clock.monotonic_ns()
        saved = store.load()
        head = saved.head
        self.term = head.term + 1
        self._revision, self._epoch_floor = head.revision, head.epoch_floor
        self._alive_ns = 0
        self._tables.restore(saved, now_ns=self._begun_ns)
        self._rollout = Rollout(configuration, saved=saved.rollout, prove_ns=self.options.prove_ns, clock=clock)
        self.desire(streams)
        self._commit()

    def desire(self, streams: Mapping[str, StreamSpec]) -> None:
        """Want these streams and no others. The next steps start, stop and restart what that takes."""
        table = self._streams
        table.is_gone[: len(table)] = True
        for name, spec in streams.items():
            row = table.row_of.get(name)
            if row is None:
                row = table.add(name)
            table.describe(row, spec, kind=self._tables.classes.row(spec.requires, labels=self._workers.labels))

    def configure(self, configuration: ClusterConfiguration) -> None:
        """Want this configuration: the next steps give it to one worker after the other. One that is on its way is left
        for it.
        """
        self._rollout.want(configuration)

    def retry(self) -> None:
        """Try again what was rolled back, and what workers could not run. Raises ConfigurationError when there is
        nothing of that.
        """
        self._rollout.retry()

    def path_of(self, sha256: str) -> Path | None:
        """Where a file of a model lies at the head, by its content; None when no worker is to have such a file."""
        return self._rollout.path_of(sha256)

    def drain(self, worker: str, *, is_draining: bool = True) -> None:
        """Move all streams off a worker before maintenance, some at a time, or let it have streams again. Raises
        ConfigurationError when there is none of that name.
        """
        row = self._row_of_worker(worker)
        self._workers.is_draining[row], self._workers.is_drained[row] = is_draining, False
        self._changed_workers.add(row)

    def heartbeat(self, beat: Heartbeat) -> Grant | Refusal | None:
        """Take a worker's report and answer it; None for a heartbeat that a later one has overtaken.

        While the store cannot be written, leases are renewed and nothing else is sent.
        """
        workers, now_ns = self._workers, self._clock.monotonic_ns()
        if (problem := self._problem(beat)) is not None:
            if beat.worker not in self._refused_workers:
                self._tell(ClusterEventKind.WORKER_REFUSED, problem, worker=beat.worker)
            self._refused_workers[beat.worker] = problem, now_ns
            return Refusal(problem)
        self._refused_workers.pop(beat.worker, None)
        row = workers.row_of.get(beat.worker)
        if row is None:
            row = workers.add(beat.worker, incarnation=beat.incarnation)
            self._changed_workers.add(row)
        if workers.incarnation[row] != beat.incarnation:
            if workers.is_present[row]:
                text = f"another process reports as the worker {beat.worker!r}: give each worker a name of its own, or,"
                return Refusal(f"{text} if it was started again, wait until the lease of the former process is over")
            workers.incarnation[row] = beat.incarnation
            workers.number[row] = workers.confirmed[row] = workers.lapses[row] = 0
            self._changed_workers.add(row)
        if beat.number <= workers.number[row]:
            return None
        self._see(row, beat, now_ns=now_ns)
        streams = None
        if self._is_committed and beat.generation != workers.generation[row]:
            streams = self._granted(row)
        generation = int(workers.generation[row])
        order = None if self._rollout.is_dirty else self._rollout.order_for(beat.worker)
        return Grant(beat.number, self.term, self.options.lease_ns, generation, streams, order)

    def worker_ended(self, worker: str, incarnation: str) -> None:
        """Note that a worker's process is known to have ended: its streams need not wait for its lease."""
        row = self._workers.row_of.get(worker)
        if row is not None and self._workers.incarnation[row] == incarnation and self._workers.is_present[row]:
            self._lose(row, f"the worker {worker} has ended")

    def step(self) -> tuple[ClusterEvent, ...]:
        """Decide what is to be decided now, keep it, and return what happened since the last step. To be called twice
        in each heartbeat or more often. Raises OutputError when the store cannot be written: nothing is sent to
        workers then, and the next step tries again.
        """
        now_ns = self._clock.monotonic_ns()
        self._expire(now_ns)
        self._forget_refused(now_ns)
        self._release()
        self._drop_unwanted()
        self._restart_changed()
        if now_ns - self._begun_ns >= self.options.settle_ns:
            self._place_waiting(now_ns)
            if now_ns - self._balanced_ns >= self.options.rebalance_ns:
                self._balanced_ns = now_ns
                self._evacuate(now_ns)
                self._balance(now_ns)
        self._roll_out()
        self._note_drained()
        self._forget_workers(now_ns)
        self._commit()
        events, self._events = tuple(self._events), []
        return events

    @property
    def changed(self) -> tuple[str, ...]:
        """The present workers that have not confirmed their assignment, or do not know their configuration."""
        workers, count = self._workers, len(self._workers)
        return tuple(
            workers.names[row]
            for row in np.flatnonzero(workers.is_present[:count]).tolist()
            if workers.generation[row] != workers.confirmed[row] or self._rollout.order_for(workers.names[row])
        )

    @property
    def status(self) -> ClusterStatus:
        """The cluster at this moment."""
        now_ns = self._clock.monotonic_ns()
        waiting = {self._streams.names[row]: why for row, why in self._waiting.items() if self._streams.holder[row] < 0}
        refused = {name: why for own in self._refused.values() for name, why in own.items()}
        return status_of(
            self._tables,
            term=self.term,
            waiting=waiting,
            refused=refused,
            refused_workers={
                **{name: why for name in self._workers.row_of if (why := self._rollout.problem_of(name))},
                **{name: why for name, (why, _) in self._refused_workers.items()},
            },
            rollout=self._rollout.status,
            configurations={name: self._rollout.fingerprint_of(name) for name in self._workers.row_of},
            now_ns=now_ns,
            options=self.options,
        )

    def _problem(self, beat: Heartbeat) -> str | None:
        """Why a worker cannot take part; None when it can."""
        if beat.version != self._version:
            own, theirs = (one or "no version" for one in (self._version, beat.version))
            text = f"the worker {beat.worker!r} has {theirs}, the controller {own}"
            return f"{text}: install the same version of Sightline on all machines"
        skew_ns = beat.epoch_ns - self._clock.epoch_ns()
        if abs(skew_ns) > self.options.clock_skew_ns:
            text = f"the clock of the worker {beat.worker!r} is {abs(skew_ns) / 1e9:.0f} s"
            return f"{text} {'ahead' if skew_ns > 0 else 'behind'}: synchronise it (NTP)"
        if beat.generation > self._revision:
            text = f"the worker {beat.worker!r} runs a later assignment than the store of the controller knows"
            return f"{text}: it stops its streams when its lease is over, and can report then"
        return None

    def _see(self, row: int, beat: Heartbeat, *, now_ns: int) -> None:
        workers = self._workers
        if not workers.is_present[row]:
            self._join(row, now_ns=now_ns)
        elif beat.lapses > workers.lapses[row]:
            self._note_blind(row, f"{beat.worker} had no contact and stopped its streams")
        workers.seen_ns[row], workers.sent_ns[row] = now_ns, beat.epoch_ns
        has_changed = (beat.generation, beat.lapses) != (workers.confirmed[row], workers.lapses[row])
        workers.number[row], workers.lapses[row], workers.is_known[row] = beat.number, beat.lapses, True
        workers.label(row, beat.labels)
        workers.limit[row] = beat.limit
        known = float(workers.capacity[row])
        if abs(beat.capacity - known) > _CAPACITY_CHANGE * known:
            workers.capacity[row] = max(beat.capacity, 0.0)
        workers.confirmed[row] = beat.generation
        self._rollout.see(beat.worker, beat.configuration)
        workers.is_configured[row] = self._rollout.runs_something(beat.worker)
        self._note_unable(row, self._rollout.problem_of(beat.worker))
        self._note_refused(row, beat.refused)
        if has_changed:
            self._note_started(row)

    def _join(self, row: int, *, now_ns: int) -> None:
        workers = self._workers
        workers.is_present[row], workers.joined_ns[row] = True, now_ns
        workers.back_ns[row] = now_ns + int(workers.penalty_ns[row])
        self._changed_workers.add(row)
        name = workers.names[row]
        self._tell(ClusterEventKind.WORKER_JOINED, f"the worker {name} has joined", worker=name)

    def _note_refused(self, row: int, refused: Mapping[str, str]) -> None:
        """Report what a worker's pipeline does not take: another worker would not take it either."""
        before = self._refused.get(row, {})
        if refused == before:
            return
        self._refused[row] = dict(refused)
        for name in refused.keys() - before.keys():
            worker = self._workers.names[row]
            text = f"{worker} cannot run {name}: {refused[name]}"
            self._tell(ClusterEventKind.STREAM_REFUSED, text, worker=worker, stream=name)

    def _note_unable(self, row: int, problem: str) -> None:
        """Report that a worker does not run what it should; its streams go elsewhere."""
        workers = self._workers
        if problem and not workers.is_unable[row]:
            name = workers.names[row]
            text = f"{name} cannot run the configuration: {problem}"
            self._tell(ClusterEventKind.WORKER_REFUSED, text, worker=name)
        workers.is_unable[row] = bool(problem)

    def _note_started(self, row: int) -> None:
        """End the gaps of the streams that a worker has confirmed."""
        streams = self._streams
        count = len(streams)
        begun = (streams.holder[:count] == row) & ~streams.is_leaving[:count] & (streams.blind_ns[:count] > 0)
        begun &= streams.since[:count] <= self._workers.confirmed[row]
        now_ns = self._clock.epoch_ns()
        for one in np.flatnonzero(begun).tolist():
            name, worker, since_ns = streams.names[one], self._workers.names[row], int(streams.blind_ns[one])
            text = f"{name} goes on at {worker}, up to {(now_ns - since_ns) / 1e9:.1f} s later: {streams.cause[one]}"
            epoch = int(streams.epoch[one])
            self._events.append(ClusterEvent(ClusterEventKind.STREAM_GAP, text, worker, name, epoch, since_ns, now_ns))
            streams.blind_ns[one] = 0
            self._changed_streams.add(one)

    def _note_blind(self, row: int, cause: str) -> None:
        """Note that a worker's streams may have given nothing since it sent what was heard last."""
        streams = self._streams
        since_ns = int(self._workers.sent_ns[row])
        for one in streams.rows(streams.holder[: len(streams)] == row).tolist():
            if not 0 < streams.blind_ns[one] <= since_ns:
                streams.blind_ns[one], streams.cause[one] = since_ns, cause
                self._changed_streams.add(one)

    def _granted(self, row: int) -> tuple[GrantedStream, ...]:
        streams = self._streams
        count = len(streams)
        rows = np.flatnonzero((streams.holder[:count] == row) & ~streams.is_leaving[:count]).tolist()
        specs = ((one, streams.specs[one]) for one in rows)
        return tuple(
            GrantedStream(streams.names[one], int(streams.epoch[one]), spec.source)
            for one, spec in specs
            if spec is not None
        )

    def _expire(self, now_ns: int) -> None:
        workers = self._workers
        count = len(workers)
        until_ns = workers.seen_ns[:count] + self.options.lease_ns + self.options.grace_ns
        for row in np.flatnonzero(workers.is_present[:count] & (until_ns <= now_ns)).tolist():
            silent = (now_ns - int(workers.seen_ns[row])) / 1e9
            self._lose(row, f"the worker {workers.names[row]} was silent for {silent:.1f} s")

    def _lose(self, row: int, cause: str) -> None:
        """Take all streams from a worker that runs none of them any more."""
        workers, streams = self._workers, self._streams
        self._note_blind(row, cause)
        count = len(streams)
        streams.target[:count][streams.target[:count] == row] = NOWHERE
        lost = streams.rows(streams.holder[:count] == row).tolist()
        for one in lost:
            self._free(one)
        now_ns = self._clock.monotonic_ns()
        ran_seconds = (now_ns - int(workers.joined_ns[row])) / 1e9
        workers.is_present[row] = False
        self._refused.pop(row, None)
        self._rollout.lost(workers.names[row], cause)
        workers.penalty_ns[row] = round(workers.backoff[row].fail(ran_seconds=ran_seconds) * 1e9)
        self._bump(row)
        name = workers.names[row]
        self._tell(ClusterEventKind.WORKER_LOST, f"{cause}; its {len(lost)} streams start elsewhere", worker=name)

    def _release(self) -> None:
        """Take the streams that were to leave a worker from it, when it has confirmed that they stopped."""
        streams, workers = self._streams, self._workers
        for one in streams.rows(streams.is_leaving[: len(streams)]).tolist():
            if workers.confirmed[streams.holder[one]] >= streams.since[one]:
                target = int(streams.target[one])
                self._free(one)
                if target >= 0 and not streams.is_gone[one]:
                    self._give(one, target)

    def _drop_unwanted(self) -> None:
        streams = self._streams
        for one in streams.rows(streams.is_gone[: len(streams)]).tolist():
            if streams.holder[one] >= 0:
                if not streams.is_leaving[one]:
                    self._leave(one, NOWHERE, "it is not wanted any more")
                streams.target[one] = NOWHERE
                continue
            self._epoch_floor = max(self._epoch_floor, int(streams.epoch[one]))
            self._removed_streams.add(streams.names[one])
            self._changed_streams.discard(one)
            self._waiting.pop(one, None)
            streams.remove(one)

    def _restart_changed(self) -> None:
        """Let workers run changed sources, with new epochs."""
        streams = self._streams
        count = len(streams)
        for one in streams.rows(streams.is_changed[:count] & ~streams.is_leaving[:count]).tolist():
            if streams.holder[one] >= 0 and not streams.is_gone[one]:
                self._be_blind(one, "its source was changed")
                self._give(one, int(streams.holder[one]))

    def _place_waiting(self, now_ns: int) -> None:
        streams = self._streams
        count = len(streams)
        rows = streams.rows((streams.holder[:count] < 0) & ~streams.is_gone[:count])
        for with_penalised in (False, True):
            if not len(rows):
                break
            held = streams.held()
            fleet = fleet_of(self._tables, now_ns=now_ns, options=self.options, with_penalised=with_penalised)
            chosen = place(rows, held=held, fleet=fleet, fill=self.options.fill, spread=self.options.spread)
            for one, worker in zip(rows.tolist(), chosen.tolist(), strict=True):
                if worker >= 0:
                    self._give(one, worker)
            rows = rows[chosen < 0]
        self._note_waiting(rows)

    def _note_waiting(self, rows: NDArray[np.intp]) -> None:
        before = len(self._waiting)
        reasons = {
            int(kind): reason_to_wait(self._tables, int(kind), fill=self.options.fill)
            for kind in np.unique(self._streams.kind[rows])
        }
        self._waiting = {one: reasons[int(self._streams.kind[one])] for one in rows.tolist()}
        if before == 0 and self._waiting:
            first = next(iter(self._waiting.items()))
            name, others = self._streams.names[first[0]], len(rows) - 1
            text = f"{name}{f' and {others} more streams' if others else ''} cannot be placed: {first[1]}"
            self._tell(ClusterEventKind.STREAMS_WAIT, text)
        elif before and not self._waiting:
            self._tell(ClusterEventKind.STREAMS_PLACED, "all streams have a worker again")

    def _evacuate(self, now_ns: int) -> None:
        for row, worker, why in evacuations(self._tables, now_ns=now_ns, options=self.options):
            self._leave(row, worker, why)

    def _balance(self, now_ns: int) -> None:
        for row, worker in moves_that_balance(self._tables, now_ns=now_ns, options=self.options):
            fuller, emptier = self._workers.names[self._streams.holder[row]], self._workers.names[worker]
            self._leave(row, worker, f"{fuller} was fuller than {emptier}")

    def _give(self, row: int, worker: int) -> None:
        """Let a worker have a stream that nobody else has, with a new epoch."""
        streams = self._streams
        now = self._clock.epoch_ns() // 1_000_000_000
        streams.epoch[row] = max(now, int(streams.epoch[row]) + 1, self._epoch_floor + 1)
        streams.holder[row], streams.target[row], streams.is_leaving[row] = worker, NOWHERE, False
        streams.given[row], streams.is_changed[row] = streams.wanted[row], False
        streams.since[row] = self._bump(worker)
        self._changed_streams.add(row)

    def _leave(self, row: int, target: int, cause: str) -> None:
        """Let a worker stop a stream, for which there is room at another one."""
        streams = self._streams
        holder = int(streams.holder[row])
        self._be_blind(row, cause)
        streams.is_leaving[row], streams.target[row] = True, target
        streams.since[row] = self._bump(holder)
        self._changed_streams.add(row)
        if target >= 0:
            name, to = streams.names[row], self._workers.names[target]
            text = f"{name} moves from {self._workers.names[holder]} to {to}: {cause}"
            self._tell(ClusterEventKind.STREAM_MOVED, text, worker=to, stream=name)

    def _be_blind(self, row: int, cause: str) -> None:
        if not self._streams.blind_ns[row]:
            self._streams.blind_ns[row], self._streams.cause[row] = self._clock.epoch_ns(), cause

    def _free(self, row: int) -> None:
        streams = self._streams
        streams.holder[row] = streams.target[row] = NOWHERE
        streams.is_leaving[row] = False
        self._changed_streams.add(row)

    def _bump(self, worker: int) -> int:
        """Begin a new generation of a worker's assignment; return it."""
        if self._is_committed:
            self._revision += 1
            self._is_committed = False
        self._workers.generation[worker] = self._revision
        self._changed_workers.add(worker)
        return self._revision

    def _roll_out(self) -> None:
        """Let the configuration that is wanted come further."""
        workers, count = self._workers, len(self._workers)
        there = np.flatnonzero(workers.is_present[:count] & workers.is_known[:count]).tolist()
        _, streams = self._streams.usage(count)
        self._events += self._rollout.step({workers.names[row]: int(streams[row]) for row in there})

    def _note_drained(self) -> None:
        workers = self._workers
        count = len(workers)
        open_drains = workers.is_draining[:count] & ~workers.is_drained[:count]
        if not open_drains.any():
            return
        _, streams = self._streams.usage(count)
        for row in np.flatnonzero(open_drains & (streams == 0)).tolist():
            workers.is_drained[row] = True
            name = workers.names[row]
            self._tell(ClusterEventKind.WORKER_DRAINED, f"the worker {name} has no streams any more", worker=name)

    def _forget_refused(self, now_ns: int) -> None:
        until_ns = now_ns - self.options.lease_ns - self.options.grace_ns
        self._refused_workers = {name: one for name, one in self._refused_workers.items() if one[1] > until_ns}

    def _forget_workers(self, now_ns: int) -> None:
        workers = self._workers
        count = len(workers)
        old = ~workers.is_present[:count] & (now_ns - workers.seen_ns[:count] > _FORGET_NS)
        for row in np.flatnonzero(old).tolist():
            if name := workers.names[row]:
                self._removed_workers.add(name)
                self._changed_workers.discard(row)
                self._rollout.forget(name)
                workers.remove(row)

    def _row_of_worker(self, worker: str) -> int:
        row = self._workers.row_of.get(worker)
        if row is None:
            known = ", ".join(sorted(self._workers.row_of)) or "none"
            raise ConfigurationError(f"there is no worker {worker!r}; workers: {known}")
        return row

    def _tell(self, kind: ClusterEventKind, text: str, *, worker: str = "", stream: str = "") -> None:
        self._events.append(ClusterEvent(kind, text, worker, stream))

    def _commit(self) -> None:
        """Keep what has changed; and once in a lease when workers were heard."""
        now_ns = self._clock.epoch_ns()
        changed = (self._changed_streams, self._changed_workers, self._removed_streams, self._removed_workers)
        is_same = self._is_committed and not any(changed) and not self._rollout.is_dirty
        is_due = not 0 <= now_ns - self._alive_ns < self.options.lease_ns
        if is_same and not is_due:
            return
        if is_due:
            workers, count = self._workers, len(self._workers)
            seen = np.flatnonzero(workers.is_present[:count] & workers.is_known[:count])
            self._changed_workers.update(seen.tolist())
        head = SavedHead(self.term, self._revision, self._epoch_floor)
        kept_workers, kept_streams = self._tables.saved(self._changed_workers, self._changed_streams)
        changes = Saved(
            head,
            {**dict.fromkeys(self._removed_workers), **kept_workers},
            {**dict.fromkeys(self._removed_streams), **kept_streams},
            self._rollout.saved if self._rollout.is_dirty else None,
        )
        self._store.commit(changes)
        self._alive_ns, self._is_committed, self._rollout.is_dirty = now_ns, True, False
        for one in changed:
            one.clear()
