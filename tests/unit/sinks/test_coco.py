from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.sinks.images import batches

from sightline.devices import Device
from sightline.errors import OutputError
from sightline.graph import Outputs, Site
from sightline.media import Batch, Objects, Origin
from sightline.testing import make_frames, run_element
from sightline_plugins.sinks.coco import Coco


def document(folder: Path, element: Coco, given: list[Batch], *, name: str = "out.json") -> Any:
    run_element(element, given, outputs=folder)
    return json.loads((folder / name).read_text())


def test_a_dataset_holds_images_annotations_and_categories(tmp_path: Path) -> None:
    assert document(tmp_path, Coco(path="out.json"), batches(1)) == {
        "annotations": [
            {
                "id": 1,
                "image_id": 1,
                "category_id": 2,
                "bbox": [1.1, 2.25, 7.23, 37.75],
                "area": 273.05,
                "iscrowd": 0,
                "score": 0.871,
                "track_id": 5,
            }
        ],
        "images": [{"id": 1, "width": 64, "height": 48, "file_name": "cam/000000.jpg"}],
        "categories": [{"id": 2, "name": "car"}],
    }


def test_results_are_a_list_as_coco_scores_it(tmp_path: Path) -> None:
    given = batches(1, track_ids=(-1,))
    assert document(tmp_path, Coco(path="out.json", layout="results"), given) == [
        {"image_id": 1, "category_id": 2, "bbox": [1.1, 2.25, 7.23, 37.75], "score": 0.871}
    ]


def test_ids_go_on_from_batch_to_batch(tmp_path: Path) -> None:
    found = document(tmp_path, Coco(path="out.json"), batches(3, track_ids=(1, 2)))
    assert [(item["id"], item["image_id"]) for item in found["annotations"]] == [
        (1, 1),
        (2, 1),
        (3, 2),
        (4, 2),
        (5, 3),
        (6, 3),
    ]


def test_streams_share_a_document_or_have_their_own(tmp_path: Path) -> None:
    given = batches(1, stream="a") + batches(1, stream="b")
    together = document(tmp_path, Coco(path="all.json"), given, name="all.json")
    alone = document(tmp_path, Coco(path="{stream}.json"), given, name="b.json")
    assert ([image["file_name"] for image in together["images"]], len(alone["images"])) == (
        ["a/000000.jpg", "b/000000.jpg"],
        1,
    )


def test_a_class_number_that_two_detectors_use_is_given_once(tmp_path: Path) -> None:
    frame = make_frames(1)[0]
    tables = [
        Objects.from_columns(
            frame=[0], xyxy=[[0, 0, 1, 1]], confidence=[1], class_id=[0], source=Origin(label, (label,))
        )
        for label in ("dog", "face")
    ]
    found = document(tmp_path, Coco(path="out.json"), [Batch((frame,), Objects.concat(tables))])
    assert found["categories"] == [{"id": 0, "name": "dog"}, {"id": 1, "name": "face"}]


def test_only_a_whole_document_stands_under_its_name(tmp_path: Path) -> None:
    outputs = Outputs(tmp_path)
    writer = Coco(path="out.json").build(Site(device=Device(), outputs=outputs))
    writer.consume(batches(1)[0])
    before = sorted(path.name for path in tmp_path.iterdir())
    writer.close()
    after = sorted(path.name for path in tmp_path.iterdir())
    assert (before, after) == (["out.json.images.part", "out.json.part"], ["out.json"])
    assert list(outputs.files) == [tmp_path / "out.json"]


def test_a_document_without_objects_is_whole(tmp_path: Path) -> None:
    found = document(tmp_path, Coco(path="out.json"), [Batch(tuple(make_frames(1)))])
    assert (found["annotations"], len(found["images"])) == ([], 1)


def test_a_place_that_can_not_be_written_is_one_clear_error() -> None:
    with pytest.raises(OutputError, match=r"cannot open /proc/out\.json\.part"):
        run_element(Coco(path="/proc/out.json"), batches(1))
