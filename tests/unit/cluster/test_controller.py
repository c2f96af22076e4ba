"""Placing, moving, losing and restarting streams, in a simulated cluster."""

from __future__ import annotations

import pytest
from benchmarks.cluster.histories import random_history
from benchmarks.cluster.world import SECOND, InvariantBroken, SimulatedClock, World

from sightline.cluster.controller import Controller
from sightline.cluster.lease import WorkerLease
from sightline.cluster.model import (
    ClusterEventKind,
    ClusterOptions,
    ClusterStatus,
    Grant,
    Heartbeat,
    Refusal,
    StreamSpec,
)
from sightline.cluster.store import MemoryStore, Saved
from sightline.errors import ConfigurationError, OutputError


def world_of(workers: int, *, streams: int, options: ClusterOptions | None = None, capacity: float = 1_000) -> World:
    world = World(seed=3, options=options)
    world.begin({f"c{number}": StreamSpec(10, source=f"rtsp://{number}") for number in range(streams)})
    for number in range(workers):
        world.add_worker(f"w{number}", capacity=capacity)
    world.run_until(lambda: world.blind == 0, seconds=20)
    return world


def status(world: World) -> ClusterStatus:
    assert world.controller is not None
    return world.controller.status


def texts(world: World, kind: ClusterEventKind) -> list[str]:
    return [one.text for one in world.events if one.kind is kind]


def test_streams_are_placed_evenly() -> None:
    world = world_of(4, streams=40)

    assert [one.streams for one in status(world).workers] == [10] * 4
    assert status(world).imbalance == 0


def test_streams_of_a_silent_worker_start_elsewhere_after_lease_and_grace() -> None:
    world = world_of(3, streams=12)
    lost = set(world.workers["w0"].running)
    world.kill("w0")
    world.run(4)
    assert {world.owner(stream) for stream in lost} == {None}

    world.run_until(lambda: world.blind == 0, seconds=4)

    assert {world.owner(stream) for stream in lost} == {"w1", "w2"}
    assert texts(world, ClusterEventKind.WORKER_LOST)[0].startswith("the worker w0 was silent for 6.")
    world.check_reports()


def test_streams_of_a_worker_that_is_known_to_have_ended_start_elsewhere_at_once() -> None:
    world = world_of(3, streams=12)
    world.kill("w0", is_noticed=True)

    assert world.run_until(lambda: world.blind == 0, seconds=4) < 2


def test_a_worker_that_is_cut_off_stops_before_its_streams_start_elsewhere() -> None:
    world = world_of(3, streams=12)
    world.cut("w0")
    world.run(4.9)
    assert not world.workers["w0"].running
    assert world.blind == 4

    world.run_until(lambda: world.blind == 0, seconds=4)

    world.check_reports()


def test_a_grace_too_short_for_stopping_is_noticed_by_the_world() -> None:
    world = world_of(3, streams=12, options=ClusterOptions(grace_ns=1))
    world.cut("w0")

    with pytest.raises(InvariantBroken, match="and runs at w0"):
        world.run(10)


def test_one_stream_has_a_higher_epoch_with_each_start() -> None:
    world = world_of(2, streams=1)
    epochs = []
    for _ in range(4):
        ((_, (worker, epoch)),) = status(world).assignment.items()
        epochs.append(epoch)
        world.kill(worker, is_noticed=True)
        world.boot(worker)
        world.run_until(lambda: world.blind == 0, seconds=90)

    assert epochs == sorted(set(epochs))


def test_a_controller_that_is_started_again_has_the_same_assignment_and_nothing_stops() -> None:
    world = world_of(3, streams=30)
    before, starts = status(world).assignment, sum(world.starts.values())
    world.kill_controller()
    world.run(10)
    assert world.blind == 0
    world.start_controller()

    world.run(30)

    assert status(world).assignment == before
    assert sum(world.starts.values()) == starts
    assert status(world).term == 2
    assert world.blind == 0


def test_a_worker_that_was_lost_while_there_was_no_controller_is_noticed() -> None:
    world = world_of(3, streams=30)
    world.kill_controller()
    world.kill("w0")
    world.run(3)
    world.start_controller()

    world.run_until(lambda: world.blind == 0, seconds=10)

    world.check_reports()


def test_a_source_that_was_changed_meanwhile_is_started_again_by_the_next_controller() -> None:
    world = world_of(2, streams=4)
    starts = dict(world.starts)
    world.kill_controller()
    world.want({**world.streams, "c1": StreamSpec(10, source="rtsp://other")})
    world.start_controller()

    world.run(10)

    assert {name for name, count in world.starts.items() if count > starts[name]} == {"c1"}


