"""`stabilise` takes out shaking, and lets a camera pan."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import Batch, ColorRange, Frame, PixelFormat, Stream, Surface
from sightline.media.frame import NANOSECONDS
from sightline.testing import run_element
from sightline_plugins import Stabilise
from sightline_plugins.opencv import cv2
from sightline_plugins.warp.remap import Turning, turn

Floats = npt.NDArray[np.float64]
SIZE_WH = (320, 240)
RATE = 25


@cache
def scene() -> npt.NDArray[np.uint8]:
    """A wide scene with texture of several sizes, (400, 1600)."""
    random = np.random.default_rng(3)
    light = np.zeros((400, 1600), np.float32)
    for size in (3, 9, 31):
        light += cv2.GaussianBlur(random.normal(0, 1, light.shape).astype(np.float32), None, size / 2) * size
    scaled = 128 + 45 * (light - light.mean()) / light.std()
    return np.asarray(np.clip(scaled, 0, 255), np.uint8)


def seen(path: Floats) -> npt.NDArray[np.uint8]:
    """What a camera sees whose content is shifted by x, y and turned by radians from the middle of the scene."""
    x, y, radians = path
    cosine, sine = math.cos(radians), math.sin(radians)
    back = np.array([[cosine, sine], [-sine, cosine]])
    middle = np.array(SIZE_WH) / 2 - 0.5
    offset = np.array([600.0, 200.0]) - back @ (middle + np.array([x, y]))
    shown = cv2.warpAffine(
        scene(), np.column_stack([back, offset]), SIZE_WH, flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    )
    return np.asarray(shown, np.uint8)


def shaking(count: int, *, seed: int = 1) -> Floats:
    """A mast in the wind, (N, 3): sways of 2 to 6 Hz, and a tremor."""
    random, seconds = np.random.default_rng(seed), np.arange(count) / RATE
    path = random.normal(0, (1.2, 1.2, 0.001), (count, 3))
    for hertz in (2.1, 3.7, 5.9):
        phase = random.uniform(0, 2 * math.pi, 3)
        path += np.array([2.5, 2.5, 0.002]) * np.sin(2 * math.pi * hertz * seconds[:, None] + phase)
    return path


def steadied(path: Floats, **options: object) -> list[Batch]:
    """What comes out for a camera that shakes like that, a batch for each frame."""
    frames = [
        Frame(Stream("mast"), index, index * NANOSECONDS // RATE, Surface(PixelFormat.GRAY8, SIZE_WH, (seen(place),)))
        for index, place in enumerate(path)
    ]
    return run_element(Stabilise.model_validate(options), [Batch((frame,)) for frame in frames])


def values(batches: list[Batch], name: str) -> Floats:
    """A tensor of each frame (N, 3), with radians."""
    found = [next(tensor.values for tensor in batch.tensors if tensor.name == name) for batch in batches]
    return np.array(found, np.float64) * (1, 1, math.pi / 180)


def displacements(batches: list[Batch]) -> Floats:
    """How far the middle of each image is from that of the scene, (N, 2), by comparing pixels."""
    middle = seen(np.zeros(3))[80:160, 120:200]
    found = []
    for batch in batches:
        fits = cv2.matchTemplate(batch.frames[0].surface.planes[0], middle, cv2.TM_CCOEFF_NORMED)
        y, x = np.unravel_index(fits.argmax(), fits.shape)
        found.append((x + peak(fits[y, x - 1 : x + 2]) - 120, y + peak(fits[y - 1 : y + 2, x]) - 80))
    return np.array(found)


def peak(around: npt.NDArray[np.floating]) -> float:
    """Where the parabola through three values is highest, from the second."""
    left, middle, right = around.tolist()
    return float((left - right) / (2 * (left - 2 * middle + right)))


def unsteadiness(places: Floats) -> float:
    """The root mean square of the distance from the mean place."""
    return float(np.sqrt(((places - places.mean(axis=0)) ** 2).sum(axis=1).mean()))


def step(places: Floats) -> float:
    """The mean distance from frame to frame."""
    return float(np.linalg.norm(np.diff(places, axis=0), axis=1).mean())


@pytest.mark.parametrize("seed", [1, 2])
def test_shaking_is_at_least_five_times_smaller(seed: int) -> None:
    path = shaking(110, seed=seed)

    left = displacements(steadied(path))[40:]

    assert unsteadiness(left) * 5 < unsteadiness(path[40:, :2])
    assert step(left) * 5 < step(path[40:, :2])


def test_a_camera_that_pans_goes_on_panning() -> None:
    seconds = np.arange(150) / RATE
    path = shaking(150)
    path[:, 0] -= 60 * np.clip(seconds - 0.5, 0, None)

    batches = steadied(path)

    corrections = values(batches, "correction")
    shown, late = (path + corrections)[:, 0], slice(110, 150)
    assert np.polyfit(seconds[late], shown[late], 1)[0] == pytest.approx(-60, rel=0.08)
    assert np.abs(np.diff(shown[late], 2)).mean() * 5 < np.abs(np.diff(path[late, 0], 2)).mean()
    assert np.abs(corrections[:, :2]).max() <= 24 + 1e-4, "a tenth of the shorter side"


def test_the_motion_is_attached_to_each_frame() -> None:
    path = shaking(20)

    motion = values(steadied(path), "motion")

    assert motion[0].tolist() == [0, 0, 0]
    np.testing.assert_allclose(motion[1:, :2], np.diff(path, axis=0)[:, :2], atol=0.2)
    np.testing.assert_allclose(motion[1:, 2], np.diff(path, axis=0)[:, 2], atol=0.001)


def test_after_a_gap_it_begins_anew() -> None:
    frames = [
        Frame(Stream("mast"), index, pts_ns, Surface(PixelFormat.GRAY8, SIZE_WH, (seen(path),)))
        for index, (pts_ns, path) in enumerate(zip((0, NANOSECONDS // 25, 4 * NANOSECONDS), shaking(3), strict=True))
    ]

    found = run_element(Stabilise(), [Batch(tuple(frames))])[0]

    assert found.frames[2].surface is frames[2].surface
    assert found.frames[1].surface is not frames[1].surface


@pytest.mark.parametrize("pixel_format", [PixelFormat.I420, PixelFormat.NV12, PixelFormat.I422, PixelFormat.RGB24])
def test_planes_turn_and_move_together(pixel_format: PixelFormat) -> None:
    height, width = 120, 160
    y, x = np.mgrid[:height, :width]
    planes = []
    for shape in pixel_format.plane_shapes((width, height)):
        down, right = height // shape[0], width // shape[1]
        hill = 40 + 1.2 * (x[::down, ::right] + (right - 1) / 2) + 0.4 * (y[::down, ::right] + (down - 1) / 2)
        planes.append(np.ascontiguousarray(np.broadcast_to(hill.reshape(*hill.shape, *(1,) * (len(shape) - 2)), shape)))
    surface = Surface(
        pixel_format, (width, height), tuple(plane.astype(np.uint8) for plane in planes), range=ColorRange.FULL
    )

    moved = turn(surface, Turning((6, -4), math.radians(8)), border="black")

    for number, plane in enumerate(moved.planes):
        down, right = height // plane.shape[0], width // plane.shape[1]
        for row, column in ((60, 80), (40, 100), (84, 48)):
            place = np.array([column + right / 2, row + down / 2]) - (80 + 6, 60 - 4)
            angle = math.radians(-8)
            source = np.array(
                [
                    place[0] * math.cos(angle) - place[1] * math.sin(angle) + 80,
                    place[0] * math.sin(angle) + place[1] * math.cos(angle) + 60,
                ]
            )
            expected = 40 + 1.2 * (source[0] - 0.5) + 0.4 * (source[1] - 0.5)
            assert np.abs(plane[row // down, column // right].astype(float) - expected).max() < 2
        corner = plane[0, -1]
        assert (corner == (128 if number else 0)).all()
