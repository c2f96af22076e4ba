"""Every model of the catalogue whose file is at hand runs from its card, and is as good as its entry says."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline import Pipeline
from sightline.graph import Element
from sightline.media import Objects
from sightline_plugins import Classify, Detect, Embed, Read, Replay, Segment
from sightline_plugins.catalogue import entries, find_entry
from sightline_plugins.catalogue.storage import keep
from sightline_plugins.commands.evaluate.annotations import Annotations
from sightline_plugins.commands.evaluate.scores import score_detections
from sightline_plugins.commands.model_step import model_step
from sightline_plugins.commands.verify.command import plan_of
from sightline_plugins.commands.verify.comparison import compare
from sightline_plugins.commands.verify.images import images_of
from sightline_plugins.sources.images.reader import find_images

LIMIT = 0.003
AT_HAND = {
    "yolox-nano": ("yolox_nano.onnx", "coco/val"),
    "fastestdet": ("FastestDet.onnx", "coco/val"),
    "deimv2-atto": ("deimv2_hgnetv2_atto_coco.onnx", "coco/val"),
    "yunet": ("yunet_n_dynamic.onnx", "faces"),
    "paddle-en-number": ("en_number_mobile_v2.0_rec.onnx", "words"),
    "deeplab-v3": ("deeplab_v3_257.onnx", "coco/val"),
    "osnet-x0-25": ("osnet_x0_25_msmt17.onnx", "coco/val"),
    "squeezenet": ("SqueezeNet_fp16.onnx", "classify"),
}
COCO_PERSON = 1
FRAMES_APART = 20


@pytest.fixture(autouse=True)
def pulled(shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All models at hand, as `sightline models pull` leaves them."""
    monkeypatch.setenv("SIGHTLINE_MODELS", str(tmp_path))
    for name, (file, _) in AT_HAND.items():
        keep(find_entry(name), Path(shutil.copy(shared_data / "models" / file, tmp_path / file)))


def measured(name: str) -> float:
    (only,) = find_entry(name).measured
    return only.value


def seen(images: Path, step: Element) -> dict[str, Objects]:
    """What a step finds on each image of a folder, by the name of its file."""
    frames = Pipeline(sources={"images": str(images)}, steps=[step])
    names = [path.stem for path in find_images(str(images))]
    return {name: frame.objects for name, frame in zip(names, frames, strict=True)}


def test_what_is_measured_is_at_hand() -> None:
    tested = {name for name, entry in entries().items() for one in entry.measured if one.tested}

    assert tested == set(AT_HAND)