def test_a_worker_that_joins_gets_its_share() -> None:
    world = world_of(4, streams=40, options=ClusterOptions(moving=0.1))
    starts = sum(world.starts.values())
    world.add_worker("w4", capacity=1_000)

    seconds = world.run_until(lambda: status(world).workers[-1].streams >= 7 and not status(world).moving, seconds=30)
    world.run(20)

    assert seconds < 10
    assert sum(world.starts.values()) - starts <= 8
    assert status(world).imbalance <= 0.15


def test_a_drained_worker_loses_its_streams_some_at_a_time() -> None:
    world = world_of(4, streams=80, options=ClusterOptions(moving=0.05))
    assert world.controller is not None
    world.controller.drain("w2")
    most = 0
    while not texts(world, ClusterEventKind.WORKER_DRAINED):
        world.run(0.25)
        most = max(most, world.blind)

    assert not world.workers["w2"].running
    assert 0 < most <= 4
    world.run(5)
    world.check_reports()


def test_a_drain_with_nowhere_to_go_stops_nothing() -> None:
    world = world_of(2, streams=12, capacity=80)
    assert world.controller is not None

    world.controller.drain("w0")
    world.run(20)

    assert world.blind == 0
    assert len(world.workers["w0"].running) >= 5


def test_streams_stay_with_their_labels_and_wait_with_a_reason_without_them() -> None:
    world = World(seed=1)
    north = {"site": "north"}
    world.begin({"a": StreamSpec(10, north), "b": StreamSpec(10, {"site": "west"}), "c": StreamSpec(10, north)})
    world.add_worker("w0", capacity=100, labels=north)
    world.add_worker("w1", capacity=1_000)

    world.run(10)

    assert {name: worker for name, (worker, _) in status(world).assignment.items()} == {"a": "w0", "c": "w0"}
    assert status(world).waiting == {"b": "no worker with site: west is known: add one, or correct the label"}
    assert texts(world, ClusterEventKind.STREAMS_WAIT) == [
        "b cannot be placed: no worker with site: west is known: add one, or correct the label"
    ]
    world.add_worker("w2", capacity=100, labels={"site": "west"})
    world.run(5)
    assert status(world).waiting == {}
    assert len(texts(world, ClusterEventKind.STREAMS_PLACED)) == 1


def test_streams_beyond_all_capacity_wait() -> None:
    world = World(seed=1)
    world.begin({f"c{number}": StreamSpec(10) for number in range(20)})
    world.add_worker("w0", capacity=100)

    world.run(10)

    assert len(status(world).assignment) == 9
    assert set(status(world).waiting.values()) == {
        "no worker has room (filled to 90% of its capacity at most): add workers"
    }


def test_a_worker_whose_capacity_falls_gives_streams_away() -> None:
    world = world_of(3, streams=30, options=ClusterOptions(moving=0.1), capacity=300)
    world.workers["w0"].capacity = 60

    world.run(30)

    assert len(world.workers["w0"].running) <= 3
    assert world.blind == 0


def test_a_worker_whose_labels_change_loses_the_streams_that_require_them() -> None:
    world = World(seed=2)
    world.begin({"a": StreamSpec(10, {"site": "north"})})
    world.add_worker("w0", capacity=100, labels={"site": "north"})
    world.run(5)
    world.add_worker("w1", capacity=100, labels={"site": "north"})
    world.run(5)
    assert world.owner("a") == "w0"
    world.workers["w0"].labels = {"site": "south"}

    world.run(10)

    assert world.owner("a") == "w1"


def test_streams_that_are_not_wanted_any_more_stop_and_come_back_with_a_higher_epoch() -> None:
    world = world_of(2, streams=4)
    wanted, (_, epoch) = dict(world.streams), status(world).assignment["c1"]
    world.want({name: one for name, one in wanted.items() if name != "c1"})
    world.run(5)
    assert world.owner("c1") is None
    world.want(wanted)
    world.run(5)

    assert status(world).assignment["c1"][1] > epoch


def test_a_flapping_worker_is_left_alone_for_longer_each_time() -> None:
    world = world_of(5, streams=40, options=ClusterOptions(moving=0.2))
    returned = []
    for _ in range(4):
        world.kill("w0", is_noticed=True)
        world.run(1)
        world.boot("w0")
        returned.append(world.run_until(lambda: bool(world.workers["w0"].running), seconds=90))

    assert returned[-1] > 2 * returned[0]


class Full(MemoryStore):
    """A store on a disk that may be full."""

    is_full = False

    def commit(self, changes: Saved) -> None:
        if self.is_full:
            raise OutputError("cannot write the state of a cluster: the disk is full", reason="the disk is full")
        super().commit(changes)


