"""Street scenes: a road under a raised camera, its traffic, its pavements and the houses along it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tools.world.arrays import Floats
from tools.world.buildings import WALLS, House
from tools.world.camera import Camera
from tools.world.ground import Road
from tools.world.light import random_light
from tools.world.motion import Driver, Signal, follow
from tools.world.people import CLOTHES, random_person
from tools.world.rules import Line, Zone
from tools.world.scene import CALM, MARGIN_PX, Actor, Cyclist, Effects, Scene
from tools.world.scenery import Thing
from tools.world.vehicles import PAINTS, Vehicle, build

NEAR_METRES = -18.0
WARM_UP_SECONDS = 22.0


@dataclass(frozen=True, slots=True)
class StreetPlan:
    """What can be asked of a street; the seed decides the rest."""

    seed: int
    size_wh: tuple[int, int] = (640, 360)
    fps: int = 25
    frames: int = 500
    light: str = "day"
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
    effects: Effects = CALM
    lines: tuple[Line, ...] = ()
    zones: tuple[Zone, ...] = ()


def build_street(plan: StreetPlan) -> Scene:
    """The scene of a plan; the same plan always gives the same scene."""
    rng = np.random.default_rng([plan.seed, 1])
    road = Road(
        lanes_each_way=plan.lanes_each_way,
        lane_width=3.4,
        pavement_width=rng.uniform(3.0, 4.0),
        divided=bool(rng.uniform() < 0.4),
        zebra_y=plan.zebra_y,
        surface=_tinted(rng, (88, 88, 91)),
        verge=_tinted(rng, (104, 122, 74)),
        seed=int(rng.integers(1 << 30)),
    )
    actors = [*_traffic(plan, road), *_walkers(plan, road), *_cyclists(plan, road), *_parked(plan, road)]
    return Scene(
        seed=plan.seed,
        size_wh=plan.size_wh,
        fps=plan.fps,
        frames=plan.frames,
        camera=street_camera(plan),
        light=random_light(rng, name=plan.light),
        ground=road,
        houses=_houses(rng, road, far_metres=plan.far_metres),
        entrance=None,
        things=_things(rng, road),
        actors=tuple(replace(actor, track_id=number) for number, actor in enumerate(actors, start=1)),
        effects=plan.effects,
        lines=plan.lines,
        zones=plan.zones,
    )


def street_camera(plan: StreetPlan) -> Camera:
    """The camera of a plan, with the margin around its picture."""
    width, height = plan.size_wh[0] + 2 * MARGIN_PX, plan.size_wh[1] + 2 * MARGIN_PX
    half_angle = np.radians(plan.field_of_view_degrees) / 2
    wider = 2 * np.degrees(np.arctan(np.tan(half_angle) * width / plan.size_wh[0]))
    return Camera.looking_at(
        (*plan.target, 0.0),
        position=(plan.camera_x, 0.0, plan.camera_height),
        field_of_view_degrees=float(wider),
        size_wh=(width, height),
    )


def _tinted(rng: np.random.Generator, colour: tuple[int, int, int]) -> tuple[float, float, float]:
    red, green, blue = np.array(colour) * rng.uniform(0.86, 1.14) + rng.normal(0, 2.5, 3)
    return (float(red), float(green), float(blue))


def random_vehicle(rng: np.random.Generator) -> Vehicle:
    """A vehicle of any kind and colour; cars are the most common."""
    kind = str(rng.choice(["car", "van", "truck", "bus"], p=[0.52, 0.19, 0.16, 0.13]))
    paint = str(rng.choice(list(PAINTS), p=[0.22, 0.14, 0.17, 0.15, 0.15, 0.08, 0.09]))
    return Vehicle(kind, paint, int(rng.integers(1 << 30)))


def _traffic(plan: StreetPlan, road: Road) -> list[Actor]:
    actors: list[Actor] = []
    for away in (False, True):
        for lane in range(road.lanes_each_way):
            rng = np.random.default_rng([plan.seed, 2, int(away), lane])
            actors += _lane(plan, road, rng=rng, lane=lane, away=away)
    return actors


def _lane(plan: StreetPlan, road: Road, *, rng: np.random.Generator, lane: int, away: bool) -> list[Actor]:
    times = np.arange(round(-WARM_UP_SECONDS * plan.fps), plan.frames) / plan.fps
    vehicles, drivers, now = [], [], times[0]
    last_length = 0.0
    while True:
        vehicle = random_vehicle(rng)
        length = build(vehicle).size[0]
        now += (last_length + length) / 2 / 7.0 + 0.7 + rng.exponential(plan.seconds_between)
        if now >= times[-1]:
            break
        slow = {"truck": 0.9, "bus": 0.85}.get(vehicle.kind, 1.0)
        vehicles.append(vehicle)
        drivers.append(Driver(float(now), float(rng.uniform(8.5, 12.5) * slow), length))
        last_length = length
    signal = None
    if plan.signal and not away:
        signal = Signal(place=plan.far_metres - 21.0, period_seconds=18.0, red_seconds=8.0, shift_seconds=3.0)
    places = follow(drivers, lane_length=plan.far_metres - NEAR_METRES, times=times, signal=signal)
    shown = places[:, times >= 0]
    found = [
        _driven(vehicle, row, road=road, lane=lane, away=away, far_metres=plan.far_metres, rng=rng)
        for vehicle, row in zip(vehicles, shown, strict=True)
    ]
    return [actor for actor in found if actor is not None]


def _driven(
    vehicle: Vehicle, row: Floats, *, road: Road, lane: int, away: bool, far_metres: float, rng: np.random.Generator
) -> Actor | None:
    there = np.flatnonzero(~np.isnan(row))
    if not len(there):
        return None
    place = row[there]
    y = NEAR_METRES + place if away else far_metres - place
    x = road.lane_x(lane=lane, away=away) + rng.normal(0, 0.16) + 0.12 * np.sin(place / 19 + rng.uniform(0, 6))
    heading = np.full(len(y), np.pi / 2 if away else -np.pi / 2)
    still = np.zeros(len(y))
    return Actor(0, vehicle.kind, vehicle, int(there[0]), x, y, heading, still, still)


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


def _houses(rng: np.random.Generator, road: Road, *, far_metres: float) -> tuple[House, ...]:
    houses = []
    for side in (-1, 1):
        y = rng.uniform(10, 22)
        front = road.half_width + 0.25 + road.pavement_width + rng.uniform(0.5, 5.0)
        while y < far_metres:
            wide, deep = rng.uniform(9, 20), rng.uniform(9, 14)
            x0, x1 = (front, front + deep) if side > 0 else (-front - deep, -front)
            if rng.uniform() < 0.85:
                wall = WALLS[rng.integers(len(WALLS))]
                houses.append(House(x0, x1, y, y + wide, rng.uniform(6, 15), wall, int(rng.integers(1 << 30))))
            y += wide + rng.choice([0.0, rng.uniform(2, 9)])
    end = House(-60, 60, far_metres + 8, far_metres + 18, 12, WALLS[rng.integers(len(WALLS))], 5)
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
