"""`classify`, `embed` and `read` tell of still images what the published recipes tell, engine by engine.

The recipes are written plainly here: `cv2.imread`, `cv2.resize`, ONNX Runtime on the file as it is.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from sightline import Pipeline
from sightline.graph import Element
from sightline.media import Objects
from sightline_plugins import Classify, Embed, Read
from tests.reference.detection import run, session

Floats = npt.NDArray[np.float64]

ENGINES = ("openvino", "onnxruntime")
IMAGENET_MEAN = np.array([123.675, 116.28, 103.53])
IMAGENET_SCALE = np.array([58.395, 57.12, 57.375])


def seen(images: Path, step: Element) -> list[Objects]:
    """What a step finds on each image of a folder or glob, in natural order."""
    return [frame.objects for frame in Pipeline(sources={"images": str(images)}, steps=[step])]


def squeezenet(data: Path, **options: Any) -> Classify:
    """SqueezeNet as its recipe says: stretched, BGR, 0..255; softmax is inside."""
    models = data / "models"
    said = {"fit": "stretch", "resize": "bilinear", "color": "bgr", "mean": 0, "scale": 1}
    files = {"model": models / "SqueezeNet_fp16.onnx", "labels": models / "imagenet1000.txt"}
    return Classify.model_validate({**files, **said, **options})


def read_bgr(path: Path) -> npt.NDArray[np.uint8]:
    """The image as OpenCV reads it."""
    bgr: Any = cv2.imread(str(path))
    return np.asarray(bgr, np.uint8)


def plain_squeezenet(data: Path, bgr: npt.NDArray[np.uint8]) -> Floats:
    """Probabilities of the classes of an image of 224 x 224."""
    network = session(data / "models" / "SqueezeNet_fp16.onnx")
    tensor: Any = bgr.astype(np.float16).transpose(2, 0, 1)[None]
    return run(network, tensor)[0].astype(np.float64).reshape(-1)


def stretched(path: Path) -> npt.NDArray[np.uint8]:
    return np.asarray(cv2.resize(read_bgr(path), (224, 224)), np.uint8)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("image", "number", "name"), [("kitten_224.png", 281, "tabby"), ("hummingbird.jpg", 94, "hum")]
)
def test_the_class_of_an_image_is_the_recipes(
    shared_data: Path, engine: str, image: str, number: int, name: str
) -> None:
    path = shared_data / "truth" / "classify" / image
    probabilities = plain_squeezenet(shared_data, stretched(path))

    (found,) = seen(path, squeezenet(shared_data, engine=engine, convert="image"))

    assert found.class_id.tolist() == [number] == [probabilities.argmax()]
    assert found.labels()[0].startswith(name)
    assert found.confidence[0] == pytest.approx(probabilities.max(), abs=0.02)


@pytest.fixture(scope="module")
def classes(shared_data: Path) -> list[Floats]:
    """By the recipe, the probabilities of each image's classes."""
    folder = shared_data / "truth" / "coco" / "val"
    return [plain_squeezenet(shared_data, stretched(path)) for path in sorted(folder.glob("*.jpg"))]


@pytest.mark.parametrize("engine", ENGINES)
def test_the_classes_of_all_images_are_the_recipes(shared_data: Path, classes: list[Floats], engine: str) -> None:
    found = seen(shared_data / "truth" / "coco" / "val", squeezenet(shared_data, engine=engine, convert="image"))

    assert [int(objects.class_id[0]) for objects in found] == [int(values.argmax()) for values in classes]
    difference = [abs(objects.confidence[0] - values.max()) for objects, values in zip(found, classes, strict=True)]
    assert max(difference) < 0.02


