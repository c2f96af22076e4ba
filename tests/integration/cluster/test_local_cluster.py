"""Real pipelines under the real controller: what a receiver of their records sees when workers fail."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import NamedTuple, cast

import pytest

from sightline import Pipeline
from sightline.cluster.agent import WorkerFacts
from sightline.cluster.local import LocalCluster
from sightline.cluster.model import (
    ClusterConfiguration,
    ClusterEvent,
    ClusterEventKind,
    ClusterOptions,
    Json,
    StreamSpec,
)
from sightline.cluster.store import FileStore
from sightline.errors import ConfigurationError
from sightline.graph import Site
from sightline.graph.transport import Record, Transport
from sightline.media import FrameView
from sightline_plugins import Callback
from tests.unit.delivery.sending import Post
from tests.waiting import wait_until

SECOND = 1_000_000_000
# A busy machine holds threads for a while: shorter leases would run out by themselves.
OPTIONS = ClusterOptions(
    heartbeat_ns=SECOND // 4,
    lease_ns=3 * SECOND,
    grace_ns=SECOND,
    settle_ns=SECOND,
    rebalance_ns=SECOND // 2,
    moving=0.5,
    prove_ns=SECOND,
)
CAMERA: dict[str, Json] = {"pattern": "counter", "size": [64, 48], "fps": 20, "frames": None, "realtime": True}
FACTS = WorkerFacts(capacity=400)


class Receiver(Transport):
    """What all workers deliver to, with the worker of each record."""

    def __init__(self) -> None:
        self.records: list[tuple[str, Record]] = []
        self._lock = Lock()

    def of(self, worker: str) -> Transport:
        """The way of one worker to it."""
        return _Way(self, worker)

    def take(self, worker: str, records: Sequence[Record]) -> None:
        """Keep records."""
        with self._lock:
            self.records += [(worker, record) for record in records]

    def streams_since(self, count: int) -> set[str]:
        """The streams of the records behind the first ones."""
        with self._lock:
            return {record.stream for _, record in self.records[count:]}

    def connect(self) -> None: ...

    def deliver(self, records: Sequence[Record]) -> None: ...

    def close(self) -> None: ...


class _Way(Receiver):
    def __init__(self, receiver: Receiver, worker: str) -> None:
        self._receiver, self._worker = receiver, worker

    def deliver(self, records: Sequence[Record]) -> None:
        self._receiver.take(self._worker, records)


class Run(NamedTuple):
    """The records of a stream with one epoch."""

    epoch: int
    workers: set[str]
    seqs: list[int]
    first_ns: int
    last_ns: int


def configured(step: str, *, on: str = "") -> ClusterConfiguration:
    """A configuration with one more step, which is fine, or `raises` or `cannot` be built on a worker."""
    return ClusterConfiguration({"pipeline": [step, on]})


def _steps_of(configuration: ClusterConfiguration, worker: str) -> list[Callback]:
    """The steps of a configuration on a worker. Raises ConfigurationError where that cannot run it."""
    if not configuration.pipeline:
        return []
    step, on = cast("list[str]", configuration.pipeline["pipeline"])
    if step == "cannot" and on == worker:
        raise ConfigurationError("street.onnx is not there")

    def raises(frame: FrameView) -> None:
        raise ValueError(f"no frame of {frame.stream.name}")

    return [Callback(function=raises if step == "raises" and on == worker else _seen, id=step)]


def _seen(frame: FrameView) -> None:
    del frame


class Scene:
    """A cluster of three workers and six cameras, and what it delivers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.receiver = folder, Receiver()
        self.store = FileStore(folder / "cluster.db")
        streams = {f"c{number}": StreamSpec(20, source=CAMERA) for number in range(6)}
        self.cluster = LocalCluster(streams, pipelines=self._pipeline, store=self.store, options=OPTIONS)
        self._made = 0
        self._deliverings: dict[str, Post] = {}

    def _pipeline(self, worker: str, configuration: ClusterConfiguration) -> Pipeline:
        self._made += 1
        return Pipeline(
            sources={},
            steps=[*_steps_of(configuration, worker), self._delivering(worker)],
            keep_running=True,
            state=False,
            outputs=self.folder / f"{worker}-{self._made}",
            device="cpu",
        )

    def _delivering(self, worker: str) -> Post:
        """A step that delivers to the receiver; the same one for all configurations of a worker."""
        receiver = self.receiver

        class Delivering(Post):
            """Delivers to the receiver."""

            def transport(self, site: Site) -> Transport:
                return receiver.of(worker)

        return self._deliverings.setdefault(worker, Delivering())

    def start(self) -> None:
        """Start all workers, and wait until all cameras are seen."""
        for number in range(3):
            self.cluster.start_worker(f"w{number}", FACTS)
        wait_until(lambda: len(self.cluster.status.workers) == 3 and self.is_at_rest())

    def wait_for_all(self) -> None:
        """Wait for a record of each camera from now on."""
        count = len(self.receiver.records)
        wait_until(lambda: len(self.receiver.streams_since(count)) == 6)

    def streams_of(self, worker: str) -> set[str]:
        """The streams that a worker has."""
        return {name for name, (own, _) in self.cluster.status.assignment.items() if own == worker}

    def runs(self) -> dict[str, list[Run]]:
        """The records of each stream by epoch, in the order of their epochs."""
        found: dict[tuple[str, int], list[tuple[str, Record]]] = defaultdict(list)
        for worker, record in self.receiver.records:
            found[record.stream, record.epoch].append((worker, record))
        runs: dict[str, list[Run]] = defaultdict(list)
        for (stream, epoch), own in sorted(found.items()):
            times = [record.time_ns for _, record in own]
            seqs = sorted({record.seq for _, record in own})
            runs[stream].append(Run(epoch, {worker for worker, _ in own}, seqs, min(times), max(times)))
        return runs

    def gaps(self) -> dict[tuple[str, int], ClusterEvent]:
        """The gaps that were reported, by stream and the epoch after them."""
        events = self.cluster.events
        return {(one.stream, one.epoch): one for one in events if one.kind is ClusterEventKind.STREAM_GAP}

    def is_at_rest(self) -> bool:
        """Whether all streams have come where they belong, and all workers have said so."""
        status, runs, gaps = self.cluster.status, self.runs(), self.gaps()
        counts = [one.streams for one in status.workers if one.is_present and not one.is_draining]
        if status.moving or len(status.assignment) < 6 or max(counts) - min(counts) > 1:
            return False
        if any(not runs[stream] or runs[stream][-1].epoch != epoch for stream, (_, epoch) in status.assignment.items()):
            return False
        return all((stream, one.epoch) in gaps for stream, own in runs.items() for one in own[1:])

    def end(self) -> None:
        """Wait until nothing is under way, end the cluster, and check what a receiver relies on."""
        wait_until(self.is_at_rest)
        self.cluster.close()
        gaps = self.gaps()
        for stream, runs in self.runs().items():
            for run in runs:
                assert len(run.workers) == 1, f"{stream}: two workers have the epoch {run.epoch}"
                assert run.seqs == list(range(len(run.seqs))), f"{stream}: records of the epoch {run.epoch} are missing"
            for before, after in pairwise(runs):
                assert before.last_ns < after.first_ns, f"{stream} was read twice at a time"
                gap = gaps[stream, after.epoch]
                assert gap.since_ns <= after.first_ns, f"the gap of {stream} is reported too late"
                assert gap.until_ns >= before.last_ns, f"the gap of {stream} is reported too early"


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    with scene.cluster:
        yield scene
    scene.store.close()


