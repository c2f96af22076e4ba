"""Histories that chance writes: everything fails, at any time, in small clusters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from benchmarks.cluster.world import World
from sightline.cluster.model import ClusterOptions, StreamSpec
from sightline.errors import ConfigurationError

_RACKS = 3
_SITES = ("north", "south")


def random_history(seed: int, *, seconds: float = 120.0) -> World:
    """Let a small cluster live through failures, heal everything, and check it. Raises InvariantBroken."""
    world = World(seed=seed, options=ClusterOptions(moving=0.1))
    chance = world.random
    workers = {f"w{number}": number % _RACKS for number in range(chance.randint(4, 9))}
    world.begin({f"c{number}": _stream(world, number) for number in range(chance.randint(20, 80))})
    for number, name in enumerate(workers):
        world.add_worker(name, capacity=chance.uniform(600, 900), labels={"site": _SITES[number % 2]})
    drained: set[str] = set()

    def drain() -> None:
        name = chance.choice(list(workers))
        if world.controller is not None and name in {one.name for one in world.controller.status.workers}:
            drained.symmetric_difference_update({name})
            world.controller.drain(name, is_draining=name in drained)

    def fail_rack() -> None:
        rack = chance.randrange(_RACKS)
        for name, own in workers.items():
            if own == rack:
                chance.choice((world.kill, world.cut))(name)

    def want() -> None:
        streams = dict(world.streams)
        number = chance.randrange(90)
        if chance.random() < 0.5:
            streams.pop(f"c{number}", None)
        else:
            streams[f"c{number}"] = _stream(world, number)
        world.want(streams)

    def be_late() -> None:
        world.workers[chance.choice(list(workers))].late_share = chance.choice((0.0, 0.3, 0.9))

    def any_worker(action: Callable[[str], None]) -> Callable[[], None]:
        return lambda: action(chance.choice(list(workers)))

    actions: list[Callable[[], None]] = [
        any_worker(world.kill),
        any_worker(lambda name: world.kill(name, is_noticed=True)),
        any_worker(world.boot),
        any_worker(world.boot),
        any_worker(world.cut),
        any_worker(lambda name: world.cut(name, is_cut=False)),
        any_worker(lambda name: world.cut(name, is_cut=False)),
        drain,
        fail_rack,
        want,
        want,
        be_late,
        *_changes(world),
        world.kill_controller,
        world.start_controller,
        world.start_controller,
    ]
    while world.seconds < seconds:
        world.run(chance.expovariate(1.0))
        chance.choice(actions)()
    _heal(world, drained)
    world.run_until(lambda: world.blind == 0, seconds=90)
    world.run_until(lambda: _is_settled(world), seconds=300)
    world.run(60)
    world.check_reports()
    return world


def _changes(world: World) -> list[Callable[[], None]]:
    """Change the configuration, or which worker refuses which one."""
    chance = world.random

    def configure() -> None:
        world.configure(chance.choice(("first", "second", "third")), **chance.choice(({}, {}, {"device": "cuda"})))

    def dislike() -> None:
        one = world.workers[chance.choice(list(world.workers))]
        one.dislikes, one.dies = chance.choice(("", "first", "second", "third")), chance.random() < 0.3

    def retry() -> None:
        if world.controller is not None:
            with suppress(ConfigurationError):  # nothing to try again
                world.controller.retry()

    return [configure, configure, dislike, retry]


def _is_settled(world: World) -> bool:
    """Whether all workers run the configuration that was wanted last."""
    return {one.setup.fingerprint for one in world.workers.values()} == {world.configuration.fingerprint}


def _stream(world: World, number: int) -> StreamSpec:
    site = {"site": _SITES[number % 2]} if number % 3 == 0 else {}
    load = world.random.choice((5.0, 10.0, 15.0, 25.0))
    return StreamSpec(load=load, requires=site, group=f"g{number % 7}", source=f"rtsp://{world.random.randrange(99)}")


def _heal(world: World, drained: set[str]) -> None:
    world.start_controller()
    for name, worker in world.workers.items():
        world.boot(name)
        world.cut(name, is_cut=False)
        worker.late_share, worker.dislikes = 0.0, ""
    world.run(10)
    world.configure("last")
    assert world.controller is not None
    for name in drained:
        world.controller.drain(name, is_draining=False)
