"""Camera, hiding order and shapes of the sample world."""

from __future__ import annotations

import numpy as np
import pytest
from tools.world.camera import Camera, cut_at_depth
from tools.world.light import random_light
from tools.world.mesh import Pose, paint
from tools.world.order import painting_order
from tools.world.sprite import Footprint
from tools.world.vehicles import KINDS, Vehicle, build

CAMERA = Camera.looking_at((0, 20, 0), position=(0, 0, 8), field_of_view_degrees=60, size_wh=(640, 360))


def test_what_the_camera_looks_at_is_in_the_middle_of_the_image() -> None:
    assert CAMERA.project(np.array([[0.0, 20, 0]]))[0] == pytest.approx((320, 180))


def test_the_ground_under_a_pixel_projects_back_to_that_pixel() -> None:
    x, y, _ = CAMERA.ground_under_pixels()
    point = np.array([[x[300, 500], y[300, 500], 0.0]])
    assert CAMERA.project(point)[0] == pytest.approx((500.5, 300.5), abs=1e-6)


def test_a_polygon_is_cut_where_it_passes_the_near_plane() -> None:
    square = np.array([[-1.0, 0, -1], [1, 0, -1], [1, 0, 1], [-1, 0, 1]])
    assert cut_at_depth(square, depth=0.5)[:, 2].min() == pytest.approx(0.5)


def test_the_nearer_of_two_things_is_painted_last() -> None:
    far, near = Footprint(-1, 30, 1, 34), Footprint(-1, 10, 1, 14)
    assert painting_order([near, far], camera=CAMERA) == [1, 0]


def test_a_long_bus_beside_the_camera_hides_the_car_on_its_far_side() -> None:
    bus, car = Footprint(2, 10, 4.5, 40), Footprint(6, 11, 8, 15)
    assert painting_order([bus, car], camera=CAMERA) == [1, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_box_of_a_vehicle_is_that_of_its_silhouette(kind: str) -> None:
    light = random_light(np.random.default_rng(1), name="day")
    sprite = paint(build(Vehicle(kind, "red", 5)), pose=Pose(0, 22, np.pi / 2), camera=CAMERA, light=light)
    assert sprite is not None
    rows, columns = np.nonzero(sprite.coverage > 0.01)
    seen = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    box = np.array(sprite.xyxy) - np.tile((sprite.left, sprite.top), 2)
    assert np.abs(box - seen).max() <= 1.0


def test_the_same_vehicle_always_has_the_same_shape() -> None:
    first, second = (build(Vehicle("van", "blue", 9)) for _ in range(2))
    assert first.size == second.size
    assert all(
        np.array_equal(a.points, b.points) and a.colour == b.colour
        for one, other in zip(first.parts, second.parts, strict=True)
        for a, b in zip(one.faces, other.faces, strict=True)
    )