def test_a_worker_that_dies_costs_its_streams_a_reported_gap_and_no_record_twice(scene: Scene) -> None:
    scene.start()
    lost = scene.streams_of("w1")
    assert len(lost) == 2

    scene.cluster.kill_worker("w1")
    wait_until(lambda: not scene.streams_of("w1"))
    scene.wait_for_all()
    scene.cluster.start_worker("w1", FACTS)
    wait_until(lambda: len(scene.streams_of("w1")) == 2)
    scene.wait_for_all()
    scene.end()

    runs = scene.runs()
    assert all(len(runs[stream]) >= 2 for stream in lost)
    assert sum(len(one) for one in runs.values()) >= 6 + 2 + 2


def test_workers_that_are_cut_off_or_end_lose_their_streams_and_the_next_controller_goes_on(scene: Scene) -> None:
    scene.start()
    before = scene.cluster.status.assignment
    scene.cluster.kill_controller()
    scene.wait_for_all()
    scene.cluster.start_controller()
    scene.wait_for_all()
    assert scene.cluster.status.assignment == before

    scene.cluster.cut("w2")
    wait_until(lambda: not scene.streams_of("w2"))
    scene.wait_for_all()
    scene.cluster.cut("w2", is_cut=False)
    wait_until(lambda: scene.streams_of("w2"))
    scene.wait_for_all()
    scene.cluster.pipeline("w0").stop()
    wait_until(lambda: not scene.streams_of("w0"))
    scene.wait_for_all()
    scene.end()


