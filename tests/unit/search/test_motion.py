"""Where tracks head, from boxes of walls of a known size that move before a camera."""

from __future__ import annotations

import numpy as np
import pytest

from sightline_plugins.search.motion import Motion

SIZE_WH = (960, 540)


def seen(places: list[tuple[float, float]], *, jitter: float = 0.0, focal: float = 864.0, tall: float = 1.7) -> Motion:
    """The motion of somebody at these places: metres to the right of a camera, and before it; four frames a second."""
    rng, motion = np.random.default_rng(3), Motion()
    for number, (x, ahead) in enumerate(places):
        middle, height = 480 + focal * x / ahead, focal * tall / ahead
        left, right = middle - height * 0.2, middle + height * 0.2
        box = np.array([left, 500 - height, right, 500]) + rng.normal(0, jitter * height, 4)
        motion.add(tuple(box.tolist()), size_wh=SIZE_WH, pts_ns=number * 250_000_000)
    return motion


def walk(start: tuple[float, float], end: tuple[float, float], count: int = 16) -> list[tuple[float, float]]:
    return [
        (start[0] + (end[0] - start[0]) * step / (count - 1), start[1] + (end[1] - start[1]) * step / (count - 1))
        for step in range(count)
    ]


@pytest.mark.parametrize("focal", [700.0, 864.0, 1050.0])
@pytest.mark.parametrize(
    ("start", "end", "direction"),
    [
        ((0, 8), (1, 18), "away"),
        ((-3, 25), (-1, 10), "towards"),
        ((3, 12), (-3, 13), "left"),
        ((-4, 15), (4, 13), "right"),
    ],
)
def test_the_direction_is_that_of_the_way(
    start: tuple[float, float], end: tuple[float, float], direction: str, focal: float
) -> None:
    assert seen(walk(start, end), jitter=0.03, focal=focal).direction() == direction


def test_who_stands_has_none() -> None:
    assert seen(walk((1, 10), (1, 10)), jitter=0.03).direction() is None


def test_what_the_frame_cuts_off_says_nothing() -> None:
    motion = Motion()
    for number in range(10):  # somebody walks out of the frame: the box becomes narrower and stays where it is
        motion.add((900 - number * 5.0, 100, 960, 300 - number * 15), size_wh=SIZE_WH, pts_ns=number * 250_000_000)
    assert motion.direction() is None


def test_too_few_boxes_and_frames_of_one_time_say_nothing() -> None:
    assert seen(walk((0, 8), (0, 20), count=2)).direction() is None
    motion = Motion()
    for number in range(5):
        motion.add((100 + number * 50.0, 100, 200 + number * 50.0, 300), size_wh=SIZE_WH, pts_ns=7)
    assert motion.direction() is None
