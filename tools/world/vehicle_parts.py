"""Parts that vehicles share: lamps, wheels, window panes, the dark underneath."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from tools.world.arrays import Colour
from tools.world.mesh import Face, Part, face, inset, prism

GLASS: Colour = (46, 56, 66)
RUBBER: Colour = (24, 24, 26)
HEADLIGHT: Colour = (236, 236, 224)
TAILLIGHT: Colour = (150, 18, 20)
HEAD_GLOW: Colour = (190, 180, 150)
TAIL_GLOW: Colour = (150, 20, 10)


def ends(length: float, width: float, *, head_z: float, tail_z: float) -> list[Face]:
    """Lamps, grille and blank plates on the front and the back."""
    front, back, half = length / 2 + 0.01, -length / 2 - 0.01, width / 2
    return [
        *[patch(front, side * half * 0.74, head_z, 0.20, 0.085, HEADLIGHT, HEAD_GLOW) for side in (-1, 1)],
        patch(front, 0, head_z - 0.04, half * 0.45, 0.09, (28, 29, 31), None),
        replace(patch(front, 0, head_z - 0.24, 0.26, 0.06, (206, 206, 200), None), text=""),
        *[patch(back, side * half * 0.78, tail_z, 0.17, 0.11, TAILLIGHT, TAIL_GLOW) for side in (-1, 1)],
        replace(patch(back, 0, tail_z - 0.16, 0.26, 0.06, (206, 200, 150), None), text=""),
    ]


def patch(x: float, y: float, z: float, half_y: float, half_z: float, colour: Colour, glow: Colour | None) -> Face:
    """An upright rectangle across the vehicle, facing ahead when x is positive, else back."""
    sign = 1 if x > 0 else -1
    corners = [(x, y - sign * half_y, z - half_z), (x, y + sign * half_y, z - half_z)]
    corners += [(x, y + sign * half_y, z + half_z), (x, y - sign * half_y, z + half_z)]
    return face(*corners, colour=colour, glow=glow)


def wheels(axles: tuple[float, ...], *, half_width: float, radius: float) -> Part:
    """Wheels on both sides: arch, tyre and hub, as discs on the flanks."""
    faces = []
    for side in (-1, 1):
        turn = np.linspace(0, 2 * np.pi * side, 18, endpoint=False)
        for axle in axles:
            for grow, colour in ((1.13, (17, 17, 18)), (1.0, RUBBER), (0.56, (138, 140, 144)), (0.2, (66, 67, 70))):
                ring = np.stack(
                    [
                        axle + np.sin(turn) * radius * grow,
                        np.full(18, side * (half_width + 0.015)),
                        radius + np.cos(turn) * radius * grow,
                    ],
                    axis=1,
                )
                ring[:, 2] = np.maximum(ring[:, 2], 0.0)
                faces.append(Face(ring, colour))
    return Part(tuple(faces), layer=1)


def underbody(length: float, half_width: float, *, top: float) -> Part:
    """The dark solid under the body, up to `top`."""
    profile = [(-length * 0.46, 0.10), (length * 0.46, 0.10), (length * 0.47, top), (-length * 0.47, top)]
    return Part(tuple(prism(profile, half_width=half_width * 0.93, colour=(20, 20, 22), edge=1.0)), layer=-1)


def glazed(solid: list[Face], *, sides: tuple[float, ...], windscreen: bool, up: tuple[float, float]) -> list[Face]:
    """Window panes on a frustum (right, front, left, back, roof); `sides` are the pillars' places."""
    panes = []
    for index, mirrored in ((0, False), (2, True)):
        for start, stop in pairwise(sides):
            low, high = (1 - stop, 1 - start) if mirrored else (start, stop)
            panes.append(inset(solid[index], across=(low + 0.015, high - 0.015), up=up, colour=GLASS))
    if windscreen:
        panes.append(inset(solid[1], across=(0.06, 0.94), up=(0.08, 0.92), colour=(58, 70, 82)))
        panes.append(inset(solid[1], across=(0.1, 0.55), up=(0.5, 0.92), colour=(84, 98, 112)))
    panes.append(inset(solid[3], across=(0.1, 0.9), up=(0.2, 0.88), colour=GLASS))
    return panes


def side_panes(
    start: float, stop: float, *, half: float, z: tuple[float, float], glow: Colour | None = None
) -> list[Face]:
    """The same pane on the right and on the left flank."""
    off = half + 0.01
    right = face(
        (start, -off, z[0]), (stop, -off, z[0]), (stop, -off, z[1]), (start, -off, z[1]), colour=GLASS, glow=glow
    )
    left = face((stop, off, z[0]), (start, off, z[0]), (start, off, z[1]), (stop, off, z[1]), colour=GLASS, glow=glow)
    return [right, left]
