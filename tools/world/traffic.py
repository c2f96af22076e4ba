"""Traffic: vehicles that follow each other along a lane of a road."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from tools.world.arrays import Floats
from tools.world.ground import Road
from tools.world.motion import Driver, Signal, follow
from tools.world.scene import Actor
from tools.world.vehicles import PAINTS, Vehicle, build

NEAR_METRES = -18.0
WARM_UP_SECONDS = 22.0
USUAL_KINDS = {"car": 0.52, "van": 0.19, "truck": 0.16, "bus": 0.13}


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane from NEAR_METRES to `far_metres` and how it is driven on; `speeds` are in metres a second, from and to."""

    number: int
    away: bool
    far_metres: float
    seconds_between: float
    speeds: tuple[float, float] = (8.5, 12.5)
    signal: Signal | None = None

    @property
    def length(self) -> float:
        """Metres."""
        return self.far_metres - NEAR_METRES


def random_vehicle(rng: np.random.Generator, *, kinds: dict[str, float] = USUAL_KINDS) -> Vehicle:
    """A vehicle of any colour; `kinds` says how common each kind is, cars the most unless told otherwise."""
    kind = str(rng.choice(list(kinds), p=list(kinds.values())))
    paint = str(rng.choice(list(PAINTS), p=[0.22, 0.14, 0.17, 0.15, 0.15, 0.08, 0.09]))
    return Vehicle(kind, paint, int(rng.integers(1 << 30)))


def drive(
    lane: Lane,
    road: Road,
    *,
    rng: np.random.Generator,
    frames: int,
    fps: int,
    choose: Callable[[np.random.Generator], Vehicle] = random_vehicle,
) -> list[Actor]:
    """The vehicles of a lane that are there in one of the frames at least."""
    times = np.arange(round(-WARM_UP_SECONDS * fps), frames) / fps
    vehicles, drivers, now = [], [], times[0]
    last_length = 0.0
    while True:
        vehicle = choose(rng)
        length = build(vehicle).size[0]
        now += (last_length + length) / 2 / 7.0 + 0.7 + rng.exponential(lane.seconds_between)
        if now >= times[-1]:
            break
        slow = {"truck": 0.9, "bus": 0.85}.get(vehicle.kind, 1.0)
        vehicles.append(vehicle)
        drivers.append(Driver(float(now), float(rng.uniform(*lane.speeds) * slow), length))
        last_length = length
    places = follow(drivers, lane_length=lane.length, times=times, signal=lane.signal)
    shown = places[:, times >= 0]
    found = [_driven(vehicle, row, lane=lane, road=road, rng=rng) for vehicle, row in zip(vehicles, shown, strict=True)]
    return [actor for actor in found if actor is not None]


def _driven(vehicle: Vehicle, row: Floats, *, lane: Lane, road: Road, rng: np.random.Generator) -> Actor | None:
    there = np.flatnonzero(~np.isnan(row))
    if not len(there):
        return None
    place = row[there]
    y = NEAR_METRES + place if lane.away else lane.far_metres - place
    middle = road.lane_x(lane=lane.number, away=lane.away)
    x = middle + rng.normal(0, 0.16) + 0.12 * np.sin(place / 19 + rng.uniform(0, 6))
    heading = np.full(len(y), np.pi / 2 if lane.away else -np.pi / 2)
    still = np.zeros(len(y))
    return Actor(0, vehicle.kind, vehicle, int(there[0]), x, y, heading, still, still)


def numbered(actors: list[Actor]) -> tuple[Actor, ...]:
    """The actors with track ids from 1 on."""
    return tuple(replace(actor, track_id=number) for number, actor in enumerate(actors, start=1))
