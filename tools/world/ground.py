"""The ground of a scene, painted pixel by pixel: road and pavement, or the plaza before an entrance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tools.world.arrays import Colour, Floats, Image
from tools.world.camera import Camera
from tools.world.texture import noise_tile, over_ground, stripe


@dataclass(frozen=True, slots=True)
class Road:
    """A straight road along y, its middle at x = 0, metres; cars keep to the right."""

    lanes_each_way: int
    lane_width: float
    pavement_width: float
    divided: bool
    zebra_y: float | None
    surface: Colour
    verge: Colour
    seed: int

    @property
    def half_width(self) -> float:
        """From the middle of the road to its kerb."""
        return self.lanes_each_way * self.lane_width + 0.4

    def lane_x(self, *, lane: int, away: bool) -> float:
        """The middle of a lane, counted from the middle of the road."""
        offset = (lane + 0.5) * self.lane_width
        return offset if away else -offset


@dataclass(frozen=True, slots=True)
class Plaza:
    """Paved ground before a facade: size of the slabs, their colour and that of the joints."""

    slab_metres: float
    slab: Colour
    joint: Colour
    band_y: float
    seed: int


class _Painter:
    """One image of the ground in the making, twice as large as the image of the camera."""

    def __init__(self, camera: Camera, *, seed: int) -> None:
        self.x, self.y, self.metres_per_pixel = camera.ground_under_pixels(oversampling=2)
        self.metres_per_pixel = self.metres_per_pixel / 2
        self.seed = seed
        self.rgb = np.zeros((*self.x.shape, 3), np.float32)

    def fill(self, colour: Colour, *, amount: Image) -> None:
        self.rgb += (np.array(colour, dtype=np.float32) - self.rgb) * amount[..., None]

    def grain(self, *, cells: int, metres: float, strength: float, where: Image | None = None) -> None:
        tile = noise_tile(seed=self.seed % 97 + cells, cells=cells)
        laid = over_ground(tile, x=self.x, y=self.y, metres=metres, metres_per_pixel=self.metres_per_pixel)
        factor = 1 + strength * (laid if where is None else laid * where)
        self.rgb *= factor[..., None]

    def along(self, x: float, half_width: float) -> Image:
        """A stripe along y."""
        return stripe(self.x - x, half_width=half_width, metres_per_pixel=self.metres_per_pixel)

    def across(self, y: float, half_width: float) -> Image:
        """A stripe along x; pixels are longer in y than wide, so its edges are softened more."""
        longer = np.maximum(np.abs(np.gradient(self.y, axis=0)), 1e-6)
        return stripe(self.y - y, half_width=half_width, metres_per_pixel=np.nan_to_num(longer, nan=1e3, posinf=1e3))

    def dashes(self, *, period: float, painted: float, shift: float) -> Image:
        phase = np.nan_to_num((self.y + shift) % period, nan=0.0)
        return (phase < painted).astype(np.float32)


def paint_street(road: Road, *, camera: Camera) -> Image:
    """Asphalt, markings, kerbs, pavement slabs and verge, unlit, twice the size of the image."""
    with np.errstate(invalid="ignore", over="ignore"):
        return _street(_Painter(camera, seed=road.seed), road)


def _street(painter: _Painter, road: Road) -> Image:
    half = road.half_width
    painter.fill(road.verge, amount=np.ones(painter.x.shape, np.float32))
    painter.grain(cells=64, metres=6.0, strength=0.10)
    painter.grain(cells=8, metres=40.0, strength=0.06)
    outer = half + 0.25 + road.pavement_width
    paved = painter.along(0.0, outer)
    painter.fill((168, 165, 160), amount=paved)
    joints = painter.along(0.0, outer) * _grid(painter.x, painter.y, size=1.0, painter=painter)
    painter.fill((128, 126, 122), amount=joints * 0.7)
    painter.fill((190, 188, 184), amount=painter.along(0.0, half + 0.25))
    asphalt = painter.along(0.0, half)
    painter.fill(road.surface, amount=asphalt)
    painter.grain(cells=128, metres=3.0, strength=0.055)
    painter.grain(cells=32, metres=17.0, strength=0.03)
    painter.grain(cells=4, metres=60.0, strength=0.04)
    _wear(painter, road, asphalt=asphalt)
    _markings(painter, road)
    return painter.rgb


def _grid(x: Floats, y: Floats, *, size: float, painter: _Painter) -> Image:
    soft = np.nan_to_num(painter.metres_per_pixel, nan=1.0)
    near_x = np.abs((x / size + 0.5) % 1 - 0.5) * size
    near_y = np.abs((np.nan_to_num(y, posinf=0) / size + 0.5) % 1 - 0.5) * size
    line = np.clip(1.2 - np.minimum(near_x, near_y) / (0.02 + soft), 0, 1)
    joints: Image = (line / (1 + (soft * 8) ** 2)).astype(np.float32)
    return joints


def _wear(painter: _Painter, road: Road, *, asphalt: Image) -> None:
    """Darker wheel tracks, patches of newer asphalt and a long joint."""
    rng = np.random.default_rng(road.seed)
    for away in (True, False):
        for lane in range(road.lanes_each_way):
            middle = road.lane_x(lane=lane, away=away)
            for side in (-0.8, 0.8):
                soft = np.exp(-(((painter.x - middle - side) / 0.3) ** 2)).astype(np.float32)
                painter.rgb *= (1 - 0.07 * np.nan_to_num(soft) * asphalt)[..., None]
    for _ in range(5):
        x, y = rng.uniform(-road.half_width, road.half_width), rng.uniform(6, 45)
        patch = painter.along(x, rng.uniform(0.4, 1.4)) * painter.across(y, rng.uniform(0.8, 4)) * asphalt
        painter.rgb *= (1 - rng.uniform(0.06, 0.16) * patch)[..., None]


def _markings(painter: _Painter, road: Road) -> None:
    white: Colour = (222, 222, 216)
    worn = 0.86
    if road.divided:
        for x in (-0.16, 0.16):
            painter.fill((214, 176, 70), amount=painter.along(x, 0.06) * worn)
    else:
        painter.fill(white, amount=painter.along(0.0, 0.06) * painter.dashes(period=6.0, painted=3.0, shift=1.0) * worn)
    for away in (True, False):
        for lane in range(1, road.lanes_each_way):
            x = (lane * road.lane_width) * (1 if away else -1)
            painter.fill(
                white, amount=painter.along(x, 0.06) * painter.dashes(period=9.0, painted=3.0, shift=0.0) * worn
            )
        edge = (road.half_width - 0.3) * (1 if away else -1)
        painter.fill(white, amount=painter.along(edge, 0.05) * worn)
    if road.zebra_y is not None:
        bars = (np.abs(np.nan_to_num(painter.x) % 1.0 - 0.5) < 0.25).astype(np.float32)
        painter.fill(
            white, amount=bars * painter.across(road.zebra_y, 1.5) * painter.along(0.0, road.half_width - 0.4) * worn
        )


def paint_plaza(plaza: Plaza, *, camera: Camera) -> Image:
    """Slabs with joints and a darker band before the entrance, unlit, twice the size of the image."""
    with np.errstate(invalid="ignore", over="ignore"):
        painter = _Painter(camera, seed=plaza.seed)
        painter.fill(plaza.slab, amount=np.ones(painter.x.shape, np.float32))
        size = plaza.slab_metres
        rows = np.nan_to_num(np.floor(painter.y / size), posinf=0).astype(np.int64)
        columns = np.nan_to_num(np.floor(painter.x / size)).astype(np.int64)
        tone = ((columns * 7919 + rows * 104729 + plaza.seed) % 13) / 13 - 0.5
        painter.rgb *= (1 + 0.07 * tone.astype(np.float32))[..., None]
        painter.fill(plaza.joint, amount=_grid(painter.x, painter.y, size=size, painter=painter) * 0.8)
        painter.fill((120, 108, 100), amount=painter.across(plaza.band_y, 0.5) * 0.55)
        painter.grain(cells=64, metres=4.0, strength=0.035)
        painter.grain(cells=4, metres=22.0, strength=0.035)
        return painter.rgb
