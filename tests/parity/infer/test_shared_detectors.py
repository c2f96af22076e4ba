"""Every shared detector finds on the shared images what its plain recipe finds: boxes, scores, landmarks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime
import pytest

from sightline import Pipeline
from sightline.media import Objects
from sightline.media.shapes import FACE_5
from sightline_plugins import Detect
from tests.reference import detection as plain
from tests.reference.shared_models import deimv2, yunet

Recipe = Callable[..., plain.Found]
SLACK = 0.05
"""Both look this far below the recipe's confidence, so that nothing is lost for falling just short of it."""


@dataclass(frozen=True)
class Case:
    """A model, its recipe with the confidence and labels, and the images."""

    model: str
    recipe: Recipe
    confidence: float
    images: str


def yunet_boxes(bgr: plain.Image, model: onnxruntime.InferenceSession, *, confidence: float) -> plain.Found:
    return yunet(bgr, model, confidence=confidence)[0]


CASES = (
    Case("FastestDet", plain.fastestdet, 0.65, "coco/val"),
    Case("yolox_nano", plain.yolox, 0.3, "coco/val"),
    Case("deimv2_hgnetv2_atto_coco", deimv2, 0.4, "coco/val"),
    Case("yunet_n_dynamic", yunet_boxes, 0.6, "faces"),
)
FACES = CASES[-1]


def images_of(data: Path, case: Case) -> list[Path]:
    return sorted((data / "truth" / case.images).glob("*.jpg"))


def found_by_pipeline(data: Path, case: Case, *, batch: int = 8, **options: Any) -> dict[str, Objects]:
    """What `detect` finds on each image, from nothing but the model, its labels and a confidence."""
    labels = ("face",) if case is FACES else data / "models" / "coco80.names"
    detect = Detect(
        model=data / "models" / f"{case.model}.onnx", labels=labels, confidence=case.confidence - SLACK, **options
    )
    images = images_of(data, case)
    pipeline = Pipeline(sources={path.stem: str(path) for path in images}, steps=[detect], batch={"size": batch})
    return {view.stream.name: view.objects for view in pipeline}


@cache
def expected(data: Path, case: Case) -> dict[str, plain.Found]:
    """What its recipe finds on each image."""
    session = plain.session(data / "models" / f"{case.model}.onnx")
    return {
        path.stem: case.recipe(plain_image(path), session, confidence=case.confidence - SLACK)
        for path in images_of(data, case)
    }


def plain_image(path: Path) -> plain.Image:
    image = cv2.imread(str(path))
    assert image is not None
    return np.asarray(image, np.uint8)


def partners(of: plain.Found, among: plain.Found, *, confidence: float) -> tuple[int, int]:
    """How many of the boxes with that confidence there are, and how many have one with an overlap of 0.95, a score
    within 0.02 and the same class.
    """
    sure = np.flatnonzero(of.confidence >= confidence)
    if not len(sure) or not len(among.xyxy):
        return len(sure), 0
    near = np.abs(of.confidence[sure, None] - among.confidence[None]) <= 0.02
    same = of.class_id[sure, None] == among.class_id[None]
    return len(sure), int(((plain.iou(of.xyxy[sure], among.xyxy) >= 0.95) & near & same).any(axis=1).sum())


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("case", CASES, ids=[case.model for case in CASES])
def test_a_shared_detector_finds_what_its_recipe_finds(shared_data: Path, case: Case, engine: str) -> None:
    given, wanted = found_by_pipeline(shared_data, case, engine=engine), expected(shared_data, case)

    there = [
        partners(wanted[name], plain.found_in(objects), confidence=case.confidence) for name, objects in given.items()
    ]
    back = [
        partners(plain.found_in(objects), wanted[name], confidence=case.confidence) for name, objects in given.items()
    ]
    assert given.keys() == wanted.keys()
    assert sum(total for total, _ in there) > 20
    assert [matched for _, matched in there] == [total for total, _ in there]
    assert [matched for _, matched in back] == [total for total, _ in back]


@pytest.fixture(scope="module")
def faces(shared_data: Path) -> dict[str, Objects]:
    """What `detect` finds on each image of people."""
    return found_by_pipeline(shared_data, FACES)


def test_landmarks_are_where_the_recipe_has_them(shared_data: Path, faces: dict[str, Objects]) -> None:
    session = plain.session(shared_data / "models" / "yunet_n_dynamic.onnx")

    for path in images_of(shared_data, FACES):
        wanted, marks = yunet(plain_image(path), session, confidence=FACES.confidence)
        objects = faces[path.stem]
        for box, points in zip(wanted.xyxy, marks, strict=True):
            overlap = plain.iou(box[None], objects.xyxy.astype(np.float64))[0]
            keypoints = objects.extra["keypoints"][int(overlap.argmax()), :, :2]
            assert np.abs(keypoints - points).max() <= 0.01 * (box[2:] - box[:2]).max()


def test_the_right_eye_of_a_face_is_the_persons(shared_data: Path, faces: dict[str, Objects]) -> None:
    """Against people's own eyes and noses, as COCO's annotators marked them."""
    truth = json.loads((shared_data / "truth" / "faces" / "points.json").read_text())
    compared = 0
    for image, people in truth.items():
        objects = faces[Path(image).stem]
        for person in people:
            eyes = np.array([person["right_eye"], person["left_eye"]], np.float64)
            apart = np.abs(eyes[0] - eyes[1]).max()
            marks = objects.extra["keypoints"][..., :2]
            for points in marks[np.abs(marks[:, 2] - person["nose"]).max(axis=1) < 0.5 * apart]:
                assert np.abs(points[:2] - eyes).sum() < np.abs(points[:2] - eyes[::-1]).sum()
                compared += 1
    assert compared >= 10


def test_faces_have_the_usual_landmarks(faces: dict[str, Objects]) -> None:
    objects = next(iter(faces.values()))

    assert objects.extra["skeleton"][0] is FACE_5
