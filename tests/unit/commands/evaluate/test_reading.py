from __future__ import annotations

import json
from pathlib import Path

import pytest

from sightline.errors import ConfigurationError
from sightline_plugins.commands.evaluate.annotations import frame_numbers, read_annotations


def test_rows_of_mot_truth_whose_flag_is_0_are_ignored(tmp_path: Path) -> None:
    file = tmp_path / "gt.txt"
    file.write_text("1,7,10,20,30,40,1,1,1\n2,7,10,20,30,40,0,1,1\n")

    table = read_annotations(file, truth=True)

    assert table.frame.tolist() == [0, 1]
    assert table.identity.tolist() == [7, 7]
    assert table.xyxy[0].tolist() == [10, 20, 40, 60]
    assert table.ignored.tolist() == [False, True]


def test_images_of_a_coco_document_are_numbered_in_natural_order() -> None:
    images = [{"id": 5, "file_name": "b10.jpg"}, {"id": 3, "file_name": "b9.jpg"}, {"id": 9, "file_name": "a.jpg"}]

    assert frame_numbers(images) == {9: 0, 3: 1, 5: 2}


def test_a_coco_document_gives_labels_and_corners(tmp_path: Path) -> None:
    file = tmp_path / "truth.json"
    document = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "categories": [{"id": 3, "name": "car"}],
        "annotations": [{"id": 1, "image_id": 1, "category_id": 3, "bbox": [1, 2, 3, 4], "iscrowd": 1}],
    }
    file.write_text(json.dumps(document))

    table = read_annotations(file)

    assert (table.label[0], table.xyxy[0].tolist(), bool(table.ignored[0])) == ("car", [1, 2, 4, 6], True)


@pytest.mark.parametrize("text", ["{", "{}", '{"annotations": [], "images": [{}]}', '[{"bbox": 3}]'])
def test_what_is_no_coco_document_is_one_error_that_names_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "truth.json"
    file.write_text(text)

    with pytest.raises(ConfigurationError, match=r"truth\.json is no"):
        read_annotations(file)
