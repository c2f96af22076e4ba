"""Ground truth of a YOLO dataset, as Ultralytics trains with and Roboflow exports: `data.yaml`, images and labels.

`data.yaml` names the folders of the images of each split, and the classes: https://docs.ultralytics.com/datasets/. The
labels of `images/a.jpg` are in `labels/a.txt`, a line for each object: its class and its box (middle, width and height)
or the corners of its outline, in fractions of the image.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias, get_args

import numpy as np

from sightline.errors import ConfigurationError

Split: TypeAlias = Literal["train", "val", "test"]
_DEFAULTS: tuple[Split, ...] = ("val", "test", "train")
NAMES = ("data.yaml", "data.yml", "dataset.yaml")
"""What the file is called in a folder."""
_MOST_BYTES = 64 << 20
_BOX = 4
_LARGEST = 1.01
"""Tools round, so that a box may reach a little beyond the image."""

Row: TypeAlias = tuple[int, Sequence[float], float, str]
"""Number of the image, xyxy in pixels, confidence, label."""


def dataset_file(path: Path) -> Path | None:
    """The `data.yaml` that a path means, by its name or by its folder; None when it is none."""
    if path.is_dir():
        return next((file for name in NAMES if (file := path / name).is_file()), None)
    return path if path.suffix.lower() in (".yaml", ".yml") else None


def read_dataset(file: Path, *, split: Split | None = None) -> Iterator[Row]:
    """Yield the objects of all images of a split: `val` when not given, else `test`, else `train`.

    Images are numbered in the order in which the `images` source reads their folder; those without labels have no
    objects. Raises ConfigurationError that names the file, and the line where there is one.
    """
    from sightline_plugins.sources.images.reader import find_images

    data = _data(file)
    names = _names(file, data)
    chosen = split or next((one for one in _DEFAULTS if data.get(one)), None)
    if chosen is None or not data.get(chosen):
        there = ", ".join(one for one in get_args(Split) if data.get(one)) or "none"
        _fail(file, f"has no {split or 'split: train, val or test'}; splits: {there}")
    paths = [path for folder in _folders(file, data, chosen) for path in find_images(str(folder))]
    if not paths:
        _fail(file, f"names no image for {chosen}")
    has_keypoints = bool(data.get("kpt_shape"))
    for number, path in enumerate(paths):
        labels = _labels_of(path)
        if labels.is_file() and (text := _text(labels)).strip():
            size_wh = _size_of(path)
            for line, fields in enumerate(map(str.split, text.splitlines()), 1):
                if fields:
                    yield (number, *_object(fields, f"{labels}, line {line}", size_wh, names, has_keypoints))


def _object(
    fields: Sequence[str], place: str, size_wh: tuple[int, int], names: Mapping[int, str], has_keypoints: bool
) -> tuple[Sequence[float], float, str]:
    """The box, confidence and label of a line."""
    try:
        class_id, values = int(fields[0]), [float(field) for field in fields[1:]]
    except ValueError:
        raise ConfigurationError(f"{place}: is not `class x y width height`: {' '.join(fields)[:60]!r}") from None
    if class_id not in names:
        raise ConfigurationError(f"{place}: there is no class {class_id} in `names` ({len(names)} classes)")
    confidence = 1.0
    if has_keypoints:
        values = values[:_BOX]
    elif len(values) % 2:
        confidence = values.pop()
    if len(values) < _BOX or not all(math.isfinite(one) and -0.01 <= one <= _LARGEST for one in values):
        raise ConfigurationError(f"{place}: values are four or more fractions of the image, from 0 to 1")
    points = np.array(values)
    if len(values) == _BOX:
        middle, half = points[:2], points[2:] / 2
        corners = np.stack([middle - half, middle + half])
    else:
        outline = points.reshape(-1, 2)
        corners = np.stack([outline.min(0), outline.max(0)])
    return (corners.clip(0, 1) * size_wh).reshape(-1).tolist(), confidence, names[class_id]


def _data(file: Path) -> dict[str, Any]:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        data = YAML(typ="safe", pure=True).load(_text(file))
    except YAMLError as error:
        _fail(file, f"is no YAML: {str(error).splitlines()[0]}")
    if not isinstance(data, dict):
        _fail(file, "is no data.yaml of a YOLO dataset (train, val, names)")
    return data


def _names(file: Path, data: Mapping[str, Any]) -> dict[int, str]:
    names = data.get("names")
    if isinstance(names, list):
        return {number: str(name) for number, name in enumerate(names)}
    if isinstance(names, dict) and all(isinstance(number, int) for number in names):
        return {number: str(name) for number, name in names.items()}
    raise ConfigurationError(f"{file} has no `names` of classes: a list, or a mapping of numbers to names")


def _folders(file: Path, data: Mapping[str, Any], split: Split) -> Iterator[Path]:
    """The folders of a split. Roboflow writes `../valid/images` for `valid/images` beside the file."""
    root = file.parent / str(data.get("path") or "")
    given = data[split]
    for one in given if isinstance(given, list) else [given]:
        plain = str(one).removeprefix("../")
        places = (root / str(one), root / plain, file.parent / str(one), file.parent / plain)
        found = next((place for place in places if place.is_dir()), None)
        if found is None:
            _fail(file, f"`{split}` names {str(one)!r}, and there is no such folder of images")
        yield found


def _labels_of(image: Path) -> Path:
    """`labels/a.txt` for `images/a.jpg`: the last folder `images` counts; without one, beside the image."""
    parts = list(image.parent.parts)
    for place in reversed(range(len(parts))):
        if parts[place] == "images":
            parts[place] = "labels"
            break
    return Path(*parts, f"{image.stem}.txt")


def _size_of(path: Path) -> tuple[int, int]:
    from sightline_plugins.decode.images import image_surface
    from sightline_plugins.decode.kinds import DEFAULT_MAX_PIXELS

    try:
        return image_surface(path.read_bytes(), max_pixels=DEFAULT_MAX_PIXELS).size_wh
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > _MOST_BYTES:
            _fail(file, f"has more than {_MOST_BYTES} bytes")
        return file.read_text("utf-8")
    except UnicodeDecodeError:
        _fail(file, "is no text in UTF-8")
    except OSError as error:
        _fail(file, f"cannot be read: {error.strerror}")


def _fail(file: Path, what: str) -> NoReturn:
    raise ConfigurationError(f"{file} {what}")
