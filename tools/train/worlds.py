"""Random scenes to learn from and to be measured on. Each use has seeds of its own."""

from __future__ import annotations

import numpy as np

from tools.world.entrance import EntrancePlan, build_entrance
from tools.world.gate import GatePlan, build_gate
from tools.world.scene import Effects, Scene
from tools.world.street import StreetPlan, build_street

FIRST_TRAINING_SEED = 100_000
FIRST_EVALUATION_SEED = 900_000

SIZES = ((640, 360), (640, 360), (640, 360), (960, 540), (640, 480), (512, 384))


def random_scene(seed: int, *, fps: int = 5, frames: int = 80) -> Scene:
    """A scene of any kind, light, size and view."""
    rng = np.random.default_rng([seed, 31])
    light = str(rng.choice(["day", "overcast", "dusk"], p=[0.45, 0.2, 0.35]))
    size = SIZES[rng.integers(len(SIZES))]
    effects = _effects(rng, light=light)
    if rng.uniform() < 0.36:
        return build_entrance(
            _entrance_plan(rng, seed=seed, size=size, fps=fps, frames=frames, light=light, effects=effects)
        )
    return build_street(_street_plan(rng, seed=seed, size=size, fps=fps, frames=frames, light=light, effects=effects))


def random_gate(seed: int, *, fps: int = 4, frames: int = 88) -> Scene:
    """A gate in any light and any view from which plates can be read."""
    rng = np.random.default_rng([seed, 33])
    light = str(rng.choice(["day", "overcast", "dusk"], p=[0.5, 0.3, 0.2]))
    size, field_of_view = ((960, 540), rng.uniform(36, 43))
    if rng.uniform() > 0.7:
        size, field_of_view = (768, 432), rng.uniform(30, 35)
    return build_gate(
        GatePlan(
            seed=seed,
            size_wh=size,
            fps=fps,
            frames=frames,
            light=light,
            camera_x=rng.uniform(-2.5, 2.5),
            camera_height=rng.uniform(3.4, 5.4),
            target=(rng.uniform(-0.6, 0.6), rng.uniform(12.5, 15.0)),
            field_of_view_degrees=field_of_view,
            seconds_between=rng.uniform(0.5, 2.0),
            stop_y=rng.uniform(7.5, 10.0) if rng.uniform() < 0.7 else None,
            effects=_effects(rng, light=light),
        )
    )


def _effects(rng: np.random.Generator, *, light: str) -> Effects:
    return Effects(
        noise=rng.uniform(0.5, 4.5) + (2.5 if light == "dusk" else 0.0) * rng.uniform(),
        shake_px=float(rng.choice([0.0, rng.uniform(0.5, 5.0)])),
        blur_px=float(rng.choice([0.0, rng.uniform(0.4, 0.9)])),
        clouds=rng.uniform(0.0, 0.2),
        leaves=int(rng.integers(0, 6)),
    )


def _street_plan(
    rng: np.random.Generator, *, seed: int, size: tuple[int, int], fps: int, frames: int, light: str, effects: Effects
) -> StreetPlan:
    lanes = int(rng.integers(1, 3))
    reach = lanes * 3.4 + 3
    return StreetPlan(
        seed=seed,
        size_wh=size,
        fps=fps,
        frames=frames,
        light=light,
        lanes_each_way=lanes,
        camera_x=rng.uniform(-reach, reach),
        camera_height=rng.uniform(5.0, 11.0),
        target=(rng.uniform(-3, 3), rng.uniform(12, 26)),
        field_of_view_degrees=rng.uniform(46, 72),
        seconds_between=rng.uniform(0.8, 5.0),
        walkers=int(rng.integers(2, 15)),
        cyclists=int(rng.integers(2, 7)),
        parked=bool(rng.uniform() < 0.3),
        signal=bool(rng.uniform() < 0.35),
        zebra_y=float(rng.uniform(14, 26)) if rng.uniform() < 0.3 else None,
        far_metres=rng.uniform(55, 95),
        effects=effects,
    )


def _entrance_plan(
    rng: np.random.Generator, *, seed: int, size: tuple[int, int], fps: int, frames: int, light: str, effects: Effects
) -> EntrancePlan:
    return EntrancePlan(
        seed=seed,
        size_wh=size,
        fps=fps,
        frames=frames,
        light=light,
        camera_x=rng.uniform(-6, 6),
        camera_height=rng.uniform(3.6, 7.0),
        target=(rng.uniform(-2.5, 2.5), rng.uniform(9, 14)),
        field_of_view_degrees=rng.uniform(48, 72),
        door_y=rng.uniform(14, 22),
        seconds_between_visitors=rng.uniform(0.9, 3.0),
        passers=int(rng.integers(2, 10)),
        waiting=int(rng.integers(0, 4)),
        waiting_at=(float(rng.choice([-1, 1])) * rng.uniform(4.5, 8), rng.uniform(8, 13)),
        effects=effects,
    )
