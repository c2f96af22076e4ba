"""`segment` gives the masks of the published recipe, on real images, and so finds people as well as it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import Frame, PixelFormat, Stream
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins.infer.segment import Segment
from tests.reference.detection import Image, run, session

PERSON = 15
COCO_PERSON = 1
LABELS = (
    *("background", "aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow"),
    *("diningtable", "dog", "horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
Map = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """An image, the classes of its pixels by the recipe, and where its truth has people."""

    name: str
    rgb: Image
    classes: Map
    people: npt.NDArray[np.bool_]


def recipe(rgb: Image, path: Path) -> Map:
    """Stretched to 257 x 257, levels / 127.5 - 1, scores resized to the image, the highest one wins."""
    resized = cv2.resize(rgb, (257, 257), interpolation=cv2.INTER_LINEAR)
    scores = run(session(path), (resized.astype(np.float32) / np.float32(127.5) - 1)[None])[0][0]
    height, width = rgb.shape[:2]
    classes: Map = cv2.resize(scores, (width, height), interpolation=cv2.INTER_LINEAR).argmax(axis=2)
    return classes


@pytest.fixture(scope="module")
def samples(shared_data: Path) -> list[Sample]:
    model = shared_data / "models" / "deeplab_v3_257.onnx"
    found = []
    for path in sorted((shared_data / "truth" / "coco" / "val").glob("*.jpg")):
        rgb = np.asarray(cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB), np.uint8)
        truth = cv2.imread(str(shared_data / "truth" / "coco" / "masks" / f"{path.stem}.png"), cv2.IMREAD_UNCHANGED)
        person = np.equal(np.asarray(truth), COCO_PERSON)
        found.append(Sample(path.stem, rgb, recipe(rgb, model), person))
    return found


@pytest.fixture(scope="module", params=["openvino", "onnxruntime"])
def given(request: pytest.FixtureRequest, shared_data: Path, samples: list[Sample]) -> list[Map]:
    """The classes of the pixels of each image, as `segment` gives them."""
    element = Segment.model_validate(
        {
            "model": shared_data / "models" / "deeplab_v3_257.onnx",
            "labels": LABELS,
            "mean": 127.5,
            "scale": 127.5,
            "engine": request.param,
        }
    )
    frames = [
        Frame(Stream("coco"), number, number * 40_000_000, surface_from_rgb(one.rgb, pixel_format=PixelFormat.RGB24))
        for number, one in enumerate(samples)
    ]
    maps = []
    for batch in run_element(element, make_batches(frames, size=4)):
        for view in batch:
            classes = np.zeros(view.size_wh[::-1], np.int64)
            for thing in view.objects:
                assert thing.mask is not None
                classes[thing.mask.in_image(view.size_wh)] = thing.class_id
            maps.append(classes)
    return maps


def iou(one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]) -> float:
    return float((one & other).sum() / max((one | other).sum(), 1))


def test_every_mask_overlaps_that_of_the_recipe_by_95_of_100(samples: list[Sample], given: list[Map]) -> None:
    overlaps = {
        (sample.name, LABELS[number]): iou(sample.classes == number, classes == number)
        for sample, classes in zip(samples, given, strict=True)
        for number in np.unique([sample.classes, classes])
    }

    assert len(overlaps) > 60
    assert {key: value for key, value in overlaps.items() if value < 0.95} == {}


def test_people_are_found_as_well_as_the_published_figure_says(samples: list[Sample], given: list[Map]) -> None:
    pairs = [(classes == PERSON, sample.people) for sample, classes in zip(samples, given, strict=True)]
    both = sum(int((found & truth).sum()) for found, truth in pairs)
    either = sum(int((found | truth).sum()) for found, truth in pairs)

    assert both / either == pytest.approx(0.53, abs=0.01)
