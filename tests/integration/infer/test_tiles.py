"""`detect` with tiles on a large image made of small ones: it finds what it finds on each of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import av
import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import Batch, Frame, Objects, Stream
from sightline.media.boxes import Boxes, iou_matrix
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.detect import Detect
from tests.unit.infer.tiny import LABELS, write_detector

ROOT = Path(__file__).parents[3]
ACROSS, DOWN = 3, 2
SIZE_WH = (640, 360)
SURE = 0.7
Image = npt.NDArray[np.uint8]


def detect(images: list[Image], *, size: int = 1, **options: Any) -> list[Objects]:
    element = Detect.model_validate({"model": ROOT / "models" / "street.onnx", **options})
    frames = [Frame(Stream("cam"), n, n * 40_000_000, surface_from_rgb(one)) for n, one in enumerate(images)]
    return [view.objects for batch in run_element(element, make_batches(frames, size=size)) for view in batch]


@pytest.fixture(scope="module")
def frames() -> list[Image]:
    with av.open(str(ROOT / "sample_videos" / "street.mp4")) as container:
        every = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    return [np.asarray(every[number], np.uint8) for number in range(40, 600, 100)]


@pytest.fixture(scope="module")
def mosaic(frames: list[Image]) -> Image:
    return np.concatenate([np.concatenate(frames[row * ACROSS :][:ACROSS], axis=1) for row in range(DOWN)])


@pytest.fixture(scope="module")
def alone(frames: list[Image]) -> Boxes:
    """What is surely found on each small image, away from its edges, in pixels of the large one."""
    found = []
    for number, objects in enumerate(detect(frames)):
        xyxy = objects.xyxy[objects.confidence >= SURE]
        inside = (xyxy[:, :2] > 4).all(axis=1) & (xyxy[:, 2:] < np.array(SIZE_WH) - 4).all(axis=1)
        shift = np.array([number % ACROSS * SIZE_WH[0], number // ACROSS * SIZE_WH[1]] * 2, np.float32)
        found.append(xyxy[inside] + shift)
    return np.concatenate(found)


@pytest.mark.parametrize("tiles", [{"size": [640, 360]}, {"size": [500, 400], "whole": False}])
def test_each_object_of_the_small_images_is_found_once(mosaic: Image, alone: Boxes, tiles: dict[str, Any]) -> None:
    (objects,) = detect([mosaic], tiles=tiles)

    found = iou_matrix(alone, objects.xyxy) >= 0.5
    assert len(alone) >= 30
    assert found.any(axis=1).all()
    assert (found[:, objects.confidence >= SURE - 0.1].sum(axis=1) <= 1).all()


def test_the_large_image_by_itself_is_not_enough(mosaic: Image, alone: Boxes) -> None:
    (objects,) = detect([mosaic])

    assert (iou_matrix(alone, objects.xyxy) >= 0.5).any(axis=1).sum() < len(alone) / 2


def test_results_with_tiles_do_not_depend_on_the_batch_size(frames: list[Image]) -> None:
    found = [[objects.xyxy.tobytes() for objects in detect(frames[:3], size=size, tiles=[320, 192])] for size in (1, 3)]

    assert found[0] == found[1]


def test_tiles_are_as_large_as_the_input_by_default(tmp_path: Path) -> None:
    rgb = np.zeros((32, 64, 3), np.uint8)
    rgb[8:12, 40:44] = (255, 255, 0)
    element = Detect.model_validate(
        {"model": write_detector(tmp_path / "tiny.onnx"), "labels": LABELS, "color": "rgb"}
        | {"confidence": 0.9, "tiles": {"overlap": 0, "whole": False}}
    )

    (batch,) = run_element(element, [Batch((Frame(Stream("cam"), 0, 0, surface_from_rgb(rgb)),))])

    assert batch.objects.xyxy.round().tolist() == [[40, 8, 44, 12]]


def test_every_one_of_very_many_tiles_is_read(tmp_path: Path) -> None:
    across, tile = 12, 32
    rgb = np.zeros((across * tile, across * tile, 3), np.uint8)
    for number in range(across * across):
        left, top = number % across * tile + 8, number // across * tile + 8
        rgb[top : top + 4, left : left + 4] = (255, 255, 0)
    element = Detect.model_validate(
        {"model": write_detector(tmp_path / "tiny.onnx"), "labels": LABELS, "color": "rgb", "confidence": 0.9}
        | {"tiles": {"size": [tile, tile], "overlap": 0, "whole": False}}
    )

    (batch,) = run_element(element, [Batch((Frame(Stream("cam"), 0, 0, surface_from_rgb(rgb)),))])

    found = {tuple(box) for box in batch.objects.xyxy.round().tolist()}
    assert found == {
        (x * tile + 8, y * tile + 8, x * tile + 12, y * tile + 12) for x in range(across) for y in range(across)
    }
