"""Images and truth of small scenes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tools.world.entrance import EntrancePlan, build_entrance
from tools.world.render import Renderer
from tools.world.scene import LABELS, Effects
from tools.world.street import StreetPlan, build_street
from tools.world.truth import BOX, VISIBILITY, mot_lines, read_mot, table

SIZE_WH = (320, 180)
SHAKY = Effects(noise=2.0, shake_px=3.0, blur_px=0.0, clouds=0.1, leaves=2)
STREET = StreetPlan(seed=41, size_wh=SIZE_WH, fps=5, frames=20, effects=SHAKY, walkers=3, parked=True)


@pytest.fixture(scope="module")
def street() -> Renderer:
    return Renderer(build_street(STREET))


def test_the_same_seed_gives_the_same_images_and_truth(street: Renderer) -> None:
    again = Renderer(build_street(STREET))
    for frame in (3, 17):
        (image, truth), (other_image, other_truth) = street.frame(frame), again.frame(frame)
        assert np.array_equal(image, other_image)
        assert np.array_equal(truth.xyxy, other_truth.xyxy)
        assert np.array_equal(truth.visibility, other_truth.visibility)


def test_frames_do_not_depend_on_the_order_of_rendering(street: Renderer) -> None:
    first = street.frame(6)[0]
    street.frame(2)
    assert np.array_equal(street.frame(6)[0], first)


def test_another_seed_gives_another_scene(street: Renderer) -> None:
    other = build_street(StreetPlan(seed=42, size_wh=SIZE_WH, fps=5, frames=20))
    assert [actor.look for actor in other.actors] != [actor.look for actor in street.scene.actors]


def test_boxes_lie_in_the_image_and_visibilities_between_0_and_1(street: Renderer) -> None:
    rows = table([street.frame(frame)[1] for frame in range(0, 20, 5)])
    boxes = rows[:, BOX]
    assert len(boxes) > 10
    assert boxes.min() >= 0
    assert (boxes.max(axis=0) <= [320, 180, 320, 180]).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert ((rows[:, VISIBILITY] >= 0) & (rows[:, VISIBILITY] <= 1)).all()


def test_ids_are_those_of_the_actors_and_unique_in_a_frame(street: Renderer) -> None:
    _, truth = street.frame(10)
    known = {actor.track_id: LABELS.index(actor.label) for actor in street.scene.actors}
    assert len(set(truth.track_id.tolist())) == len(truth.track_id)
    assert all(known[int(track)] == label for track, label in zip(truth.track_id, truth.class_id, strict=True))


def test_boxes_follow_the_shaking_camera() -> None:
    still = Effects(noise=0.0, shake_px=0.0, blur_px=0.0, clouds=0.0, leaves=0)
    shaking = Effects(noise=0.0, shake_px=4.0, blur_px=0.0, clouds=0.0, leaves=0)
    boxes = []
    for effects in (still, shaking):
        plan = StreetPlan(seed=41, size_wh=SIZE_WH, fps=5, frames=4, effects=effects, walkers=3, parked=True)
        _, truth = Renderer(build_street(plan)).frame(2)
        inside = (truth.xyxy[:, :2] > 8).all(axis=1) & (truth.xyxy[:, 2:] < np.array(SIZE_WH) - 8).all(axis=1)
        boxes.append({int(t): box for t, box in zip(truth.track_id[inside], truth.xyxy[inside], strict=True)})
    shared = boxes[0].keys() & boxes[1].keys()
    moves = np.array([boxes[1][track] - boxes[0][track] for track in shared])
    assert len(moves) > 2
    assert np.abs(moves - moves[0]).max() < 1e-6
    assert np.abs(moves[0]).max() > 0.2


def test_somebody_behind_the_wall_of_the_entrance_is_not_visible() -> None:
    plan = EntrancePlan(seed=43, size_wh=SIZE_WH, fps=5, frames=60, seconds_between_visitors=1.0)
    renderer = Renderer(build_entrance(plan))
    wall = plan.door_y + 2.4
    hidden = []
    for frame in range(0, 60, 6):
        _, truth = renderer.frame(frame)
        for actor in renderer.scene.actors:
            if actor.is_there(frame) and actor.y[frame - actor.first_frame] > wall:
                hidden += truth.visibility[truth.track_id == actor.track_id].tolist()
    assert hidden
    assert max(hidden) < 0.2


def test_mot_rows_survive_writing_and_reading(street: Renderer, tmp_path: Path) -> None:
    rows = table([street.frame(frame)[1] for frame in (0, 1)])
    path = tmp_path / "clip.mot.txt"
    path.write_text(mot_lines(rows), encoding="utf-8")
    assert np.abs(read_mot(path) - rows).max() < 0.006