def test_on_a_full_disk_leases_are_renewed_and_nothing_is_told() -> None:
    clock, store = SimulatedClock(), Full()
    controller = Controller({"a": StreamSpec(10)}, store=store, clock=clock, options=ClusterOptions(settle_ns=0))
    lease = WorkerLease("w", "w-1", clock=clock)
    controller.heartbeat(lease.heartbeat(capacity=100))
    store.is_full = True
    with pytest.raises(OutputError, match="the disk is full"):
        controller.step()

    grant = controller.heartbeat(lease.heartbeat(capacity=100))

    assert isinstance(grant, Grant)
    assert grant.streams is None
    store.is_full = False
    controller.step()
    grant = controller.heartbeat(lease.heartbeat(capacity=100))
    assert isinstance(grant, Grant)
    assert grant.streams is not None
    assert [one.name for one in grant.streams] == ["a"]


def answer(beat: Heartbeat, *, clock: SimulatedClock | None = None) -> Grant | Refusal | None:
    controller = Controller({}, store=MemoryStore(), clock=clock or SimulatedClock(), version="1.2")
    return controller.heartbeat(beat)


@pytest.mark.parametrize(
    ("version", "behind_seconds", "generation", "text"),
    [
        ("1.1", 0, 0, r"'w' has 1\.1, the controller 1\.2: install the same version"),
        ("", 0, 0, "has no version"),
        ("1.2", 300, 0, r"the clock of the worker 'w' is 300 s behind: synchronise it"),
        ("1.2", -90, 0, r"is 90 s ahead"),
        ("1.2", 0, 9, "runs a later assignment than the store"),
    ],
)
def test_a_worker_that_does_not_fit_is_refused(version: str, behind_seconds: int, generation: int, text: str) -> None:
    epoch_ns = SimulatedClock().epoch_ns() - behind_seconds * SECOND
    beat = Heartbeat("w", "w-1", 1, generation, 0, 100, epoch_ns, version=version)

    with pytest.raises(AssertionError, match=text):
        assert not isinstance(refused := answer(beat), Refusal), refused


def test_a_refused_worker_is_shown_until_it_fits_or_is_silent_and_reported_once() -> None:
    clock = SimulatedClock()
    controller = Controller({"a": StreamSpec(10)}, store=MemoryStore(), clock=clock, version="1.2")
    wrong, right = (WorkerLease(name, f"{name}-1", clock=clock) for name in ("wrong", "right"))
    for _ in range(3):
        for lease in (wrong, right):
            controller.heartbeat(lease.heartbeat(capacity=100, version="1.1"))
    assert [one.kind for one in controller.step()] == [ClusterEventKind.WORKER_REFUSED] * 2
    assert controller.status.refused_workers.keys() == {"wrong", "right"}
    assert "the worker 'wrong' has 1.1, the controller 1.2" in controller.status.refused_workers["wrong"]

    controller.heartbeat(right.heartbeat(capacity=100, version="1.2"))
    assert controller.status.refused_workers.keys() == {"wrong"}
    clock.now_ns += controller.options.lease_ns + controller.options.grace_ns
    controller.step()
    assert not controller.status.refused_workers


def test_a_second_worker_of_the_same_name_is_refused() -> None:
    controller = Controller({}, store=MemoryStore(), clock=SimulatedClock())
    first, second = (WorkerLease("w", f"w-{number}", clock=SimulatedClock()) for number in (1, 2))
    controller.heartbeat(first.heartbeat(capacity=1))

    refused = controller.heartbeat(second.heartbeat(capacity=1))

    assert isinstance(refused, Refusal)
    assert refused.text.startswith("another process reports as the worker 'w'")


def test_a_heartbeat_that_was_overtaken_has_no_answer() -> None:
    clock = SimulatedClock()
    controller = Controller({}, store=MemoryStore(), clock=clock)
    lease = WorkerLease("w", "w-1", clock=clock)
    first, second = lease.heartbeat(capacity=1), lease.heartbeat(capacity=1)
    controller.heartbeat(second)

    assert controller.heartbeat(first) is None


def test_an_unknown_worker_cannot_be_drained() -> None:
    world = world_of(1, streams=1)
    assert world.controller is not None

    with pytest.raises(ConfigurationError, match="there is no worker 'w9'; workers: w0"):
        world.controller.drain("w9")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"lease_ns": 2 * SECOND}, "cluster.lease_ns is 2000000000: give three times heartbeat_ns"),
        ({"fill": 1.5}, "cluster.fill is 1.5: give a share above 0, up to 1"),
        ({"grace_ns": 0}, "cluster.grace_ns is 0: give a time above 0"),
        ({"settle_ns": -1}, "cluster.settle_ns is -1: give 0 or more"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, float], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        ClusterOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_run_twice_or_lost_silently_whatever_fails(seed: int) -> None:
    world = random_history(seed)

    assert sum(world.starts.values()) > len(world.streams)
