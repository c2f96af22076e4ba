"""Whether the camera of a stream moves, on made views: a camera that stands over vehicles, one that is turned."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sightline.media.boxes import Boxes
from sightline_plugins.infer.adaptive.pace import Reason
from tests.unit.infer.adaptive.scene import SIZE_WH, Image, ground, paced


def road(count: int) -> Iterator[tuple[Image, Boxes]]:
    """A road without texture but for a few faint marks, seen from above, on which patterned vehicles pass both ways."""
    generator = np.random.default_rng(3)
    patterns = [np.kron(generator.uniform(0, 255, (10, 14)), np.ones((6, 6))).astype(np.uint8) for _ in range(2)]
    for frame in range(count):
        wide = np.full((SIZE_WH[1], SIZE_WH[0] + 200), 110, np.uint8)
        for mark in range(4, 184, 24):
            wide[mark : mark + 12, 252:260] = 140
        boxes = []
        for lane, pattern in enumerate(patterns):
            place = (7 * frame + 160 * lane) % 430
            left, top = (place if lane else 430 - place), 16 + 100 * lane
            wide[top : top + 60, left : left + 84] = pattern
            boxes.append((left - 100, top, left - 16, top + 60))
        yield (
            wide[:, 100:-100],
            np.array([box for box in boxes if -84 < box[0] < SIZE_WH[0]], np.float32).reshape(-1, 4),
        )


def test_vehicles_on_a_road_without_texture_are_no_moving_camera() -> None:
    reasons = paced(road(200))

    assert Reason.CAMERA not in reasons[50:]  # it takes two seconds to know what stands


def test_a_camera_that_is_turned_is_detected_on_every_frame_for_a_while() -> None:
    def view() -> Iterator[tuple[Image, Boxes]]:
        for frame in range(100):
            yield ground(seed=1 if frame < 60 else 2), np.empty((0, 4), np.float32)

    reasons = paced(view())

    assert Reason.CAMERA not in reasons[:60]
    assert None not in reasons[61:72]
    assert Reason.CAMERA in reasons[60:72]
    assert None in reasons[85:]


def test_a_camera_that_is_bumped_is_noticed() -> None:
    wide = ground(SIZE_WH[0] + 8)

    def view() -> Iterator[tuple[Image, Boxes]]:
        for frame in range(90):
            left = 0 if frame < 60 else 6
            yield wide[:, left : left + SIZE_WH[0]], np.empty((0, 4), np.float32)

    reasons = paced(view())

    assert Reason.CAMERA not in reasons[:60]
    assert Reason.CAMERA in reasons[60:75]
