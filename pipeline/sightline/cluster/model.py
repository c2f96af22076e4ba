"""What controller, workers and engines exchange, and the options of a cluster. Data: no threads, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from sightline.errors import ConfigurationError

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"

_SECOND_NS = 1_000_000_000
_CHANGE_WHILE_RUNNING = ("pipeline", "batch")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How quickly a cluster notices failures, and how it fills its workers. Raises ConfigurationError.

    Times are nanoseconds. A worker that has no answer for `lease_ns` since it sent its last answered heartbeat stops
    its streams by itself. They start elsewhere `lease_ns + grace_ns` after the controller received that heartbeat: the
    grace is for stopping, and for clocks that do not run equally fast.
    """

    heartbeat_ns: int = _SECOND_NS
    lease_ns: int = 4 * _SECOND_NS
    grace_ns: int = 2 * _SECOND_NS
    settle_ns: int = 2 * _SECOND_NS
    """After its start, the controller places nothing for this time: workers that are there can report first."""
    rebalance_ns: int = 2 * _SECOND_NS
    """How often streams to move are looked for."""
    fill: float = 0.9
    """The share of a worker's proved capacity that is used at most."""
    tolerance: float = 0.1
    """By how much of the mean two workers may differ before streams are moved for it."""
    moving: float = 0.02
    """The share of all streams that is moved at a time at most, for drains and rebalancing; at least one stream."""
    spread: float = 0.25
    """The share of a group's streams that one worker gets at most, as long as others have room."""
    prove_ns: int = 5 * _SECOND_NS
    """How long a worker runs a changed configuration on probation before the next one gets it."""
    clock_skew_ns: int = 60 * _SECOND_NS
    """Workers whose time of day differs by more are refused."""

    def __post_init__(self) -> None:
        for name in ("heartbeat_ns", "lease_ns", "grace_ns", "rebalance_ns", "clock_skew_ns"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"cluster.{name} is {getattr(self, name)}: give a time above 0")
        for name in ("settle_ns", "prove_ns"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"cluster.{name} is {getattr(self, name)}: give 0 or more")
        if self.lease_ns < 3 * self.heartbeat_ns:
            text = f"cluster.lease_ns is {self.lease_ns}: give three times heartbeat_ns ({self.heartbeat_ns}) or more"
            raise ConfigurationError(f"{text}, so that one lost heartbeat stops no streams")
        for name in ("fill", "tolerance", "moving", "spread"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigurationError(f"cluster.{name} is {getattr(self, name)}: give a share above 0, up to 1")


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """A stream that is wanted: its source, what it costs, and where it may run. Raises ConfigurationError.

    `load` is frames a second. `requires` are labels that a worker must have (`site: north`). The streams of a `group`
    are spread over workers, so that one machine does not take all of them along. `source` is what a pipeline takes for
    a source, as JSON: a URI or the options as YAML has them. Workers check it; it is never code.
    """

    load: float
    requires: Mapping[str, str] = field(default_factory=dict)
    group: str = ""
    source: Json = None

    def __post_init__(self) -> None:
        if not 0 < self.load < float("inf"):
            raise ConfigurationError(f"a stream's load is {self.load}: give frames a second above 0")

    @property
    def fingerprint(self) -> str:
        """Sixteen digits that are another for another source."""
        return blake2b(msgspec.json.encode(self.source, order="sorted"), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class ClusterConfiguration:
    """What all workers run beside their streams: a pipeline without sources, as YAML has it, and the content (SHA-256)
    of each file that its steps read, by path. Those of `models` come from the head where they are missing: by the path
    of the model, and by their names in its folder.
    """

    pipeline: Mapping[str, Json] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Sixteen digits that are another for another configuration."""
        return blake2b(msgspec.json.encode(self, order="sorted"), digest_size=8).hexdigest()

    def needs_new_process(self, former: ClusterConfiguration) -> bool:
        """Whether a worker that runs the former one has to start again for this one: where more than steps and batches
        differs, a pipeline cannot change while it runs.
        """
        ours, theirs = ({**one.pipeline, **dict.fromkeys(_CHANGE_WHILE_RUNNING)} for one in (self, former))
        return ours != theirs


@dataclass(frozen=True, slots=True)
class ConfigurationOrder:
    """The configuration that a worker is to run from now on. `number` grows with each order of a cluster. The change is
    on probation for `prove_ns`.
    """

    number: int
    fingerprint: str
    prove_ns: int
    configuration: ClusterConfiguration


@dataclass(frozen=True, slots=True)
class ConfigurationReport:
    """What a worker says of its configuration: the numbers of the order that it has received last, and of the one that
    it has done with; the fingerprint of what it runs, empty when it runs nothing yet; and why it could not do the
    latter order.
    """

    received: int = 0
    done: int = 0
    fingerprint: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A worker's report, once every `heartbeat_ns` and after each change that it has made.

    `incarnation` names one start of the worker's process. `number` grows with each heartbeat of that. `generation` is
    that of the assignment which is in effect: whatever is not in it has stopped; 0 when none is, because the
    worker has just started or its lease was over. `lapses` counts how often that was. `capacity` is
    the frames a second that the worker has proved, `limit` how many streams it takes at most. `version` is what has to
    be the same on all machines. `epoch_ns` is the worker's time of day. `refused` are the streams of its assignment
    that its pipeline does not take, and why. `configuration` is what its pipeline is made from.
    """

    worker: str
    incarnation: str
    number: int
    generation: int
    lapses: int
    capacity: float
    epoch_ns: int
    limit: int = 1_000_000
    labels: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    refused: Mapping[str, str] = field(default_factory=dict)
    configuration: ConfigurationReport = ConfigurationReport()


@dataclass(frozen=True, slots=True)
class GrantedStream:
    """A stream that a worker runs; its records carry the epoch."""

    name: str
    epoch: int
    source: Json


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer to heartbeat `number`: the lease of the worker is renewed, from when it sent that heartbeat on.

    `streams` are all that the worker is to run in `generation`; None where it is to run what it does. `order` is what
    its pipeline is to become; None where the worker has that order. `term` grows with each start of the controller.
    """

    number: int
    term: int
    lease_ns: int
    generation: int
    streams: tuple[GrantedStream, ...] | None
    order: ConfigurationOrder | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a worker that cannot take part; `text` says why, and what to do."""

    text: str


class ClusterEventKind(StrEnum):
    """What a cluster reports."""

    WORKER_JOINED = "worker_joined"
    WORKER_LOST = "worker_lost"
    WORKER_DRAINED = "worker_drained"
    WORKER_REFUSED = "worker_refused"
    STREAM_MOVED = "stream_moved"
    STREAM_GAP = "stream_gap"
    STREAM_REFUSED = "stream_refused"
    STREAMS_WAIT = "streams_wait"
    STREAMS_PLACED = "streams_placed"
    ROLLOUT_BEGUN = "rollout_begun"
    ROLLOUT_PROVED = "rollout_proved"
    ROLLOUT_DONE = "rollout_done"
    ROLLOUT_REVERTED = "rollout_reverted"
    ROLLOUT_WITHDRAWN = "rollout_withdrawn"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One report; `text` is a sentence for a person.

    `STREAM_GAP` says that frames of `stream` are missing between the times of day `since_ns` and `until_ns`, at most:
    its records go on with `epoch`, on `worker`. It is reported at least once, also over a restart of the controller.
    """

    kind: ClusterEventKind
    text: str
    worker: str = ""
    stream: str = ""
    epoch: int = 0
    since_ns: int = 0
    until_ns: int = 0


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker as the controller sees it. `load` and `capacity` are frames a second; `configuration` is the fingerprint
    of what it runs.
    """

    name: str
    is_present: bool
    is_draining: bool
    streams: int
    load: float
    capacity: float
    labels: Mapping[str, str]
    configuration: str = ""


@dataclass(frozen=True, slots=True)
class RolloutStatus:
    """How far a changed configuration has come. `accepted` is the fingerprint of the one that all workers have proved,
    `wanted` of the one that was given last: another one while it is rolled out, and after it was rolled back. `trying`
    is the worker that has it on probation, `proved` are those that have proved it. `problem` is why it was rolled back.
    """

    accepted: str = ""
    wanted: str = ""
    trying: str = ""
    proved: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A cluster at one moment. `assignment` is the worker and epoch of each stream that has one; `moving` streams are
    being stopped to start elsewhere; `waiting` says for each stream without a worker why, `refused` why its worker does
    not take it. `refused_workers` report, and do not take part: why. `rollout` is about the configuration.

    `imbalance` is by how much of the mean the fullest worker is above it, of the workers that streams are placed on.
    """

    term: int
    workers: tuple[WorkerStatus, ...]
    assignment: Mapping[str, tuple[str, int]]
    moving: tuple[str, ...]
    waiting: Mapping[str, str]
    refused: Mapping[str, str]
    refused_workers: Mapping[str, str]
    imbalance: float
    rollout: RolloutStatus = RolloutStatus()
