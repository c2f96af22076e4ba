"""Annotations of a recording as columns: of MOT text, KITTI labels, JSON lines, COCO documents and YOLO datasets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError
from sightline.media.boxes import Boxes
from sightline_plugins.commands.evaluate.yolo_dataset import Split, dataset_file, read_dataset
from sightline_plugins.replay.files import matching_files, read_data
from sightline_plugins.replay.formats import read_recording


@dataclass(frozen=True, slots=True, eq=False)
class Annotations:
    """N boxes with their frames.

    frame       int64 (N,)     number of the frame or image, from 0
    xyxy        float32 (N, 4) pixels of the image, half-open
    confidence  float32 (N,)   1 for truth
    label       str (N,)       name of the class
    identity    int64 (N,)     number of the track, -1 for none
    ignored     bool (N,)      ground truth that counts neither way (crowds, people behind glass)
    """

    frame: npt.NDArray[np.int64]
    xyxy: Boxes
    confidence: npt.NDArray[np.float32]
    label: npt.NDArray[np.str_]
    identity: npt.NDArray[np.int64]
    ignored: npt.NDArray[np.bool_]

    @classmethod
    def from_rows(
        cls,
        *,
        frame: npt.ArrayLike,
        xyxy: npt.ArrayLike,
        confidence: npt.ArrayLike,
        label: npt.ArrayLike,
        identity: npt.ArrayLike,
        ignored: npt.ArrayLike | None = None,
    ) -> Annotations:
        """Return a table from values of any numeric dtypes."""
        frames = np.asarray(frame, np.int64).reshape(-1)
        return cls(
            frames,
            np.asarray(xyxy, np.float32).reshape(-1, 4),
            np.asarray(confidence, np.float32).reshape(-1),
            np.asarray(label, np.str_).reshape(-1),
            np.asarray(identity, np.int64).reshape(-1),
            np.zeros(len(frames), np.bool_) if ignored is None else np.asarray(ignored, np.bool_).reshape(-1),
        )

    @classmethod
    def from_boxes(
        cls, found: Sequence[tuple[int, npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]], *, labels: Sequence[str]
    ) -> Annotations:
        """Return a table from the frame, boxes (N, 4), confidences (N,) and classes (N,) found on each image."""
        boxes = [np.empty((0, 4)), *(xyxy for _, xyxy, _, _ in found)]
        classes = [number for _, _, _, class_id in found for number in class_id.tolist()]
        return cls.from_rows(
            frame=[frame for frame, xyxy, _, _ in found for _ in range(len(xyxy))],
            xyxy=np.concatenate(boxes),
            confidence=np.concatenate([np.empty(0), *(confidence for _, _, confidence, _ in found)]),
            label=[labels[number] if 0 <= number < len(labels) else str(number) for number in classes],
            identity=np.full(len(classes), -1),
        )

    def __len__(self) -> int:
        return len(self.frame)

    def select(self, rows: npt.NDArray[np.bool_]) -> Annotations:
        """Return the rows of a mask."""
        return Annotations(
            self.frame[rows],
            self.xyxy[rows],
            self.confidence[rows],
            self.label[rows],
            self.identity[rows],
            self.ignored[rows],
        )


Format: TypeAlias = Literal["mot", "kitti", "jsonl", "coco", "yolo"]

_DIGITS = re.compile(r"(\d+)")
_FLAG, _VISIBLE = 6, 1
"""The seventh value of a MOT ground truth row is 1 when the row counts, 0 when it is ignored."""


def read_annotations(
    path: Path,
    *,
    file_format: Format | None = None,
    stream: str = "",
    truth: bool = False,
    split: Split | None = None,
) -> Annotations:
    """Return everything in a file (or a folder of KITTI labels, or a `split` of a YOLO dataset). The format is guessed
    when it is not given.

    `truth` reads MOT text as truth: rows whose flag is 0 are ignored. `stream` picks one stream of JSON lines.
    Raises ConfigurationError that names the file, and the line where there is one.
    """
    if file_format == "coco" or (file_format is None and path.is_file() and path.suffix.lower() == ".json"):
        return _read_coco(path)
    if file_format in (None, "yolo") and (dataset := dataset_file(path)) is not None:
        return _read_yolo(dataset, split)
    if file_format == "yolo":
        raise ConfigurationError(f"{path} is no data.yaml of a YOLO dataset, and no folder with one")
    recorded = read_recording(path, file_format=file_format, stream=stream)
    table = Annotations.from_rows(
        frame=[item.frame for item in recorded],
        xyxy=[item.xyxy for item in recorded],
        confidence=[item.confidence for item in recorded],
        label=[item.label for item in recorded],
        identity=[item.track_id for item in recorded],
    )
    return _with_flags(table, path) if truth and _is_mot(path, file_format) else table


def _is_mot(path: Path, file_format: Format | None) -> bool:
    if file_format is not None or path.is_dir():
        return file_format == "mot"
    line = read_data(matching_files(path)[0]).partition(b"\n")[0].decode("utf-8", "replace")
    return "," in line[:1000] and not line.lstrip().startswith(("{", "["))


def _with_flags(table: Annotations, path: Path) -> Annotations:
    texts = (read_data(file).decode("utf-8") for file in matching_files(path))
    lines = [line.split(",") for text in texts for line in text.splitlines() if line.strip()]
    ignored = [len(fields) > _FLAG and float(fields[_FLAG]) == 0 for fields in lines]
    return replace(table, confidence=np.ones(len(table), np.float32), ignored=np.array(ignored, np.bool_))


def _read_yolo(file: Path, split: Split | None) -> Annotations:
    rows = list(read_dataset(file, split=split))
    return Annotations.from_rows(
        frame=[number for number, _, _, _ in rows],
        xyxy=[xyxy for _, xyxy, _, _ in rows],
        confidence=[confidence for _, _, confidence, _ in rows],
        label=[label for _, _, _, label in rows],
        identity=np.full(len(rows), -1),
    )


def _read_coco(path: Path) -> Annotations:
    try:
        document = msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise ConfigurationError(f"{path} is no JSON document: {error}") from error
    try:
        if isinstance(document, list):
            return _coco_rows(document, frames={}, names={})
        names = {entry["id"]: str(entry["name"]) for entry in document.get("categories", ())}
        return _coco_rows(document["annotations"], frames=frame_numbers(document["images"]), names=names)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigurationError(
            f"{path} is no COCO document (images, annotations, categories) and no list of results: {error!r}"
        ) from error


def frame_numbers(images: Sequence[Mapping[str, Any]]) -> dict[Any, int]:
    """Return the frame number of each image id: its place in the natural order of the file names.

    That is the order in which the `images` source reads a folder.
    """
    ordered = sorted(images, key=lambda image: _natural(str(image.get("file_name", image["id"]))))
    return {image["id"]: number for number, image in enumerate(ordered)}


def _natural(name: str) -> list[tuple[bool, int, str]]:
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in _DIGITS.split(name)]


def _coco_rows(
    annotations: Sequence[Mapping[str, Any]], *, frames: Mapping[Any, int], names: Mapping[Any, str]
) -> Annotations:
    boxes = np.array([entry["bbox"] for entry in annotations], np.float32).reshape(-1, 4)
    boxes[:, 2:] += boxes[:, :2]
    return Annotations.from_rows(
        frame=[frames[entry["image_id"]] if frames else int(entry["image_id"]) - 1 for entry in annotations],
        xyxy=boxes,
        confidence=[entry.get("score", 1.0) for entry in annotations],
        label=[names.get(entry["category_id"], str(entry["category_id"])) for entry in annotations],
        identity=[entry.get("track_id", -1) for entry in annotations],
        ignored=[bool(entry.get("iscrowd", 0)) for entry in annotations],
    )
