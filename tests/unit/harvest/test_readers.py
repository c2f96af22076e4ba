"""What `harvest` wrote, read by what reads such datasets: supervision, pycocotools (in `test_harvester`), `eval`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import supervision as sv

from sightline_plugins.commands.evaluate.annotations import read_annotations
from tests.unit.harvest.test_harvester import drive, harvest, records


def objects_by_image(folder: Path) -> dict[str, list[tuple[str, list[float]]]]:
    """What the manifest says, labels and boxes, by the names of the images."""
    return {
        Path(record["image"]).name: [(one["label"], one["box"]) for one in record["objects"]]
        for record in records(folder)
    }


@pytest.mark.parametrize("form", ["yolo", "coco"])
def test_supervision_reads_the_same_boxes_on_the_same_images(tmp_path: Path, form: str) -> None:
    harvest(drive(), tmp_path, format=form)
    out, expected = tmp_path / "out", objects_by_image(tmp_path)
    if form == "yolo":
        places = {"annotations_directory_path": str(out / "labels"), "data_yaml_path": str(out / "data.yaml")}
        found = sv.DetectionDataset.from_yolo(images_directory_path=str(out / "images"), **places)
    else:
        found = sv.DetectionDataset.from_coco(str(out / "images"), str(out / "annotations.json"))
    read = {
        Path(path).name: (
            detections.xyxy,
            [found.classes[int(one)] for one in (() if detections.class_id is None else detections.class_id)],
        )
        for path, _, detections in found
    }
    assert read.keys() == expected.keys()
    assert len(expected) >= 3
    for name, objects in expected.items():
        assert read[name][1] == [label for label, _ in objects]
        assert np.abs(read[name][0] - np.array([box for _, box in objects])).max() <= 0.01


def test_eval_finds_in_a_yolo_folder_the_boxes_of_the_coco_document(tmp_path: Path) -> None:
    for form in ("yolo", "coco"):
        harvest(drive(), tmp_path / form, format=form)
    yolo = read_annotations(tmp_path / "yolo" / "out")
    coco = read_annotations(tmp_path / "coco" / "out" / "annotations.json")
    assert len(yolo) >= 3
    assert yolo.label.tolist() == coco.label.tolist()
    assert yolo.frame.tolist() == coco.frame.tolist()
    assert np.abs(yolo.xyxy - coco.xyxy).max() <= 0.01
