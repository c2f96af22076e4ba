"""A changed configuration goes to one worker after the other, and back from all when one cannot, in a simulated
cluster.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from benchmarks.cluster.world import World, configuration_of

from sightline.cluster.model import ClusterEventKind, ClusterOptions, RolloutStatus, StreamSpec
from sightline.errors import ConfigurationError

FIRST, SECOND, THIRD = (configuration_of(name).fingerprint for name in ("first", "second", "third"))
PROVE_SECONDS = 5


def world_of(workers: int, *, options: ClusterOptions | None = None) -> World:
    world = World(seed=5, options=options)
    world.begin({f"c{number}": StreamSpec(10, source=f"rtsp://{number}") for number in range(4 * workers)})
    for number in range(workers):
        world.add_worker(f"w{number}", capacity=1_000)
    world.run_until(lambda: world.blind == 0, seconds=20)
    world.run(3)
    return world


def rollout(world: World) -> RolloutStatus:
    assert world.controller is not None
    return world.controller.status.rollout


def runs(world: World) -> set[str]:
    """What the workers run."""
    return {one.setup.fingerprint for one in world.workers.values()}


def texts(world: World, kind: ClusterEventKind) -> list[str]:
    return [one.text for one in world.events if one.kind is kind]


def is_over(world: World) -> Callable[[], bool]:
    return lambda: rollout(world).wanted == rollout(world).accepted or bool(rollout(world).problem)


def test_workers_get_a_configuration_in_turn_and_no_stream_stops() -> None:
    world = world_of(3)
    starts = sum(world.starts.values())
    world.configure("second")
    tried = []
    while not is_over(world)():
        world.run(0.25)
        on_probation = [name for name, one in world.workers.items() if one.task is not None]
        assert len(on_probation) <= 1
        tried += [name for name in on_probation if name not in tried]

    assert sorted(tried) == ["w0", "w1", "w2"]
    assert rollout(world) == RolloutStatus(SECOND, SECOND)
    assert runs(world) == {SECOND}
    assert sum(world.starts.values()) == starts
    assert len(texts(world, ClusterEventKind.ROLLOUT_PROVED)) == 3
    assert texts(world, ClusterEventKind.ROLLOUT_DONE)[0].startswith(f"the configuration {SECOND} runs everywhere")
    assert {one.configuration for one in world.controller.status.workers} == {SECOND}  # type: ignore[union-attr]


def test_a_worker_with_few_streams_is_first_and_one_without_any_last() -> None:
    world = world_of(3)
    assert world.controller is not None
    world.controller.drain("w0")
    world.run_until(lambda: not world.workers["w0"].running, seconds=30)
    world.workers["w1"].capacity = 300
    world.run(60)
    assert 0 < len(world.workers["w1"].running) < len(world.workers["w2"].running)
    world.configure("second")
    world.run_until(is_over(world), seconds=60)

    proved = [one.worker for one in world.events if one.kind is ClusterEventKind.ROLLOUT_PROVED]
    assert proved == ["w1", "w2", "w0"]


def second_worker(world: World) -> str:
    """The worker whose turn is the second one, when it has begun."""

    def has_begun() -> bool:
        one = world.workers.get(rollout(world).trying)
        return len(rollout(world).proved) == 1 and one is not None and one.task is not None

    world.run_until(has_begun, seconds=30)
    return rollout(world).trying


@pytest.mark.parametrize("dies", [False, True])
def test_workers_that_had_it_go_back_when_one_cannot_and_the_rest_never_get_it(dies: bool) -> None:
    world = world_of(3)
    world.workers["w1"].dislikes, world.workers["w1"].dies = "second", dies
    world.configure("second")
    world.run_until(is_over(world), seconds=60)
    why = rollout(world).problem
    world.boot("w1")
    world.run(90)

    assert why == ("the worker w1 has ended while it tried it" if dies else "w1 cannot run it: it dislikes second"), (
        "which worker, and why"
    )
    assert rollout(world) == RolloutStatus(FIRST, SECOND, problem=why)
    assert runs(world) == {FIRST}
    assert world.ran["w0"] == ["first", "second", "first"]
    assert world.ran["w2"] == ["first"]
    (text,) = texts(world, ClusterEventKind.ROLLOUT_REVERTED)
    assert text == (
        f"the configuration {SECOND} is rolled back: {why}; 1 workers that had it already go back; "
        f"{FIRST} runs everywhere"
    )
    world.check_reports()


def test_a_worker_that_is_cut_off_in_its_turn_fails_the_change() -> None:
    world = world_of(3)
    world.configure("second")
    world.cut(cut := second_worker(world))
    world.run_until(is_over(world), seconds=30)
    assert rollout(world).problem.startswith(f"the worker {cut} was silent for 6.")
    world.cut(cut, is_cut=False)
    world.run(30)

    assert runs(world) == {FIRST}
    world.check_reports()


def test_a_worker_that_was_cut_off_before_its_turn_fails_nothing() -> None:
    world = world_of(3)
    world.cut("w1")
    world.run(1)
    world.configure("second")
    world.run_until(is_over(world), seconds=60)
    world.cut("w1", is_cut=False)
    world.run(20)

    assert rollout(world) == RolloutStatus(SECOND, SECOND)
    assert runs(world) == {SECOND}


def test_workers_that_are_away_do_not_matter_and_run_it_when_they_are_back() -> None:
    world = world_of(3)
    world.configure("second")
    trying = second_worker(world)
    (proved,) = rollout(world).proved
    (waiting,) = world.workers.keys() - {trying, proved}
    world.kill(proved, is_noticed=True)
    world.kill(waiting, is_noticed=True)
    world.run_until(is_over(world), seconds=60)
    assert rollout(world) == RolloutStatus(SECOND, SECOND)

    world.boot(proved)
    world.boot(waiting)
    world.run(20)

    assert runs(world) == {SECOND}
    assert world.ran[waiting] == ["first", "second"]


def test_a_worker_that_joins_meanwhile_has_what_the_others_had_until_its_turn() -> None:
    world = world_of(3)
    world.configure("second")
    second_worker(world)
    world.add_worker("w9", capacity=1_000)
    world.run(3)
    assert world.workers["w9"].setup.fingerprint == FIRST
    world.run_until(is_over(world), seconds=60)

    assert rollout(world) == RolloutStatus(SECOND, SECOND)
    assert world.ran["w9"] == ["first", "second"]


@pytest.mark.parametrize("is_good", [True, False])
@pytest.mark.parametrize("seconds", [0.3, 4.0, 30.0])
def test_the_next_controller_goes_on_where_the_one_before_was(is_good: bool, seconds: float) -> None:
    world = world_of(4)
    world.workers["w2"].dislikes = "" if is_good else "second"
    world.configure("second")
    while not is_over(world)():
        world.run(2.5)
        world.kill_controller()
        world.run(seconds)
        assert len(runs(world)) <= 2
        world.start_controller()
        assert rollout(world).wanted == SECOND
        world.run(1)
    world.run(10)

    assert runs(world) == {SECOND if is_good else FIRST}
    assert world.ran["w0"] == ["first", "second"] if is_good else world.ran["w3"] == ["first"]
    assert rollout(world).problem == ("" if is_good else "w2 cannot run it: it dislikes second")
    assert world.blind == 0


def test_the_controller_that_dies_while_a_worker_in_its_turn_dies_rolls_back() -> None:
    world = world_of(3)
    world.configure("second")
    lost = second_worker(world)
    world.kill_controller()
    world.kill(lost)
    world.run(1)
    world.boot(lost)
    world.start_controller()
    world.run_until(is_over(world), seconds=30)

    assert rollout(world).problem.startswith(f"the worker {lost} was silent")
    world.run(30)
    assert runs(world) == {FIRST}


def test_what_was_rolled_back_is_not_tried_again_by_a_restart_but_by_a_request() -> None:
    world = world_of(2)
    world.workers["w1"].dislikes = "second"
    world.configure("second")
    world.run_until(is_over(world), seconds=60)
    world.kill_controller()
    world.start_controller()
    world.configure("second")
    world.run(30)
    assert rollout(world).problem == "w1 cannot run it: it dislikes second"
    assert world.ran["w1"] == ["first", "(second)"]

    world.workers["w1"].dislikes = ""
    assert world.controller is not None
    world.controller.retry()
    world.run_until(is_over(world), seconds=60)

    assert rollout(world) == RolloutStatus(SECOND, SECOND)
    with pytest.raises(ConfigurationError, match="there is nothing to try again"):
        world.controller.retry()


@pytest.mark.parametrize("dislikes", ["", "second", "third"])
def test_a_second_change_takes_the_place_of_the_first_one(dislikes: str) -> None:
    world = world_of(3)
    world.configure("second")
    trying = second_worker(world)
    (proved,) = rollout(world).proved
    world.workers[trying].dislikes = dislikes
    world.configure("third")
    world.run_until(is_over(world), seconds=60)
    world.run(10)

    if dislikes == "third":
        assert rollout(world) == RolloutStatus(FIRST, THIRD, problem=f"{trying} cannot run it: it dislikes third")
        assert runs(world) == {FIRST}
    else:
        assert rollout(world) == RolloutStatus(THIRD, THIRD)
        assert runs(world) == {THIRD}
        assert world.ran[proved] == ["first", "second", "third"]
        (other,) = world.workers.keys() - {trying, proved}
        assert world.ran[other] == ["first", "third"]


def test_a_change_that_is_taken_back_meanwhile_is_withdrawn_from_all() -> None:
    world = world_of(3)
    world.configure("second")
    second_worker(world)
    world.configure("first")
    world.run(20)

    assert rollout(world) == RolloutStatus(FIRST, FIRST)
    assert runs(world) == {FIRST}
    assert texts(world, ClusterEventKind.ROLLOUT_WITHDRAWN) == [
        f"the configuration {SECOND} is withdrawn: {FIRST} runs again"
    ]


def test_streams_come_at_once_while_a_configuration_is_rolled_out() -> None:
    world = world_of(3)
    world.configure("second")
    second_worker(world)
    world.want({**world.streams, "new": StreamSpec(10, source="rtsp://new")})
    world.run(2)

    assert world.owner("new") is not None
    assert rollout(world).trying
    world.run_until(is_over(world), seconds=60)
    assert rollout(world).accepted == SECOND


def test_what_takes_a_new_process_restarts_one_worker_at_a_time() -> None:
    world = world_of(3)
    world.configure("second", device="cpu")
    while not is_over(world)():
        world.run(0.25)
        assert sum(one.lease is None for one in world.workers.values()) <= 1
    world.run(60)

    assert [one.incarnation for one in world.workers.values()] == [2, 2, 2]
    assert all(own == ["first", "second"] for own in world.ran.values())
    assert world.blind == 0
    world.check_reports()


def test_a_worker_that_dies_again_in_the_new_process_fails_the_change() -> None:
    world = world_of(3)
    world.workers["w1"].dislikes, world.workers["w1"].dies = "second", True
    world.configure("second", device="cpu")
    while not is_over(world)():
        world.run(0.25)
        for name, one in world.workers.items():
            if one.lease is None:
                world.boot(name)
    assert rollout(world).problem == "the worker w1 has ended while it tried it"
    world.workers["w1"].dislikes = ""
    for _ in range(10):
        world.run(10)
        for name in world.workers:
            world.boot(name)

    first = configuration_of("first").fingerprint
    assert runs(world) == {first}
    assert world.blind == 0


def test_a_worker_that_is_never_done_fails_the_change() -> None:
    world = world_of(2)
    world.workers["w1"].dislikes, world.workers["w1"].is_stuck = "second", True
    world.configure("second")
    world.run_until(is_over(world), seconds=700)

    assert rollout(world).problem.startswith("w1 was not done with it after 605")
    world.run(5)
    assert world.workers["w0"].setup.fingerprint == FIRST


def test_a_worker_that_cannot_run_what_all_others_run_gets_no_streams_and_holds_nothing_up() -> None:
    world = world_of(2)
    world.add_worker("w9", capacity=1_000)
    world.workers["w9"].dislikes = "first"
    world.run(30)
    assert world.controller is not None
    assert world.controller.status.refused_workers == {"w9": "it dislikes first"}
    assert not world.workers["w9"].running
    assert texts(world, ClusterEventKind.WORKER_REFUSED) == ["w9 cannot run the configuration: it dislikes first"]

    world.configure("second")
    world.run_until(is_over(world), seconds=60)
    world.run(30)

    assert rollout(world) == RolloutStatus(SECOND, SECOND)
    assert world.workers["w9"].setup.fingerprint == SECOND
    assert world.workers["w9"].running


def test_where_no_worker_could_run_the_first_one_the_next_goes_to_all() -> None:
    world = World(seed=1)
    world.begin({"a": StreamSpec(10)})
    for name in ("w0", "w1"):
        world.add_worker(name, capacity=100)
        world.workers[name].dislikes = "first"
    world.run(10)
    assert world.controller is not None
    assert world.controller.status.waiting == {"a": "no worker runs the configuration yet"}
    world.configure("second")
    world.run(10)

    assert rollout(world) == RolloutStatus(SECOND, SECOND)
    assert world.blind == 0


def test_a_worker_that_could_not_run_its_first_configuration_tries_again_on_request() -> None:
    world = world_of(1)
    world.add_worker("w9", capacity=1_000)
    world.workers["w9"].dislikes = "first"
    world.run(10)
    world.workers["w9"].dislikes = ""
    world.run(10)
    assert world.ran["w9"] == ["(first)"]
    assert world.controller is not None
    world.controller.retry()
    world.run(5)

    assert world.workers["w9"].setup.fingerprint == FIRST
    assert not world.controller.status.refused_workers


def test_a_worker_that_cannot_go_back_gives_its_streams_away() -> None:
    world = world_of(3, options=ClusterOptions(moving=1.0))
    world.configure("second")
    trying = second_worker(world)
    (proved,) = rollout(world).proved
    world.workers[trying].dislikes = "second"
    world.workers[proved].dislikes = "first"
    world.run_until(is_over(world), seconds=30)
    world.run(20)

    assert world.controller is not None
    assert world.controller.status.refused_workers == {proved: "it dislikes first"}
    assert not world.workers[proved].running
    assert world.blind == 0
    world.check_reports()
