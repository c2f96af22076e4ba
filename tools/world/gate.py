"""Gate scenes: a camera close to a gateway, where vehicles come near enough that their number plates can be read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tools.world.ground import Road
from tools.world.lettering import random_text
from tools.world.light import random_light
from tools.world.motion import Signal
from tools.world.plan import ScenePlan
from tools.world.scene import Actor, Scene
from tools.world.scenery import Thing
from tools.world.street import buildings_along, tinted
from tools.world.traffic import Lane, drive, numbered, random_vehicle
from tools.world.vehicles import Vehicle

KINDS = {"car": 0.6, "van": 0.2, "truck": 0.12, "bus": 0.08}


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePlan(ScenePlan):
    """What can be asked of a gate; the seed decides the rest. `stop_y` is where vehicles that come wait, metres."""

    camera_x: float = -0.6
    camera_height: float = 4.6
    target: tuple[float, float] = (0.0, 14.0)
    field_of_view_degrees: float = 40.0
    size_wh: tuple[int, int] = (960, 540)
    fps: int = 20
    seconds_between: float = 0.9
    stop_y: float | None = 8.2
    far_metres: float = 48.0


def build_gate(plan: GatePlan) -> Scene:
    """The scene of a plan; the same plan always gives the same scene."""
    rng = np.random.default_rng([plan.seed, 61])
    road = Road(
        lanes_each_way=1,
        lane_width=3.3,
        pavement_width=rng.uniform(1.6, 2.6),
        divided=bool(rng.uniform() < 0.5),
        zebra_y=None,
        surface=tinted(rng, (92, 92, 95)),
        verge=tinted(rng, (104, 122, 74)),
        seed=int(rng.integers(1 << 30)),
    )
    return Scene(
        seed=plan.seed,
        size_wh=plan.size_wh,
        fps=plan.fps,
        frames=plan.frames,
        camera=plan.camera(),
        light=random_light(rng, name=plan.light),
        ground=road,
        houses=buildings_along(rng, road, far_metres=plan.far_metres + 12),
        entrance=None,
        things=_things(rng, road),
        actors=numbered(_traffic(plan, road)),
        effects=plan.effects,
        lines=plan.lines,
        zones=plan.zones,
    )


def _traffic(plan: GatePlan, road: Road) -> list[Actor]:
    """Vehicles that come, stop at the gate and drive on, and others that leave."""
    actors: list[Actor] = []
    for away in (False, True):
        rng = np.random.default_rng([plan.seed, 62, int(away)])
        signal = None
        if plan.stop_y is not None and not away:
            period = rng.uniform(3.6, 5.0)
            signal = Signal(plan.far_metres - plan.stop_y, period, period - 1.6, rng.uniform(0, period))
        lane = Lane(0, away, plan.far_metres, plan.seconds_between, speeds=(3.8, 5.6), signal=signal)
        actors += drive(lane, road, rng=rng, frames=plan.frames, fps=plan.fps, choose=_registered)
    return actors


def _registered(rng: np.random.Generator) -> Vehicle:
    return replace(random_vehicle(rng, kinds=KINDS), plate=random_text(rng))


def _things(rng: np.random.Generator, road: Road) -> tuple[Thing, ...]:
    kerb = road.half_width + 0.7
    things = []
    for side in (-1, 1):
        for y in np.arange(rng.uniform(15, 19), 44, rng.uniform(5, 9)):
            kind = str(rng.choice(["planter", "bin", "sign", "lamp", "tree"]))
            away = kerb + (1.6 if kind == "tree" else 0.0)
            things.append(Thing(kind, float(side * away), float(y), int(rng.integers(1 << 30))))
    return tuple(things)