@pytest.mark.parametrize("engine", ENGINES)
def test_all_words_are_read(shared_data: Path, engine: str) -> None:
    folder, models = shared_data / "truth" / "words", shared_data / "models"
    with (folder / "labels.csv").open() as file:
        truth = {row["file"]: row["text"] for row in csv.DictReader(file)}
    files = {"model": models / "en_number_mobile_v2.0_rec.onnx", "labels": models / "en_dict.txt"}
    step = Read.model_validate({**files, "head_options": {"space": True}, "size": (320, 32), "engine": engine})

    found = [[str(thing.attributes["text"]) for thing in objects] for objects in seen(folder / "*.png", step)]

    assert dict(zip(sorted(truth), found, strict=True)) == {name: [text] for name, text in truth.items()}


def plain_osnet(data: Path, image: Path) -> Floats:
    """Stretched to 128 x 256, RGB, normalised as ImageNet; a vector of length 1."""
    rgb = cv2.resize(read_bgr(image), (128, 256))[..., ::-1]
    tensor = ((rgb - IMAGENET_MEAN) / IMAGENET_SCALE).astype(np.float32).transpose(2, 0, 1)[None]
    vector = run(session(data / "models" / "osnet_x0_25_msmt17.onnx"), tensor)[0].astype(np.float64).reshape(-1)
    return vector / np.linalg.norm(vector)


@pytest.fixture(scope="module")
def vectors(shared_data: Path) -> list[Floats]:
    """By the recipe, the embedding of each image."""
    return [plain_osnet(shared_data, path) for path in sorted((shared_data / "truth" / "coco" / "val").glob("*.jpg"))]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("convert", ["network", "image"])
def test_embeddings_point_where_the_recipes_do(
    shared_data: Path, vectors: list[Floats], engine: str, convert: str
) -> None:
    step = Embed.model_validate(
        {"model": shared_data / "models" / "osnet_x0_25_msmt17.onnx", "engine": engine, "convert": convert}
    )

    found = [objects.extra["embedding"][0] for objects in seen(shared_data / "truth" / "coco" / "val", step)]

    cosines = [float(one @ other) for one, other in zip(found, vectors, strict=True)]
    assert min(cosines) >= 0.999
    assert np.linalg.norm(found, axis=1) == pytest.approx(1)


def triangles(source: int, target: int) -> Floats:
    """The matrix (target, source) that resizes one axis by triangles as wide as two new samples: Pillow's bilinear."""
    ratio = source / target
    support = max(ratio, 1.0)
    centres = (np.arange(target)[:, None] + 0.5) * ratio
    distances = np.abs(np.arange(source)[None] + 0.5 - centres) / support
    matrix = np.maximum(0.0, 1.0 - distances)
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True), np.float64)


def torchvision_like(image: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Shorter side to 256 with antialias, the middle 224 x 224 of it: `Resize(256)`, `CenterCrop(224)`."""
    height, width = image.shape[:2]
    factor = 256 / min(height, width)
    size = [256 if side == min(height, width) else int(side * factor) for side in (height, width)]
    resized = np.einsum("yh,hwc,xw->yxc", triangles(height, size[0]), image, triangles(width, size[1]), optimize=True)
    top, left = (round((side - 224) / 2) for side in size)
    middle: npt.NDArray[np.uint8] = np.rint(resized[top : top + 224, left : left + 224]).clip(0, 255).astype(np.uint8)
    return middle


def test_a_classifier_in_the_manner_of_torchvision_gets_its_images(shared_data: Path) -> None:
    paths = sorted((shared_data / "truth" / "coco" / "val").glob("*.jpg"))
    options = {"fit": "cover", "crop": 0.875, "resize": "antialias", "convert": "image"}
    expected = [plain_squeezenet(shared_data, torchvision_like(read_bgr(path))) for path in paths]

    found = seen(paths[0].parent, squeezenet(shared_data, **options))

    assert [int(objects.class_id[0]) for objects in found] == [int(values.argmax()) for values in expected]
    assert [float(objects.confidence[0]) for objects in found] == pytest.approx([v.max() for v in expected], abs=0.01)
