"""How things move: cars that follow each other in lanes, people who walk along paths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tools.world.arrays import Floats


@dataclass(frozen=True, slots=True)
class Driver:
    """Somebody in a lane: when and how fast it comes, and its length in metres."""

    start_seconds: float
    speed: float
    length: float


@dataclass(frozen=True, slots=True)
class Signal:
    """A traffic light: where its stop line is along the lane, and its red time in each period."""

    place: float
    period_seconds: float
    red_seconds: float
    shift_seconds: float

    def is_red(self, seconds: float) -> bool:
        """Whether it is red at that time."""
        return (seconds + self.shift_seconds) % self.period_seconds < self.red_seconds


def follow(drivers: list[Driver], *, lane_length: float, times: Floats, signal: Signal | None) -> Floats:
    """Where each driver's middle is along the lane at each time (drivers, times); NaN while not there.

    The Intelligent Driver Model (Treiber, Hennecke and Helbing, 2000); a red light is a standing leader.
    """
    step = float(times[1] - times[0])
    places = np.full((len(drivers), len(times)), np.nan)
    here = np.full(len(drivers), np.nan)
    speed = np.array([driver.speed for driver in drivers])
    for index, now in enumerate(times):
        for number, driver in enumerate(drivers):
            if np.isnan(here[number]):
                if now >= driver.start_seconds and now < driver.start_seconds + step:
                    here[number] = 0.0
                continue
            gap, closing = _leader(drivers, number=number, here=here, speed=speed, signal=signal, now=float(now))
            speed[number] = max(
                0.0, speed[number] + step * _pull(speed[number], wish=driver.speed, gap=gap, closing=closing)
            )
            here[number] += speed[number] * step
            if here[number] > lane_length:
                here[number] = np.inf
        places[:, index] = here
    places[np.isinf(places)] = np.nan
    return places


def _leader(
    drivers: list[Driver], *, number: int, here: Floats, speed: Floats, signal: Signal | None, now: float
) -> tuple[float, float]:
    """The gap to what is ahead and how fast it closes."""
    gap, closing = 1e3, 0.0
    if number and np.isfinite(here[number - 1]):
        gap = here[number - 1] - here[number] - (drivers[number - 1].length + drivers[number].length) / 2
        closing = speed[number] - speed[number - 1]
    if signal is not None and signal.is_red(now):
        to_stop = signal.place - here[number] - drivers[number].length / 2
        braking = speed[number] ** 2 / 7.0
        if braking < to_stop < gap:
            gap, closing = to_stop, speed[number]
    return max(gap, 0.3), closing


def _pull(speed: float, *, wish: float, gap: float, closing: float) -> float:
    strongest, comfortable, headway, standstill = 1.8, 2.4, 1.2, 2.2
    wanted = standstill + max(0.0, speed * headway + speed * closing / (2 * np.sqrt(strongest * comfortable)))
    pull = strongest * (1 - (speed / wish) ** 4 - (wanted / gap) ** 2)
    return float(np.clip(pull, -7.0, strongest))


@dataclass(frozen=True, slots=True)
class Walk:
    """A walk sampled at each frame: place, heading, phase of the gait and how much the limbs move (0 to 1)."""

    x: Floats
    y: Floats
    heading: Floats
    stride: Floats
    moving: Floats


def walk(corners: Floats, *, speed: float, fps: float, pause: tuple[float, float] | None = None) -> Walk:
    """A walk along rounded corners (N, 2); `pause` is (fraction of the way, seconds of standing there)."""
    path = _rounded(corners)
    steps = np.hypot(*np.diff(path, axis=0).T)
    reached = np.concatenate([[0.0], np.cumsum(steps)])
    way = _progress(float(reached[-1]), speed=speed, fps=fps, pause=pause)
    x, y = np.interp(way, reached, path[:, 0]), np.interp(way, reached, path[:, 1])
    ahead = np.minimum(way + 0.5, reached[-1])
    behind = np.maximum(way - 0.5, 0.0)
    toward_x = np.interp(ahead, reached, path[:, 0]) - np.interp(behind, reached, path[:, 0])
    toward_y = np.interp(ahead, reached, path[:, 1]) - np.interp(behind, reached, path[:, 1])
    pace = np.gradient(way) * fps
    return Walk(x, y, np.arctan2(toward_y, toward_x), way * 2 * np.pi / 1.45, np.clip(pace / 1.0, 0, 1))


def _progress(length: float, *, speed: float, fps: float, pause: tuple[float, float] | None) -> Floats:
    """Metres walked at each frame, slowing softly before a pause and speeding up after it."""
    stop_at, rest = (pause[0] * length, round(pause[1] * fps)) if pause else (np.inf, 0)
    way = [0.0]
    while way[-1] < length:
        near = abs(way[-1] - stop_at)
        pace = speed * min(1.0, 0.25 + near / 0.8)
        following = way[-1] + pace / fps
        if way[-1] < stop_at <= following:
            way.extend([stop_at] * rest)
        way.append(following)
    walked: Floats = np.minimum(np.array(way), length)
    return walked


def _rounded(corners: Floats) -> Floats:
    """Corners cut three times (Chaikin, 1974)."""
    path = corners
    for _ in range(3):
        low, high = 0.75 * path[:-1] + 0.25 * path[1:], 0.25 * path[:-1] + 0.75 * path[1:]
        path = np.concatenate([path[:1], np.stack([low, high], axis=1).reshape(-1, 2), path[-1:]])
    return path