def test_a_worker_is_drained_and_another_source_begins_a_new_epoch(scene: Scene) -> None:
    scene.start()
    scene.cluster.drain("w0")
    wait_until(lambda: not scene.streams_of("w0"))
    with pytest.raises(ConfigurationError, match="there is no worker 'w7'"):
        scene.cluster.drain("w7")
    wait_until(scene.is_at_rest)
    before = scene.cluster.status.assignment["c3"]

    wanted = {f"c{number}": StreamSpec(20, source=CAMERA) for number in range(6)}
    scene.cluster.desire({**wanted, "c3": StreamSpec(20, source={**CAMERA, "fps": 10})})
    wait_until(lambda: scene.cluster.status.assignment["c3"][1] > before[1])
    scene.cluster.desire({**wanted, "c3": StreamSpec(20, source={"pattern": "nothing"})})
    wait_until(lambda: any(one.kind is ClusterEventKind.STREAM_REFUSED for one in scene.cluster.events))
    assert "c3" in scene.cluster.status.refused
    (refused,) = (one for one in scene.cluster.events if one.kind is ClusterEventKind.STREAM_REFUSED)
    assert refused.text.startswith(f"{before[0]} cannot run c3: ")
    scene.cluster.desire({**wanted, "c3": StreamSpec(20, source={**CAMERA, "fps": 10})})
    wait_until(lambda: not scene.cluster.status.refused)
    scene.wait_for_all()
    scene.end()

    assert scene.runs()["c3"][-1].workers == {before[0]}


def test_a_configuration_goes_through_the_workers_without_losing_a_frame(scene: Scene) -> None:
    scene.start()
    assignment = scene.cluster.status.assignment
    good = configured("good")
    scene.cluster.configure(good)
    wait_until(lambda: scene.cluster.status.rollout.accepted == good.fingerprint)
    scene.wait_for_all()

    assert scene.cluster.status.assignment == assignment
    assert {scene.cluster.pipeline(f"w{number}").description.steps[0].id for number in range(3)} == {"good"}  # type: ignore[union-attr]
    scene.end()


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("raises", r"w\d cannot run it: the change is reverted, .*no frame of c\d.*; \d+ frames that met the error"),
        ("cannot", r"w\d cannot run it: street\.onnx is not there"),
    ],
)
def test_a_worker_that_cannot_run_a_configuration_takes_it_from_all(scene: Scene, step: str, why: str) -> None:
    scene.start()
    assignment = scene.cluster.status.assignment
    scene.cluster.configure(configured("good"))
    wait_until(lambda: len(scene.cluster.status.rollout.proved) == 1)
    scene.cluster.kill_controller()
    scene.cluster.start_controller()
    wait_until(lambda: scene.cluster.status.rollout.accepted == configured("good").fingerprint)
    scene.cluster.configure(configured(step, on="w2"))
    wait_until(lambda: scene.cluster.status.rollout.problem)
    wait_until(lambda: {one.configuration for one in scene.cluster.status.workers} == {configured("good").fingerprint})
    scene.wait_for_all()

    assert re.match(why.replace(r"w\d", "w2"), scene.cluster.status.rollout.problem)
    assert scene.cluster.status.assignment == assignment
    assert {scene.cluster.pipeline(f"w{number}").description.steps[0].id for number in range(3)} == {"good"}  # type: ignore[union-attr]
    scene.end()
