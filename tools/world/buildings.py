"""Sky, house fronts and the entrance building, warped into the image from flat fronts."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from tools.world.arrays import Colour, Floats, Image
from tools.world.camera import NEAR_METRES, Camera
from tools.world.light import Light

PIXELS_PER_METRE = 24

LIT_GLASS: Colour = (250.0, 206.0, 138.0)
GLOWING_RED = 245.0
"""Only lit glass is that red; it keeps its colour by night."""

WALLS: tuple[Colour, ...] = (
    (168, 120, 96),
    (196, 186, 168),
    (150, 146, 142),
    (204, 176, 132),
    (126, 92, 80),
    (176, 188, 192),
    (214, 208, 198),
)


@dataclass(frozen=True, slots=True)
class Building:
    """A box-shaped house: where it stands (metres), how high, its wall colour and its seed."""

    x0: float
    x1: float
    y0: float
    y1: float
    height: float
    wall: Colour
    seed: int


@dataclass(frozen=True, slots=True)
class Entrance:
    """The building of an entrance scene: a front at `y`, a doorway around `door_x`, metres."""

    y: float
    door_x: float
    door_width: float
    door_height: float
    width: float
    height: float
    wall: Colour
    name: str
    seed: int


def sky(camera: Camera, *, light: Light, oversampling: int) -> Image:
    """The sky over the whole image, a gradient towards the horizon."""
    width, height = (side * oversampling for side in camera.size_wh)
    horizon = float(camera.project(camera.position[None] + np.array([[0.0, 1e5, 0.0]]))[0, 1]) * oversampling
    span = max(horizon, 1.0)
    mix = np.clip(np.arange(height, dtype=np.float32) / span, 0, 1)[:, None] ** 0.8
    top, low = np.array(light.sky_top, np.float32), np.array(light.sky_low, np.float32)
    column = top + (low - top) * mix
    return np.repeat(column[:, None, :], width, axis=1)


def house_front(*, width: float, height: float, wall: Colour, seed: int, lamps: float) -> Image:
    """A front seen straight on: rows of windows, shop windows below; RGB, unlit except for lit windows."""
    rng = np.random.default_rng(seed)
    columns, rows = max(int(width * PIXELS_PER_METRE), 8), max(int(height * PIXELS_PER_METRE), 8)
    front = np.empty((rows, columns, 3), np.float32)
    front[:] = np.array(wall, np.float32)
    _bricks(front, rng)
    storey, bay = 3.2, rng.uniform(2.4, 3.4)
    frame = tuple(float(c) for c in np.array(wall) * 0.7 + 60)
    for level in range(1, int(height / storey)):
        for place in np.arange(0.6, width - 1.6, bay):
            sill = height - level * storey - 2.0
            lit = rng.uniform() < 0.45 * lamps
            glass: Colour = LIT_GLASS if lit else (70 + rng.uniform(-14, 30), 84, 98)
            _rectangle(front, place - 0.1, sill - 0.12, place + 1.4, sill + 1.62, frame)
            _rectangle(front, place, sill, place + 1.3, sill + 1.5, glass)
            _rectangle(front, place + 0.6, sill, place + 0.68, sill + 1.5, frame)
    _shops(front, rng, width=width, height=height, lamps=lamps)
    _rectangle(front, 0, 0, width, 0.35, tuple(float(c * 0.8) for c in wall))
    return front


def _bricks(front: Image, rng: np.random.Generator) -> None:
    courses = (np.arange(front.shape[0]) % 6 == 0).astype(np.float32)
    front *= (1 - 0.06 * courses)[:, None, None]
    front *= 1 + 0.03 * rng.normal(size=(*front.shape[:2], 1)).astype(np.float32)


def _shops(front: Image, rng: np.random.Generator, *, width: float, height: float, lamps: float) -> None:
    place = 0.4
    while place < width - 2.0:
        wide = min(rng.uniform(2.2, 4.5), width - place - 0.4)
        glass: Colour = LIT_GLASS if rng.uniform() < 0.7 * lamps else (62, 72, 80)
        _rectangle(front, place, height - 2.7, place + wide, height - 0.3, (54, 50, 48))
        _rectangle(front, place + 0.12, height - 2.55, place + wide - 0.12, height - 0.45, glass)
        if rng.uniform() < 0.6:
            hue = np.array([(150, 44, 40), (40, 84, 60), (44, 62, 110), (190, 150, 60)][rng.integers(4)])
            _rectangle(
                front, place - 0.05, height - 3.1, place + wide + 0.05, height - 2.65, tuple(float(c) for c in hue)
            )
        place += wide + rng.uniform(0.2, 0.9)


def _rectangle(front: Image, x0: float, y0: float, x1: float, y1: float, colour: tuple[float, ...]) -> None:
    scale = PIXELS_PER_METRE
    front[max(0, int(y0 * scale)) : int(y1 * scale), max(0, int(x0 * scale)) : int(x1 * scale)] = colour[:3]


def paint_houses(houses: tuple[Building, ...], *, canvas: Image, camera: Camera, light: Light) -> None:
    """Draw the houses into `canvas` (twice the size of the image), the farthest first."""
    order = sorted(houses, key=lambda house: -camera.depth(np.array([(house.x0 + house.x1) / 2, house.y0, 0])))
    for house in order:
        faces = [((house.x0, house.y0), (house.x1, house.y0), np.array([0.0, -1.0, 0.0]))]
        if camera.position[0] < house.x0:
            faces.append(((house.x0, house.y1), (house.x0, house.y0), np.array([-1.0, 0.0, 0.0])))
        if camera.position[0] > house.x1:
            faces.append(((house.x1, house.y0), (house.x1, house.y1), np.array([1.0, 0.0, 0.0])))
        for index, (start, stop, normal) in enumerate(faces):
            width = float(np.hypot(stop[0] - start[0], stop[1] - start[1]))
            front = house_front(
                width=width, height=house.height, wall=house.wall, seed=house.seed + index, lamps=light.lamps
            )
            shade = light.on_surface(normal).astype(np.float32)
            glowing = (front[..., 0] > GLOWING_RED) & (light.lamps > 0)
            lit = np.where(glowing[..., None], front, front * shade)
            paste_front(canvas, lit, start=start, stop=stop, height=house.height, camera=camera)


def paste_front(
    canvas: Image, front: Image, *, start: tuple[float, float], stop: tuple[float, float], height: float, camera: Camera
) -> None:
    """Warp an upright front between two ground points into `canvas`; skipped when it reaches the camera."""
    corners = np.array([[*start, height], [*stop, height], [*stop, 0.0], [*start, 0.0]])
    warped = warp_front(front, corners=corners, camera=camera, oversampling=2)
    if warped is None:
        return
    rgb, cover = warped
    canvas += (rgb - canvas) * cover[..., None]


def warp_front(front: Image, *, corners: Floats, camera: Camera, oversampling: int) -> tuple[Image, Image] | None:
    """The front and its coverage (0 to 1) as the camera sees them, or None when it reaches behind the camera."""
    if (camera.to_camera(corners)[:, 2] < NEAR_METRES).any():
        return None
    rows, columns = front.shape[:2]
    target = (camera.project(corners) * oversampling).astype(np.float32)
    source = np.array([[0, 0], [columns, 0], [columns, rows], [0, rows]], np.float32)
    size = (camera.size_wh[0] * oversampling, camera.size_wh[1] * oversampling)
    transform = cv2.getPerspectiveTransform(source, target)
    shrink = columns / max(float(np.abs(target[1] - target[0]).max()), 1.0)
    soft = cv2.GaussianBlur(front, (0, 0), min(shrink / 2.5, 6.0)) if shrink > 1.5 else front
    rgb: Image = cv2.warpPerspective(soft, transform, size, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    cover = np.zeros((size[1], size[0]), np.uint8)
    cv2.fillPoly(cover, [np.round(target * 16).astype(np.int32)], 255, cv2.LINE_AA, 4)
    share: Image = (cover / 255).astype(np.float32)
    # Far outside the front the perspective divides by nothing.
    rgb[cover == 0] = 0
    return rgb, share


def entrance_front(entrance: Entrance, *, light: Light) -> tuple[Image, Image]:
    """The front of an entrance building and its coverage: 1 on the wall, 0 in the open doorway."""
    rng = np.random.default_rng(entrance.seed)
    scale = PIXELS_PER_METRE
    wide, high = entrance.width, entrance.height
    front = np.empty((int(high * scale), int(wide * scale), 3), np.float32)
    front[:] = np.array(entrance.wall, np.float32)
    _panels(front, rng)
    middle = wide / 2
    door = (middle - entrance.door_width / 2, middle + entrance.door_width / 2)
    for place in [*np.arange(door[0] - 4.2, 1.0, -3.9), *np.arange(door[1] + 0.9, wide - 3.5, 3.9)]:
        lit = rng.uniform() < 0.75 * light.lamps
        glass: Colour = LIT_GLASS if lit else (74, 94, 108)
        _rectangle(front, place - 0.1, high - 3.1, place + 3.4, high - 0.35, (70, 72, 76))
        _rectangle(front, place, high - 3.0, place + 3.3, high - 0.45, glass)
        for mullion in (1.08, 2.18):
            _rectangle(front, place + mullion, high - 3.0, place + mullion + 0.07, high - 0.45, (70, 72, 76))
        _rectangle(front, place + 0.2, high - 2.8, place + 0.5, high - 0.7, tuple(min(255.0, c * 1.12) for c in glass))
    _rectangle(front, door[0] - 0.18, high - entrance.door_height - 0.2, door[1] + 0.18, high, (58, 60, 64))
    sign_y = high - entrance.door_height - 1.35
    _rectangle(front, door[0] - 1.0, sign_y, door[1] + 1.0, sign_y + 0.95, (34, 58, 92))
    text_scale = 0.8
    text_width = cv2.getTextSize(entrance.name, cv2.FONT_HERSHEY_DUPLEX, text_scale, 2)[0][0]
    at = (int(middle * scale - text_width / 2), int((sign_y + 0.68) * scale))
    letters = np.zeros(front.shape[:2], np.uint8)
    cv2.putText(letters, entrance.name, at, cv2.FONT_HERSHEY_DUPLEX, text_scale, 255, 2, cv2.LINE_AA)
    front += (np.array((236, 236, 230), np.float32) - front) * (letters[..., None].astype(np.float32) / 255)
    shade = light.on_surface(np.array([0.0, -1.0, 0.0])).astype(np.float32)
    glowing = (front[..., 0] > GLOWING_RED) & (light.lamps > 0)
    cover = np.ones(front.shape[:2], np.float32)
    top, left, right = (int(value * scale) for value in (high - entrance.door_height, *door))
    cover[top:, left:right] = 0.0
    return np.where(glowing[..., None], front, front * shade).astype(np.float32), cover


def _panels(front: Image, rng: np.random.Generator) -> None:
    scale = PIXELS_PER_METRE
    for row in range(0, front.shape[0], int(1.1 * scale)):
        front[row : row + 1] *= 0.82
        front[row : row + int(1.1 * scale)] *= 1 + rng.uniform(-0.02, 0.02)
    for column in range(0, front.shape[1], int(2.2 * scale)):
        front[:, column : column + 1] *= 0.85
    front *= 1 + 0.02 * rng.normal(size=(*front.shape[:2], 1)).astype(np.float32)


def doorway(entrance: Entrance, *, canvas: Image, camera: Camera, light: Light) -> None:
    """What is seen through the open door: a hall with floor, side walls and a back wall."""
    warm = np.array([1.0, 0.93, 0.8], np.float32) * (0.62 + 0.25 * light.lamps)
    x0, x1 = entrance.door_x - entrance.door_width / 2 - 1.5, entrance.door_x + entrance.door_width / 2 + 1.5
    y0, y1, top = entrance.y, entrance.y + 5.0, entrance.door_height + 0.1
    walls: list[tuple[list[tuple[float, float, float]], Colour]] = [
        ([(x0, y0, 0), (x1, y0, 0), (x1, y1, 0), (x0, y1, 0)], (134, 124, 112)),
        ([(x0, y1, 0), (x1, y1, 0), (x1, y1, top), (x0, y1, top)], (150, 142, 128)),
        ([(x0, y0, 0), (x0, y1, 0), (x0, y1, top), (x0, y0, top)], (112, 104, 94)),
        ([(x1, y0, 0), (x1, y1, 0), (x1, y1, top), (x1, y0, top)], (118, 110, 98)),
        ([(x0, y1, 1.0), (x1, y1, 1.0), (x1, y1, 1.15), (x0, y1, 1.15)], (84, 66, 52)),
    ]
    for points, colour in walls:
        xy = camera.polygon(np.array(points, dtype=np.float64))
        if len(xy) >= 3:
            red, green, blue = np.array(colour, np.float32) * warm
            cv2.fillPoly(
                canvas, [np.round(xy * 2 * 16).astype(np.int32)], (float(red), float(green), float(blue)), cv2.LINE_8, 4
            )
