"""Number plates of the sample world: where the truth says, and saying what it says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools.world.clips import CLIPS
from tools.world.gate import GatePlan, build_gate
from tools.world.lettering import ALPHABET, ink, random_text
from tools.world.render import Renderer
from tools.world.truth import read_mot
from tools.world.vehicles import Vehicle, build

PLAN = GatePlan(seed=51, size_wh=(480, 270), fps=4, frames=60)


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(build_gate(PLAN))


@pytest.fixture(scope="module")
def committed(repository: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((repository / "sample_videos" / "gate.plates.json").read_text())
    return found


def test_texts_are_of_the_alphabet_and_no_two_letters_look_the_same() -> None:
    rng = np.random.default_rng(1)

    assert {letter for _ in range(300) for letter in random_text(rng)} == set(ALPHABET)
    images = [ink(letter * 5) for letter in ALPHABET]
    alike = [np.abs(one - other).mean() for number, one in enumerate(images) for other in images[number + 1 :]]
    assert min(alike) > 0.01


def test_a_vehicle_has_the_same_mesh_with_and_without_a_text() -> None:
    blank, printed = build(Vehicle("van", "red", 3)), build(Vehicle("van", "red", 3, plate="AB12"))

    assert {face.text for part in printed.parts for face in part.faces} == {None, "AB12"}
    for before, after in zip(blank.parts, printed.parts, strict=True):
        assert all(np.array_equal(one.points, two.points) for one, two in zip(before.faces, after.faces, strict=True))


def test_a_plate_is_paper_and_ink_where_the_truth_says(renderer: Renderer) -> None:
    plates = [
        (image, plate)
        for image, truth in (renderer.frame(index) for index in range(0, PLAN.frames, 6))
        for plate in truth.plates
        if plate.visibility > 0.99 and plate.xyxy[2] - plate.xyxy[0] > 24
    ]

    assert len(plates) >= 3
    for image, plate in plates:
        left, top, right, bottom = plate.xyxy.round().astype(int)
        inside = image[top:bottom, left:right].astype(float).mean(axis=2)
        assert inside.max() - inside.min() > 50


def test_plates_lie_inside_the_boxes_of_their_vehicles(committed: dict[str, Any], repository: Path) -> None:
    rows = read_mot(repository / "sample_videos" / "gate.mot.txt")
    boxes = {(int(row[0]), int(row[1])): row[3:7] for row in rows}
    for plate in committed["plates"]:
        for frame, left, top, right, bottom, _ in plate["boxes"]:
            vehicle = boxes[frame, plate["id"]]
            assert vehicle[0] - 1 <= left < right <= vehicle[2] + 1
            assert vehicle[1] - 1 <= top < bottom <= vehicle[3] + 1


def test_the_committed_texts_are_those_of_the_vehicles(committed: dict[str, Any]) -> None:
    scene = next(clip for clip in CLIPS if clip.name == "gate").scene()
    texts = {actor.track_id: actor.look.plate for actor in scene.actors if isinstance(actor.look, Vehicle)}

    assert all(texts[plate["id"]] == plate["text"] for plate in committed["plates"])
    assert sum(plate["readable_frames"] >= 12 for plate in committed["plates"]) >= 9
