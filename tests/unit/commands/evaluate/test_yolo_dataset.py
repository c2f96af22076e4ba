"""YOLO datasets as ground truth: layouts of Ultralytics and Roboflow, kinds of labels, mistakes."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from sightline.errors import ConfigurationError
from sightline.testing import run_source
from sightline_plugins.commands.evaluate.annotations import Annotations, read_annotations
from sightline_plugins.sources.images.element import Images

SIZES_WH = {"a9.jpg": (100, 50), "a10.jpg": (200, 80), "b.png": (64, 32)}


def dataset(folder: Path, *, images: str = "valid/images", **labels: str) -> Path:
    """A folder as Roboflow exports it, with labels by the names of images."""
    place = folder / images
    place.mkdir(parents=True)
    for name, (width, height) in SIZES_WH.items():
        cv2.imwrite(str(place / name), np.zeros((height, width, 3), np.uint8))
    texts = folder / images.replace("images", "labels")
    texts.mkdir(parents=True, exist_ok=True)
    for stem, text in labels.items():
        (texts / f"{stem}.txt").write_text(text)
    file = folder / "data.yaml"
    file.write_text(f"train: ../train/images\nval: ../{images}\n\nnc: 2\nnames: ['car', 'bus']\n")
    return file


def rows(table: Annotations) -> list[tuple[int, str, list[float]]]:
    found = zip(table.frame, table.label, table.xyxy, strict=True)
    return [(int(frame), str(label), [round(float(one), 3) for one in xyxy]) for frame, label, xyxy in found]


def test_boxes_are_pixels_of_images_numbered_as_the_source_reads_them(tmp_path: Path) -> None:
    file = dataset(tmp_path, a9="0 0.5 0.5 0.2 0.4\n\n1 0.1 0.2 0.2 0.4\n", b="1 0.25 0.5 0.5 1.0\n", a10="")
    table = read_annotations(file)
    assert rows(table) == [(0, "car", [40, 15, 60, 35]), (0, "bus", [0, 0, 20, 20]), (2, "bus", [0, 0, 32, 32])]
    frames = run_source(Images(uri=str(tmp_path / "valid" / "images")))
    assert [frame.size_wh for frame in frames] == [SIZES_WH["a9.jpg"], SIZES_WH["a10.jpg"], SIZES_WH["b.png"]]
    assert rows(read_annotations(tmp_path)) == rows(table)  # by its folder


def test_outlines_give_their_boxes_and_predictions_their_confidence(tmp_path: Path) -> None:
    lines = "0 0.1 0.2 0.5 0.2 0.3 0.8\n1 0.5 0.5 0.2 0.4 0.75\n0 0.1 0.1 0.2 0.1 0.2 0.4 0.1 0.4\n"
    table = read_annotations(dataset(tmp_path, a9=lines), truth=True)
    assert rows(table) == [(0, "car", [10, 10, 50, 40]), (0, "bus", [40, 15, 60, 35]), (0, "car", [10, 5, 20, 20])]
    assert table.confidence.tolist() == [1, 0.75, 1]


def test_keypoints_are_left_out(tmp_path: Path) -> None:
    file = dataset(tmp_path, a9="0 0.5 0.5 0.2 0.4 0.5 0.5 2 0.4 0.4 2\n")
    file.write_text(f"{file.read_text()}kpt_shape: [2, 3]\n")
    assert rows(read_annotations(file)) == [(0, "car", [40, 15, 60, 35])]


def test_the_layout_of_ultralytics_with_a_path_and_names_by_number(tmp_path: Path) -> None:
    dataset(tmp_path / "data", images="images/train", a9="7 0.5 0.5 0.2 0.4\n")
    file = tmp_path / "coco8.yaml"
    file.write_text("path: data\ntrain: images/train\nval: # none\nnames:\n  7: van\n")
    assert rows(read_annotations(file)) == [(0, "van", [40, 15, 60, 35])]
    assert len(read_annotations(file, split="train")) == 1
    with pytest.raises(ConfigurationError, match=r"coco8.yaml has no test; splits: train"):
        read_annotations(file, split="test")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("car 0.5 0.5 0.2 0.4", r"a9.txt, line 2: is not `class x y width height`"),
        ("2 0.5 0.5 0.2 0.4", r"line 2: there is no class 2 in `names` \(2 classes\)"),
        ("0 50 20 20 40", r"line 2: values are four or more fractions"),
        ("0 0.5 0.5 nan 0.4", r"line 2: values are four or more fractions"),
        ("0 0.5 0.5", r"line 2: values are four or more fractions"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_annotations(dataset(tmp_path, a9=f"0 0.5 0.5 0.2 0.4\n{line}\n"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is no YAML"),
        ("- 1\n", "is no data.yaml"),
        ("val: images\n", "has no `names`"),
        ("names: [a]\n", "has no split: train, val or test; splits: none"),
        ("names: [a]\nval: elsewhere\n", "`val` names 'elsewhere', and there is no such folder"),
    ],
)
def test_a_wrong_dataset_is_one_error(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "data.yaml"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        read_annotations(file)
