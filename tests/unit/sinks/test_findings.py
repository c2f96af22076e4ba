"""What models find beyond boxes, as it is written and read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools import mask as coco
from tests.unit.sinks.findings import everything

from sightline.media import Objects
from sightline.testing import make_batches, make_frames, run_element
from sightline_plugins.replay.replay import Replay
from sightline_plugins.sinks.coco import Coco
from sightline_plugins.sinks.csv import Csv
from sightline_plugins.sinks.jsonl import Jsonl

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning:pycocotools")


def lines(folder: Path, *, embeddings: bool = False) -> list[Any]:
    run_element(Jsonl(path="o.jsonl", embeddings=embeddings), [everything()], outputs=folder)
    return [json.loads(line) for line in (folder / "o.jsonl").read_text().splitlines()]


def replayed(folder: Path, *, confidence: float = 0) -> Objects:
    lines(folder, embeddings=True)
    element = Replay(path=folder / "o.jsonl", ids=True, confidence=confidence)
    (batch,) = run_element(element, make_batches(make_frames(2), size=2))
    return batch.objects


def document_of(folder: Path, **options: Any) -> Any:
    run_element(Coco(path="o.json", **options), [everything()], outputs=folder)
    return json.loads((folder / "o.json").read_text())


def test_keys_of_a_full_object_come_in_the_documented_order(tmp_path: Path) -> None:
    keys = [list(item) for item in lines(tmp_path, embeddings=True)[0]["objects"]]
    always = ["label", "class_id", "confidence", "box"]

    assert keys == [
        [*always, "track_id", "attributes", "keypoints", "embedding"],
        [*always, "parent", "keypoints"],
        [*always, "attributes", "corners"],
        [*always, "track_id", "attributes", "mask"],
    ]


def test_a_parent_is_a_number_among_the_objects_of_its_line(tmp_path: Path) -> None:
    assert [line["objects"][1]["parent"] for line in lines(tmp_path)] == [0, 0]


def test_keypoints_are_as_many_as_the_skeleton_has(tmp_path: Path) -> None:
    person, face = (item["keypoints"] for item in lines(tmp_path)[0]["objects"][:2])

    assert (len(person), person[1], person[3]) == (17, [0.3, 0.4, 0.5], [0.0, 0.0, 0.0])
    assert face == [[8.0, 5.0, 0.9], [12.0, 5.0, 0.9], [10.0, 7.0, 0.9], [8.0, 9.0, 0.9], [12.0, 9.0, 0.9]]


def test_a_mask_is_what_pycocotools_reads(tmp_path: Path) -> None:
    written = lines(tmp_path)[0]["objects"][3]["mask"]
    image = coco.decode(written)

    assert written["size"] == [48, 64]
    assert (int(image.sum()), bool(image[30, 40]), bool(image[30, 41])) == (47, False, True)


def test_an_oriented_box_has_its_corners(tmp_path: Path) -> None:
    assert lines(tmp_path)[0]["objects"][2]["corners"] == [[20, 10], [30, 15], [25, 25], [15, 20]]


def test_embeddings_are_written_only_when_asked_for(tmp_path: Path) -> None:
    assert "embedding" not in lines(tmp_path)[0]["objects"][0]
    assert lines(tmp_path, embeddings=True)[0]["objects"][0]["embedding"] == [0.6, 0.0, 0.8]


def test_attributes_are_texts_numbers_and_lists(tmp_path: Path) -> None:
    found = [item.get("attributes") for item in lines(tmp_path)[0]["objects"]]

    assert found == [{"tags": ["tall", "hat"], "age": 31.5}, None, {"color": "white"}, {"color": "red"}]


def test_a_replay_writes_the_same_lines_again(tmp_path: Path) -> None:
    first = lines(tmp_path, embeddings=True)
    again = run_element(Replay(path=tmp_path / "o.jsonl", ids=True), make_batches(make_frames(2), size=2))
    run_element(Jsonl(path="two.jsonl", embeddings=True), again, outputs=tmp_path)

    assert [json.loads(line) for line in (tmp_path / "two.jsonl").read_text().splitlines()] == first


def test_a_replay_restores_structures(tmp_path: Path) -> None:
    person, face, ship, car = list(replayed(tmp_path))[4:]

    assert person.skeleton is not None
    assert (len(person.skeleton.points), face.skeleton and len(face.skeleton.points)) == (17, 5)
    assert face.parent is not None
    assert (face.parent.row, person.attributes["tags"]) == (4, ("tall", "hat"))
    assert ship.corners is not None
    assert ship.corners.tolist() == [[20, 10], [30, 15], [25, 25], [15, 20]]
    assert car.mask is not None
    assert (car.mask.left, car.mask.top, car.mask.area, face.mask) == (40, 30, 47, None)
    np.testing.assert_array_equal(person.embedding, np.array([0.6, 0, 0.8], np.float32))


def test_parents_that_a_replay_leaves_out_leave_nothing_behind(tmp_path: Path) -> None:
    lines(tmp_path)
    text = (tmp_path / "o.jsonl").read_text().replace('"confidence":0.9', '"confidence":0.1')
    (tmp_path / "o.jsonl").write_text(text)
    (batch, _) = run_element(Replay(path=tmp_path / "o.jsonl", confidence=0.5), make_batches(make_frames(2)))

    assert (batch.objects.labels(), batch.objects.parent.tolist()) == (["face", "ship", "car"], [-1, -1, -1])


def test_a_coco_dataset_holds_masks_polygons_and_keypoints(tmp_path: Path) -> None:
    document = document_of(tmp_path)
    person, face, ship, car = document["annotations"][:4]

    assert (person["num_keypoints"], person["keypoints"][:3], person["keypoints"][9:12]) == (16, [0, 0.1, 2], [0, 0, 0])
    assert face["num_keypoints"] == 5
    assert (ship["segmentation"], ship["area"]) == ([[20, 10, 30, 15, 25, 25, 15, 20]], 125)
    assert (int(coco.decode(car["segmentation"]).sum()), car["area"]) == (47, 47)
    assert [category.get("skeleton", [None])[0] for category in document["categories"][:1]] == [[16, 14]]


def test_coco_results_hold_the_confidence_of_keypoints(tmp_path: Path) -> None:
    person, _, _, car = document_of(tmp_path, layout="results")[:4]

    assert person["keypoints"][:3] == [0, 0.1, 0.5]
    assert ("area" in car, car["segmentation"]["size"]) == (False, [48, 64])


def test_a_table_has_columns_for_the_attributes_named(tmp_path: Path) -> None:
    run_element(Csv(path="o.csv", attributes=("color", "tags")), [everything(frames=1)], outputs=tmp_path)
    header, *rows = (tmp_path / "o.csv").read_text().splitlines()

    assert header.endswith(",bottom,track_id,color,tags")
    assert [row.split(",")[-2:] for row in rows] == [["", "tall;hat"], ["", ""], ["white", ""], ["red", ""]]


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ('"keypoints":[[1,2]]', "a keypoint has 2 numbers"),
        ('"corners":[[1,2],[3,4],[5,6]]', "has 3 corners"),
        ('"mask":{"size":[4,4],"counts":"1"}', "do not add up"),
        ('"mask":{"size":[4,4]}', "compressed as COCO does"),
        ('"mask":{"size":["a",4],"counts":"1"}', "in pixels"),
        ('"parent":1', "has 1 objects"),
        ('"parent":0', "circles"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, wrong: str, expected: str) -> None:
    text = (
        f'{{"stream":"cam","frame":0,"objects":[{{"label":"a","class_id":0,"confidence":1,"box":[0,0,1,1],{wrong}}}]}}'
    )
    (tmp_path / "o.jsonl").write_text(text)

    with pytest.raises(Exception, match=expected) as caught:
        run_element(Replay(path=tmp_path / "o.jsonl"), make_batches(make_frames(1)))
    assert "o.jsonl, line 1" in str(caught.value)