@pytest.mark.parametrize("name", AT_HAND)
def test_the_entry_names_this_file(shared_data: Path, name: str) -> None:
    content = (shared_data / "models" / AT_HAND[name][0]).read_bytes()
    entry = find_entry(name)

    assert (entry.bytes, entry.sha256) == (len(content), hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize("name", AT_HAND)
def test_it_runs_from_its_card_as_in_a_notebook(shared_data: Path, name: str) -> None:
    element, _ = model_step(name, None, ())
    plan, boxes = plan_of(element)
    compared = compare(element, plan, images_of(str(shared_data / "truth" / AT_HAND[name][1]), count=10), boxes=boxes)

    differs = compared.stages.first_difference
    assert differs is None, f"{differs.name}: {differs.difference}"
    assert element.task == find_entry(name).task


@pytest.mark.parametrize("name", ["yolox-nano", "fastestdet", "deimv2-atto"])
def test_a_detector_has_the_average_precision_of_its_entry(shared_data: Path, name: str) -> None:
    found = seen(shared_data / "truth" / "coco" / "val", Detect(model=name, confidence=0.01))
    rows = [(number, thing) for number, objects in enumerate(found.values()) for thing in objects]
    given = Annotations.from_rows(
        frame=[number for number, _ in rows],
        xyxy=[thing.xyxy for _, thing in rows],
        confidence=[thing.confidence for _, thing in rows],
        label=[thing.label for _, thing in rows],
        identity=np.full(len(rows), -1),
    )

    ap = score_detections(given, truth=_coco_truth(shared_data, find_entry(name).classes)).ap

    assert ap == pytest.approx(measured(name), abs=LIMIT)


def _coco_truth(shared_data: Path, labels: tuple[str, ...]) -> Annotations:
    rows: list[tuple[int, list[float], str]] = []
    for number, path in enumerate(find_images(str(shared_data / "truth" / "coco" / "val"))):
        height, width = np.asarray(cv2.imread(str(path))).shape[:2]
        for line in path.with_suffix(".txt").read_text().splitlines():
            kind, x, y, w, h = (float(value) for value in line.split())
            box = [(x - w / 2) * width, (y - h / 2) * height, (x + w / 2) * width, (y + h / 2) * height]
            rows.append((number, box, labels[int(kind)]))
    return Annotations.from_rows(
        frame=[row[0] for row in rows],
        xyxy=[row[1] for row in rows],
        confidence=np.ones(len(rows)),
        label=[row[2] for row in rows],
        identity=np.full(len(rows), -1),
    )


def test_faces_are_found_as_often_as_the_entry_says(shared_data: Path) -> None:
    found = seen(shared_data / "truth" / "faces", Detect(model="yunet"))
    truth = json.loads((shared_data / "truth" / "faces" / "points.json").read_text())
    noses = [(Path(image).stem, person["nose"]) for image, people in truth.items() for person in people]

    hits = [
        any(box[0] <= x <= box[2] and box[1] <= y <= box[3] for box in found[image].xyxy) for image, (x, y) in noses
    ]

    assert (sum(hits), len(hits)) == (measured("yunet"), 17)


def test_words_are_read_as_often_as_the_entry_says(shared_data: Path) -> None:
    folder = shared_data / "truth" / "words"
    with (folder / "labels.csv").open() as file:
        truth = {Path(row["file"]).stem: row["text"] for row in csv.DictReader(file)}

    found = seen(folder, Read(model="paddle-en-number"))

    right = [objects[0].attributes["text"] == truth[name] for name, objects in found.items()]
    assert sum(right) == measured("paddle-en-number")


def test_images_are_named_as_often_as_the_entry_says(shared_data: Path) -> None:
    found = seen(shared_data / "truth" / "classify", Classify(model="squeezenet"))

    names = {name: objects.labels()[0] for name, objects in found.items()}
    assert names == {"kitten_224": "tabby", "hummingbird": "hummingbird"}
    assert measured("squeezenet") == len(names)


def test_people_are_found_again_as_often_as_the_entry_says(shared_data: Path) -> None:
    """How often the nearest crop of TUD-Campus that is 20 frames or more away shows the same person (rank 1)."""
    folder = shared_data / "truth" / "mot" / "TUD-Campus"
    rows = np.loadtxt(folder / "gt.txt", delimiter=",")
    replay = Replay.model_validate({"path": str(folder / "gt.txt"), "format": "mot", "label": "person"})
    embed = Embed.model_validate({"model": "osnet-x0-25", "on": {}})
    vectors, people, frames = [], [], []
    for frame in Pipeline(sources={"campus": str(folder / "img1")}, steps=[replay, embed]):
        own = rows[rows[:, 0] == frame.index + 1]
        for thing in frame.objects:
            vectors.append(np.asarray(thing.embedding))
            people.append(own[np.abs(own[:, 2:4] - thing.xyxy[:2]).sum(axis=1).argmin(), 1])
            frames.append(frame.index)
    unit = np.array(vectors) / np.linalg.norm(vectors, axis=1, keepdims=True)
    person, when = np.array(people), np.array(frames)

    hits = []
    for number, similarity in enumerate(unit @ unit.T):
        others = np.flatnonzero(np.abs(when - when[number]) >= FRAMES_APART)
        if (person[others] == person[number]).any():
            hits.append(person[others[similarity[others].argmax()]] == person[number])

    assert len(hits) > 300
    assert np.mean(hits) == pytest.approx(measured("osnet-x0-25"), abs=0.005)


def test_people_are_segmented_as_well_as_the_entry_says(shared_data: Path) -> None:
    found = seen(shared_data / "truth" / "coco" / "val", Segment(model="deeplab-v3", classes=["person"]))

    shared = together = 0
    for name, objects in found.items():
        path = shared_data / "truth" / "coco" / "masks" / f"{name}.png"
        wanted: npt.NDArray[np.bool_] = np.equal(np.asarray(cv2.imread(str(path), cv2.IMREAD_UNCHANGED)), COCO_PERSON)
        given = np.zeros_like(wanted)
        for thing in objects:
            assert thing.mask is not None
            given |= thing.mask.in_image(wanted.shape[::-1])
        shared += int((given & wanted).sum())
        together += int((given | wanted).sum())

    assert shared / together == pytest.approx(measured("deeplab-v3"), abs=LIMIT)
