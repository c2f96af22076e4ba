"""Entrance scenes: a plaza before a building, people who walk in, out, past, or wait."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tools.world.arrays import Floats
from tools.world.buildings import WALLS, Entrance
from tools.world.ground import Plaza
from tools.world.light import random_light
from tools.world.motion import walk
from tools.world.people import random_person
from tools.world.plan import ScenePlan
from tools.world.scene import Actor, Scene
from tools.world.scenery import Thing
from tools.world.traffic import numbered

NAMES = ("CITY LIBRARY", "STATION", "MUSEUM", "TOWN HALL", "MARKET HALL")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrancePlan(ScenePlan):
    """What can be asked of an entrance; the seed decides the rest."""

    camera_x: float = 2.0
    camera_height: float = 5.0
    target: tuple[float, float] = (0.0, 12.5)
    field_of_view_degrees: float = 62.0
    door_y: float = 17.0
    seconds_between_visitors: float = 2.0
    passers: int = 4
    waiting: int = 2
    waiting_at: tuple[float, float] = (-5.5, 12.5)


def build_entrance(plan: EntrancePlan) -> Scene:
    """The scene of a plan; the same plan always gives the same scene."""
    rng = np.random.default_rng([plan.seed, 11])
    building = Entrance(
        y=plan.door_y,
        door_x=0.0,
        door_width=rng.uniform(3.4, 4.2),
        door_height=2.6,
        width=44.0,
        height=rng.uniform(6.5, 9.0),
        wall=WALLS[rng.integers(len(WALLS))],
        name=NAMES[rng.integers(len(NAMES))],
        seed=int(rng.integers(1 << 30)),
    )
    tone = rng.uniform(0.85, 1.08)
    warm = rng.uniform(-8, 8)
    slab = (178 * tone + warm, 172 * tone, 163 * tone - warm)
    plaza = Plaza(
        slab_metres=float(rng.choice([0.6, 0.8, 1.2])),
        slab=slab,
        joint=(slab[0] * 0.74, slab[1] * 0.74, slab[2] * 0.74),
        band_y=plan.door_y - 0.7,
        seed=int(rng.integers(1 << 30)),
    )
    actors = [*_visitors(plan, building), *_passers(plan), *_waiting(plan, building)]
    return Scene(
        seed=plan.seed,
        size_wh=plan.size_wh,
        fps=plan.fps,
        frames=plan.frames,
        camera=plan.camera(),
        light=random_light(rng, name=plan.light),
        ground=plaza,
        houses=(),
        entrance=building,
        things=_things(rng, plan),
        actors=numbered(actors),
        effects=plan.effects,
        lines=plan.lines,
        zones=plan.zones,
    )


def _visitors(plan: EntrancePlan, building: Entrance) -> list[Actor]:
    """People who go in or come out, one after another through the door, keeping to the right."""
    rng = np.random.default_rng([plan.seed, 12])
    seconds_at_door, actors, end = 0.6, [], plan.frames / plan.fps
    while seconds_at_door < end + 3:
        going_in = bool(rng.uniform() < 0.5)
        side = 1 if going_in else -1
        lane = building.door_x + side * rng.uniform(0.4, building.door_width / 2 - 0.45)
        outside = _outside(rng, plan)
        turn = (lane + rng.normal(0, 0.15), building.y - rng.uniform(3.6, 4.8))
        inner = (lane + rng.normal(0, 0.2), building.y + 0.6)
        hidden = (float(np.sign(lane) * (building.door_width / 2 + 2.2)), building.y + 2.6)
        corners = np.array([outside, turn, inner, hidden])
        speed = rng.uniform(1.1, 1.55)
        before_door = np.hypot(*np.diff(corners[:3], axis=0).T).sum() / speed
        after_door = np.hypot(*(corners[3] - corners[2])) / speed
        path = corners if going_in else corners[::-1]
        start = seconds_at_door - (before_door if going_in else after_door)
        actors.append(_walker(rng, path, start=start, plan=plan, speed=speed))
        seconds_at_door += plan.seconds_between_visitors * rng.uniform(0.75, 1.4)
    return [actor for actor in actors if actor is not None]


def _outside(rng: np.random.Generator, plan: EntrancePlan) -> tuple[float, float]:
    """Where somebody comes from or goes to: left, right, or towards the camera."""
    where = rng.uniform()
    if where < 0.36:
        return (-rng.uniform(15, 17), rng.uniform(0.35, 0.72) * plan.door_y)
    if where < 0.72:
        return (rng.uniform(15, 17), rng.uniform(0.35, 0.72) * plan.door_y)
    return (rng.uniform(-4, 5), 1.0)


def _passers(plan: EntrancePlan) -> list[Actor]:
    """People who cross the plaza without going in."""
    rng = np.random.default_rng([plan.seed, 13])
    actors = []
    for _ in range(plan.passers):
        direction = rng.choice([-1, 1])
        y = rng.uniform(0.4, 0.66) * plan.door_y
        corners = np.array([(-17 * direction, y), (0, y + rng.normal(0, 0.6)), (17 * direction, y + rng.normal(0, 1))])
        start = rng.uniform(-16, plan.frames / plan.fps - 4)
        actors.append(_walker(rng, corners, start=start, plan=plan, speed=rng.uniform(1.15, 1.7)))
    return [actor for actor in actors if actor is not None]


def _waiting(plan: EntrancePlan, building: Entrance) -> list[Actor]:
    """People who come, wait a while at `waiting_at`, and walk off again."""
    rng = np.random.default_rng([plan.seed, 14])
    actors = []
    for number in range(plan.waiting):
        spot = (plan.waiting_at[0] + (number - (plan.waiting - 1) / 2) * 1.5, plan.waiting_at[1] + rng.normal(0, 0.25))
        side = -1 if spot[0] < building.door_x else 1
        corners = np.array([(side * 16.0, spot[1] - 1.5), spot, (side * 16.0, spot[1] - rng.uniform(2.5, 4.0))])
        start = rng.uniform(-4, 3.5) + number * 1.8
        pause = (0.5, rng.uniform(4.5, 8.0))
        actors.append(_walker(rng, corners, start=start, plan=plan, speed=rng.uniform(1.2, 1.5), pause=pause))
    return [actor for actor in actors if actor is not None]


def _walker(
    rng: np.random.Generator,
    corners: Floats,
    *,
    start: float,
    plan: EntrancePlan,
    speed: float,
    pause: tuple[float, float] | None = None,
) -> Actor | None:
    steps = walk(corners, speed=speed, fps=plan.fps, pause=pause)
    first = round(start * plan.fps)
    cut = max(0, -first)
    last = min(len(steps.x), plan.frames - first)
    person = random_person(rng)
    if last - cut < 2:
        return None
    kept = slice(cut, last)
    return Actor(
        0,
        "person",
        person,
        first + cut,
        steps.x[kept],
        steps.y[kept],
        steps.heading[kept],
        steps.stride[kept],
        steps.moving[kept],
    )


def _things(rng: np.random.Generator, plan: EntrancePlan) -> tuple[Thing, ...]:
    near_wall = plan.door_y - 0.9
    things = [Thing("planter", x, near_wall, int(rng.integers(1 << 30))) for x in (-4.2, 4.2)]
    for side in (-1, 1):
        for x in np.arange(rng.uniform(7.5, 9.5), 17, rng.uniform(3.5, 5)):
            kind = str(rng.choice(["bench", "bin", "tree", "planter", "sign"]))
            things.append(Thing(kind, float(side * x), near_wall - rng.uniform(0, 0.6), int(rng.integers(1 << 30))))
    if rng.uniform() < 0.5:
        things.append(Thing("tree", float(rng.choice([-8.5, 9.0])), rng.uniform(5.5, 7.0), int(rng.integers(1 << 30))))
    return tuple(things)
