"""Vehicles as meshes: cars, vans, trucks and buses in eight colours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tools.world.arrays import Colour
from tools.world.mesh import Mesh, Part, face, frustum, inset, prism
from tools.world.plates import with_plates
from tools.world.vehicle_parts import GLASS, ends, glazed, patch, side_panes, underbody, wheels

CABIN_GLOW: Colour = (150, 138, 100)

PAINTS: dict[str, Colour] = {
    "white": (226, 227, 224),
    "black": (36, 37, 41),
    "grey": (128, 131, 135),
    "red": (176, 28, 30),
    "blue": (34, 70, 158),
    "green": (34, 110, 62),
    "yellow": (226, 178, 28),
}
KINDS = ("car", "van", "truck", "bus")


@dataclass(frozen=True, slots=True)
class Vehicle:
    """A vehicle to build: what it is, the name of its paint, the seed of its details, and what its plates say."""

    kind: str
    paint: str
    seed: int
    plate: str = ""


def build(vehicle: Vehicle) -> Mesh:
    """The mesh of a vehicle; the same vehicle always gives the same mesh."""
    rng = np.random.default_rng(vehicle.seed)
    base = np.array(PAINTS[vehicle.paint]) * rng.uniform(0.88, 1.08) + rng.normal(0, 5, 3)
    red, green, blue = np.clip(base, 8, 245)
    colour = (float(red), float(green), float(blue))
    makers = {"car": _car, "van": _van, "truck": _truck, "bus": _bus}
    mesh = makers[vehicle.kind](rng, colour)
    return with_plates(mesh, vehicle.plate) if vehicle.plate else mesh


def _car(rng: np.random.Generator, colour: Colour) -> Mesh:
    length, width = rng.uniform(3.9, 4.8), rng.uniform(1.74, 1.9)
    height, estate = rng.uniform(1.42, 1.62), rng.uniform(0, 1)
    half, x = width / 2, length / 2
    waist = height * 0.61
    body = prism(
        [(-x, 0.26), (x, 0.26), (x, 0.58), (x - 0.12, 0.7), (0.23 * length, waist), (-0.42 * length, waist), (-x, 0.8)],
        half_width=half,
        colour=colour,
        edge=0.78,
    )
    tail = (-0.47 if estate > 0.5 else -0.40) * length
    cabin = frustum(
        bottom=(tail, 0.24 * length),
        top=(tail + (0.3 if estate > 0.5 else 0.75), 0.03 * length),
        z=(waist - 0.02, height),
        half=(half * 0.95, half * 0.76),
        colour=colour,
    )
    panes = glazed(cabin, sides=(0.08, 0.5, 0.9), windscreen=True, up=(0.14, 0.86))
    trim = [
        face(
            (-x * 0.98, -half - 0.01, 0.26),
            (x * 0.98, -half - 0.01, 0.26),
            (x * 0.98, -half - 0.01, 0.36),
            (-x * 0.98, -half - 0.01, 0.36),
            colour=(34, 34, 36),
        ),
        face(
            (x * 0.98, half + 0.01, 0.26),
            (-x * 0.98, half + 0.01, 0.26),
            (-x * 0.98, half + 0.01, 0.36),
            (x * 0.98, half + 0.01, 0.36),
            colour=(34, 34, 36),
        ),
    ]
    lamps = ends(length, width, head_z=0.62, tail_z=0.66)
    parts = (
        underbody(length, half, top=0.4),
        Part((*body, *trim, *lamps)),
        wheels((0.31 * length, -0.30 * length), half_width=half, radius=0.32),
        Part((*cabin, *panes), layer=2),
    )
    return Mesh(parts, (length, width))


def _van(rng: np.random.Generator, colour: Colour) -> Mesh:
    length, width, height = rng.uniform(4.9, 5.8), rng.uniform(1.95, 2.1), rng.uniform(2.15, 2.6)
    half, x = width / 2, length / 2
    nose, brow = 1.15, x - rng.uniform(1.1, 1.3)
    profile = [
        (-x, 0.28),
        (x, 0.28),
        (x, 0.86),
        (x - 0.35, nose),
        (brow, height - 0.06),
        (brow - 0.3, height),
        (-x + 0.08, height),
        (-x, height - 0.2),
    ]
    body = prism(profile, half_width=half, colour=colour, edge=0.8)
    screen = face(
        (x - 0.34, -half, nose),
        (x - 0.34, half, nose),
        (brow + 0.01, half, height - 0.06),
        (brow + 0.01, -half, height - 0.06),
        colour=colour,
    )
    decals = [inset(screen, across=(0.06, 0.94), up=(0.1, 0.92), colour=(58, 70, 82))]
    glass_z = (height * 0.56, height - 0.28)
    panes = [(brow - 0.75, brow + 0.12)]
    if rng.uniform() < 0.4:
        panes += [
            (-x + 0.35 + step * (brow - 1.0 + x) / 2.2, -x + 0.2 + (step + 1) * (brow - 1.0 + x) / 2.2)
            for step in (0, 1)
        ]
    for start, stop in panes:
        decals += side_panes(start, stop, half=half, z=glass_z)
    decals += [
        patch(-x - 0.01, side * half * 0.45, height * 0.68, half * 0.34, height * 0.13, GLASS, None) for side in (-1, 1)
    ]
    parts = (
        underbody(length, half, top=0.42),
        Part((*body, *decals, *ends(length, width, head_z=0.78, tail_z=0.95))),
        wheels((0.33 * length, -0.31 * length), half_width=half, radius=0.35),
    )
    return Mesh(parts, (length, width))


def _truck(rng: np.random.Generator, colour: Colour) -> Mesh:
    length, width, height = rng.uniform(6.6, 8.6), rng.uniform(2.3, 2.5), rng.uniform(3.1, 3.6)
    half, x = width / 2, length / 2
    cab_back, roof = x - rng.uniform(1.6, 1.95), rng.uniform(2.5, 2.8)
    cab = frustum(
        bottom=(cab_back, x), top=(cab_back, x - 0.28), z=(0.5, roof), half=(half * 0.96, half * 0.92), colour=colour
    )
    screen = inset(cab[1], across=(0.06, 0.94), up=(0.5, 0.9), colour=(58, 70, 82))
    doors = [
        inset(cab[index], across=(0.25, 0.9) if index == 0 else (0.1, 0.75), up=(0.52, 0.86), colour=GLASS)
        for index in (0, 2)
    ]
    if rng.uniform() < 0.75:
        cargo = frustum(
            bottom=(-x, cab_back - 0.25),
            top=(-x, cab_back - 0.25),
            z=(0.95, height),
            half=(half, half),
            colour=colour,
        )
        cargo += [inset(cargo[index], across=(0.0, 1.0), up=(0.0, 0.05), colour=(60, 60, 62)) for index in range(4)]
        cargo.append(inset(cargo[3], across=(0.49, 0.51), up=(0.03, 0.97), colour=(80, 80, 82)))
    else:
        cargo = frustum(
            bottom=(-x, cab_back - 0.25),
            top=(-x, cab_back - 0.25),
            z=(0.95, 1.65),
            half=(half, half),
            colour=colour,
        )
        cargo.append(inset(cargo[4], across=(0.03, 0.97), up=(0.05, 0.95), colour=(92, 82, 68)))
    bed = prism([(-x, 0.6), (x * 0.95, 0.6), (x * 0.95, 0.95), (-x, 0.95)], half_width=half * 0.9, colour=(44, 44, 46))
    parts = (
        underbody(length, half, top=0.6),
        Part(tuple(bed), layer=0),
        wheels((x - 0.95, -x + 1.2, -x + 2.3), half_width=half * 0.97, radius=0.48),
        Part((*cab, screen, *doors, *ends(length, width, head_z=0.85, tail_z=0.8)[:4]), layer=2),
        Part((*cargo, *ends(length, width, head_z=0.85, tail_z=1.12)[4:]), layer=2),
    )
    return Mesh(parts, (length, width))


def _bus(rng: np.random.Generator, colour: Colour) -> Mesh:
    length, width, height = rng.uniform(10.2, 12.0), 2.52, rng.uniform(2.95, 3.2)
    half, x = width / 2, length / 2
    body = prism(
        [
            (-x, 0.3),
            (x, 0.3),
            (x, 1.2),
            (x - 0.12, height - 0.1),
            (x - 0.3, height),
            (-x + 0.1, height),
            (-x, height - 0.15),
        ],
        half_width=half,
        colour=colour,
        edge=0.85,
    )
    screen = face(
        (x + 0.005, -half, 1.2),
        (x + 0.005, half, 1.2),
        (x - 0.11, half, height - 0.1),
        (x - 0.11, -half, height - 0.1),
        colour=colour,
    )
    decals = [
        inset(screen, across=(0.04, 0.96), up=(0.02, 0.76), colour=(54, 66, 78)),
        inset(screen, across=(0.2, 0.8), up=(0.82, 0.97), colour=(30, 26, 20), glow=(200, 120, 20)),
        patch(-x - 0.01, 0, height * 0.68, half * 0.8, height * 0.14, GLASS, CABIN_GLOW),
    ]
    count = 7
    for index in range(count):
        start = -x + 0.35 + index * (length - 0.7) / count
        decals += side_panes(
            start, start + (length - 0.7) / count - 0.12, half=half, z=(1.35, height - 0.5), glow=CABIN_GLOW
        )
    for place in (x - 1.5, -0.6):
        off = -half - 0.02
        decals.append(
            face(
                (place, off, 0.45),
                (place + 1.1, off, 0.45),
                (place + 1.1, off, height - 0.45),
                (place, off, height - 0.45),
                colour=(38, 46, 54),
                glow=CABIN_GLOW,
            )
        )
    vents = frustum(
        bottom=(-0.28 * length, -0.02 * length),
        top=(-0.27 * length, -0.03 * length),
        z=(height, height + 0.18),
        half=(half * 0.6, half * 0.56),
        colour=(176, 178, 180),
    )
    parts = (
        underbody(length, half, top=0.45),
        Part((*body, *decals, *ends(length, width, head_z=0.75, tail_z=1.0))),
        wheels((x - 2.4, -x + 2.9), half_width=half, radius=0.48),
        Part(tuple(vents), layer=2),
    )
    return Mesh(parts, (length, width))
