"""Street scenes: a road under a raised camera, its traffic, its pavements and the houses along it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tools.world.buildings import WALLS, Building
from tools.world.ground import Road
from tools.world.light import random_light
from tools.world.motion import Signal
from tools.world.people import CLOTHES, random_person
from tools.world.plan import ScenePlan
from tools.world.scene import Actor, Cyclist, Scene
from tools.world.scenery import Thing
from tools.world.traffic import Lane, drive, numbered, random_vehicle
from tools.world.vehicles import build


@dataclass(frozen=True, slots=True, kw_only=True)
class StreetPlan(ScenePlan):
    """What can be asked of a street; the seed decides the rest."""

    lanes_each_way: int = 2
    camera_x: float = -6.0
    camera_height: float = 8.0
    target: tuple[float, float] = (0.5, 24.0)
    field_of_view_degrees: float = 58.0
    seconds_between: float = 3.4
    walkers: int = 8
    cyclists: int = 2
    parked: bool = False
    signal: bool = False
    zebra_y: float | None = None
    far_metres: float = 120.0


def build_street(plan: StreetPlan) -> Scene:
    """The scene of a plan; the same plan always gives the same scene."""
    rng = np.random.default_rng([plan.seed, 1])
    road = Road(
        lanes_each_way=plan.lanes_each_way,
        lane_width=3.4,
        pavement_width=rng.uniform(3.0, 4.0),
        divided=bool(rng.uniform() < 0.4),
        zebra_y=plan.zebra_y,
        surface=tinted(rng, (88, 88, 91)),
        verge=tinted(rng, (104, 122, 74)),
        seed=int(rng.integers(1 << 30)),
    )
    actors = [*_traffic(plan, road), *_walkers(plan, road), *_cyclists(plan, road), *_parked(plan, road)]
    return Scene(
        seed=plan.seed,
        size_wh=plan.size_wh,
        fps=plan.fps,
        frames=plan.frames,
        camera=plan.camera(),
        light=random_light(rng, name=plan.light),
        ground=road,
        houses=buildings_along(rng, road, far_metres=plan.far_metres),
        entrance=None,
        things=_things(rng, road),
        actors=numbered(actors),
        effects=plan.effects,
        lines=plan.lines,
        zones=plan.zones,
    )


def tinted(rng: np.random.Generator, colour: tuple[int, int, int]) -> tuple[float, float, float]:
    """A colour a little lighter, darker or otherwise."""
    red, green, blue = np.array(colour) * rng.uniform(0.86, 1.14) + rng.normal(0, 2.5, 3)
    return (float(red), float(green), float(blue))


def _traffic(plan: StreetPlan, road: Road) -> list[Actor]:
    actors: list[Actor] = []
    light = Signal(place=plan.far_metres - 21.0, period_seconds=18.0, red_seconds=8.0, shift_seconds=3.0)
    for away in (False, True):
        for number in range(road.lanes_each_way):
            rng = np.random.default_rng([plan.seed, 2, int(away), number])
            signal = light if plan.signal and not away else None
            lane = Lane(number, away, plan.far_metres, plan.seconds_between, signal=signal)
            actors += drive(lane, road, rng=rng, frames=plan.frames, fps=plan.fps)
    return actors


def _walkers(plan: StreetPlan, road: Road) -> list[Actor]:
    rng = np.random.default_rng([plan.seed, 3])
    seconds = np.arange(plan.frames) / plan.fps
    actors = []
    for _ in range(plan.walkers):
        side, direction = rng.choice([-1, 1]), rng.choice([-1, 1])
        offset = rng.uniform(1.2 if plan.parked else 0.9, road.pavement_width - 0.2)
        speed = rng.uniform(1.05, 1.6)
        y = rng.uniform(2, 45) - direction * speed * seconds[-1] * rng.uniform(0, 0.6) + direction * speed * seconds
        x = side * (road.half_width + 0.25 + offset) + 0.15 * np.sin(y / 5 + rng.uniform(0, 6))
        heading = np.full(len(y), direction * np.pi / 2)
        stride = speed * seconds * 2 * np.pi / 1.45 + rng.uniform(0, 6)
        actors.append(Actor(0, "person", random_person(rng), 0, x, y, heading, stride, np.ones(len(y))))
    return actors


def _cyclists(plan: StreetPlan, road: Road) -> list[Actor]:
    rng = np.random.default_rng([plan.seed, 4])
    seconds = np.arange(plan.frames) / plan.fps
    actors = []
    for number in range(plan.cyclists):
        direction = 1 if number % 2 else -1
        if plan.parked and direction > 0:
            continue
        speed = rng.uniform(3.6, 5.6)
        middle = rng.uniform(12, 26)
        y = middle + direction * speed * (seconds - rng.uniform(0.15, 0.85) * seconds[-1])
        x = np.full(len(y), direction * (road.half_width - 0.45)) + 0.08 * np.sin(seconds * 2.2)
        look = Cyclist(random_person(rng), CLOTHES[rng.integers(len(CLOTHES))])
        heading = np.full(len(y), direction * np.pi / 2)
        actors.append(Actor(0, "bicycle", look, 0, x, y, heading, -seconds * speed / 2.0, np.ones(len(y))))
    return actors


def _parked(plan: StreetPlan, road: Road) -> list[Actor]:
    """Vehicles at the kerb on the right, half on the pavement."""
    rng = np.random.default_rng([plan.seed, 5])
    actors = []
    y = rng.uniform(8, 14)
    still = np.zeros(plan.frames)
    while plan.parked and y < 60:
        vehicle = random_vehicle(rng)
        if vehicle.kind in ("car", "van"):
            length = build(vehicle).size[0]
            place = np.full(plan.frames, y + length / 2)
            x = np.full(plan.frames, road.half_width + 0.55)
            actors.append(Actor(0, vehicle.kind, vehicle, 0, x, place, np.full(plan.frames, np.pi / 2), still, still))
            y += length + rng.uniform(0.8, 6.0)
    return actors


def buildings_along(rng: np.random.Generator, road: Road, *, far_metres: float) -> tuple[Building, ...]:
    """Houses on both sides of a road, and one across its end."""
    houses = []
    for side in (-1, 1):
        y = rng.uniform(10, 22)
        front = road.half_width + 0.25 + road.pavement_width + rng.uniform(0.5, 5.0)
        while y < far_metres:
            wide, deep = rng.uniform(9, 20), rng.uniform(9, 14)
            x0, x1 = (front, front + deep) if side > 0 else (-front - deep, -front)
            if rng.uniform() < 0.85:
                wall = WALLS[rng.integers(len(WALLS))]
                houses.append(Building(x0, x1, y, y + wide, rng.uniform(6, 15), wall, int(rng.integers(1 << 30))))
            y += wide + rng.choice([0.0, rng.uniform(2, 9)])
    end = Building(-60, 60, far_metres + 8, far_metres + 18, 12, WALLS[rng.integers(len(WALLS))], 5)
    return (*houses, end)


def _things(rng: np.random.Generator, road: Road) -> tuple[Thing, ...]:
    kerb = road.half_width + 0.7
    outer = road.half_width + road.pavement_width + 0.1
    things = []
    for side in (-1, 1):
        for y in np.arange(rng.uniform(7, 16), 100, rng.uniform(11, 17)):
            kind = str(rng.choice(["tree", "lamp", "tree", "none"]))
            if kind != "none":
                things.append(
                    Thing(
                        kind,
                        float(side * (outer + 0.3 if kind == "tree" else kerb)),
                        float(y),
                        int(rng.integers(1 << 30)),
                    )
                )
        for _ in range(rng.integers(3, 6)):
            kind = str(rng.choice(["sign", "bin", "bin", "planter", "bench"]))
            things.append(Thing(kind, float(side * outer), float(rng.uniform(6, 55)), int(rng.integers(1 << 30))))
    return tuple(things)
