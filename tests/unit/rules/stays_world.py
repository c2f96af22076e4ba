"""Streets and entrances of the sample world as true tracks; cars that park there, and bags that are left.

Tracks are what a perfect detector sees: boxes in the image of the world's camera, of what nothing nearer covers. What
cars and bags do is a script: who comes, stays and goes, and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count

import numpy as np
import numpy.typing as npt
from tools.world.camera import Camera
from tools.world.entrance import EntrancePlan, build_entrance
from tools.world.ground import Road
from tools.world.motion import walk
from tools.world.scene import Actor
from tools.world.street import StreetPlan, build_street
from tools.world.vehicles import Vehicle, build

from sightline.media import Batch, Frame, Objects, Origin
from sightline.testing import make_frames

Floats = npt.NDArray[np.float64]
LABELS = ("person", "bicycle", "car", "van", "truck", "bus", "suitcase")
FPS = 10
SECONDS = 60
_FRAMES = FPS * SECONDS
_PERSON = 0.6, 0.4, 1.7
_BAG = 0.5, 0.35, 0.65
_CORNERS = np.array([(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (0, 1)])
"""Of a box, in sizes, from the place where it stands."""
_HEIGHTS = {"car": 1.5, "van": 2.1}
_NEAREST = 5.0
"""Metres from the camera, along the road, from which cars that park are there."""
_HIDDEN = 0.7
"""A box of which a nearer one covers this share is not found."""
LEAST_STAND, LONGEST_HALT = 9.0, 2.0
"""Seconds: who parks stands for longer, who halts for a moment for less."""


@dataclass(frozen=True)
class Body:
    """Something on the ground: where it is on each frame (F, 2), NaN while it is not there, and how wide, long and high
    it is in metres. `breaks_after` is the frame from which its track may break off.
    """

    label: str
    places: Floats
    size: tuple[float, float, float]
    breaks_after: int = _FRAMES


@dataclass
class Happened:
    """What happened at one place: how many seconds each car stood there that has left, how many only halted, and
    whether one stands there at the end.
    """

    stays: list[float] = field(default_factory=list)
    halts: int = 0
    stands_now: int = 0


@dataclass(frozen=True)
class World:
    """Bodies that a camera sees."""

    camera: Camera
    bodies: tuple[Body, ...]

    def batch(self, *, fps: int, seed: int, noise: float = 0.3) -> Batch:
        """All frames at that rate with what is seen on them; `noise` is that of the edges of boxes, in pixels."""
        random, step = np.random.default_rng([seed, 9]), FPS // fps
        wh = self.camera.size_wh
        (still,) = make_frames(1, size_wh=wh)
        ids = count(len(self.bodies))
        track_of = list(range(len(self.bodies)))
        last_seen = [-1] * len(self.bodies)
        frames: list[Frame] = []
        rows: list[tuple[float, ...]] = []
        for index, number in enumerate(range(0, _FRAMES, step)):
            frames.append(replace(still, index=index, pts_ns=round(number / FPS * 1e9)))
            for body, box in self._seen(number):
                own = self.bodies[body]
                was_hidden = 2 * step < number - last_seen[body] <= 2.4 * FPS
                if was_hidden and last_seen[body] >= own.breaks_after and random.uniform() < 0.5:
                    track_of[body] = next(ids)
                last_seen[body] = number
                rows.append((index, track_of[body], LABELS.index(own.label), *box))
        table = np.array(rows, np.float64)
        objects = Objects.from_columns(
            frame=table[:, 0],
            track_id=table[:, 1],
            class_id=table[:, 2],
            xyxy=(table[:, 3:] + random.normal(0, noise, (len(table), 4))).round(2),
            confidence=np.ones(len(table)),
            source=Origin("truth", LABELS),
        )
        return Batch(tuple(frames), objects)

    def _seen(self, number: int) -> list[tuple[int, list[float]]]:
        """The bodies that are found on a frame, and their boxes."""
        places = np.array([body.places[number] for body in self.bodies])
        there = np.flatnonzero(~np.isnan(places[:, 0]))
        there = there[np.argsort(places[there, 1], kind="stable")]
        sizes = np.array([self.bodies[body].size for body in there]).reshape(-1, 1, 3)
        corners = np.concatenate([places[there], np.zeros((len(there), 1))], axis=1)[:, None] + _CORNERS * sizes
        pixels = self.camera.project(corners.reshape(-1, 3)).reshape(-1, len(_CORNERS), 2)
        boxes = np.concatenate([pixels.min(axis=1), pixels.max(axis=1)], axis=1)
        sides = np.minimum(boxes[:, None, 2:], boxes[:, 2:]) - np.maximum(boxes[:, None, :2], boxes[:, :2])
        shares = np.prod(np.maximum(sides, 0), axis=2) / np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)[:, None]
        is_hidden = np.tril(shares, -1).max(axis=1, initial=0) >= _HIDDEN
        is_whole = (boxes >= 0).all(axis=1) & (boxes[:, 2:] <= self.camera.size_wh).all(axis=1)
        return [(int(there[row]), boxes[row].tolist()) for row in np.flatnonzero(is_whole & ~is_hidden)]


@dataclass(frozen=True)
class ParkedCars(World):
    """Places by name, as polygons in pixels, and what happened at each."""

    places: dict[str, list[list[float]]]
    happened: dict[str, Happened]


@cache
def plain_street(seed: int) -> World:
    """A street with its traffic, walkers and cyclists."""
    scene = build_street(StreetPlan(seed=seed, fps=FPS, frames=_FRAMES, walkers=10))
    return World(scene.camera, tuple(_body(actor) for actor in scene.actors))


@cache
def plain_entrance(seed: int) -> World:
    """An entrance with people who go in, out and past, or wait."""
    scene = build_entrance(EntrancePlan(seed=seed, fps=FPS, frames=_FRAMES, passers=12, waiting=4))
    return World(scene.camera, tuple(_body(actor) for actor in scene.actors))


@cache
def parked_cars(seed: int) -> ParkedCars:
    """Four places at a kerb, in which cars park or only halt, beside the traffic of a street."""
    scene = build_street(StreetPlan(seed=seed, fps=FPS, frames=_FRAMES, walkers=5))
    random, road = np.random.default_rng([seed, 7]), scene.ground
    assert isinstance(road, Road)
    kerb, lane = road.half_width + 1.2, road.lane_x(lane=road.lanes_each_way - 1, away=True)
    bodies = [_body(actor) for actor in scene.actors if abs(actor.x[0] - lane) > road.lane_width / 2]
    places: dict[str, list[list[float]]] = {}
    happened: dict[str, Happened] = {}
    for number in range(4):
        name, middle = f"P{number}", 19.0 + 9 * number
        corners = [(kerb + x, middle + y, 0.75) for x, y in ((-1.1, -2.8), (1.1, -2.8), (1.1, 2.8), (-1.1, 2.8))]
        places[name] = scene.camera.project(np.array(corners)).round(2).tolist()
        happened[name] = Happened()
        path = [(lane, -40), (lane, -9), (kerb, -4), (kerb, 4), (lane, 9), (lane, 40)]
        bodies += _visits(random, [(x, middle + y) for x, y in path], happened[name])
    return ParkedCars(scene.camera, tuple(bodies), places, happened)


def _visits(random: np.random.Generator, path: Sequence[tuple[float, float]], happened: Happened) -> list[Body]:
    """Cars one after another: each drives in, stands, and drives off, the last perhaps not before the end."""
    bodies: list[Body] = []
    now = random.uniform(0, 6)
    while True:
        parks = bool(random.uniform() < 0.6)
        pause = random.uniform(LEAST_STAND, 22) if parks else random.uniform(0.5, LONGEST_HALT)
        steps = walk(np.array(path, np.float64), speed=6.0, fps=FPS, pause=(0.5, pause))
        places, first = np.stack([steps.x, steps.y], axis=-1), round(now * FPS)
        places[steps.y < _NEAREST] = np.nan
        stands = first + len(places) // 2 - round(pause * FPS / 2)
        ends = first + len(places)
        if ends > _FRAMES - 10 * FPS:
            if not parks or stands > _FRAMES - LEAST_STAND * FPS or stands + pause * FPS < _FRAMES + FPS:
                return bodies
            happened.stands_now += 1
        elif parks:
            happened.stays.append(pause)
        else:
            happened.halts += 1
        bodies.append(Body("car", _placed(places, first), (1.8, 4.3, 1.5), stands + 8 * FPS))
        now = ends / FPS + random.uniform(1, 6)
        if ends > _FRAMES:
            return bodies


FATES = ("forgotten", "forgotten", "taken", "fetched", "kept")
"""A bag that is fetched is attended to before it is carried off, and one that is kept is never alone."""


@cache
def left_bags(seed: int) -> World:
    """Five bags before an entrance, one for each of the fates, among people who go in, out and past."""
    scene = build_entrance(
        EntrancePlan(seed=seed, fps=FPS, frames=_FRAMES, waiting=0, seconds_between_visitors=8.0, passers=3)
    )
    random = np.random.default_rng([seed, 8])
    bodies = [_body(actor) for actor in scene.actors]
    for x, fate in zip((-4.2, -2.1, 0.0, 2.1, 4.2), random.permutation(FATES).tolist(), strict=True):
        spot = np.array([x + random.uniform(-0.4, 0.4), random.uniform(9.0, 12.0)])
        put = random.uniform(3, 9)
        stays = 42.0 if fate == "kept" else random.uniform(0.5, 3)
        bodies.append(_passer(random, spot, put, stays))
        gone = {"forgotten": float(SECONDS), "kept": put + stays}.get(fate, random.uniform(33, 40))
        if fate in ("taken", "fetched"):
            pause = 1.0 if fate == "taken" else 8.0
            bodies.append(_passer(random, spot, gone - pause, pause))
        lies = np.full((round((gone - put) * FPS), 2), spot)
        bodies.append(Body("suitcase", _placed(lies, round(put * FPS)), _BAG, round((put + 12) * FPS)))
    return World(scene.camera, tuple(bodies))


def _passer(random: np.random.Generator, spot: Floats, seconds: float, stays: float) -> Body:
    """Somebody who arrives beside a spot at that time, stands there, and goes on."""
    side = random.choice([-1, 1])
    path = np.array([(-9.0 * side, -2.5), (-2.0 * side, 0), (2.0 * side, 0), (9.0 * side, -2.5)])
    beside = spot + np.array([0.45, 0.05])
    steps = walk(beside + path, speed=random.uniform(1.2, 1.5), fps=FPS, pause=(0.5, stays))
    places = np.stack([steps.x, steps.y], axis=-1)
    arrives = len(places) / 2 / FPS - stays / 2
    return Body("person", _placed(places, round((seconds - arrives) * FPS)), _PERSON)


def _placed(places: Floats, first: int) -> Floats:
    """Places (N, 2) from a frame on, which may be before the first, cut to those of the world (F, 2)."""
    whole = np.full((_FRAMES, 2), np.nan)
    begin, end = max(first, 0), min(first + len(places), _FRAMES)
    if begin < end:
        whole[begin:end] = places[begin - first : end - first]
    return whole


def _body(actor: Actor) -> Body:
    size = _PERSON
    if isinstance(actor.look, Vehicle):
        along, across = build(actor.look).size
        size = across, along, _HEIGHTS.get(actor.label, 2.8)
    return Body(actor.label, _placed(np.stack([actor.x, actor.y], axis=-1), actor.first_frame), size)
