"""What the loops that are not the expert's are made of: capture, post-processing, a library's tracker, `json`."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt
from benchmarks.pipelines.job import Job

SIDE = 352
IOU = 0.45

Floats = npt.NDArray[np.float32]
Image = npt.NDArray[np.uint8]


def captured(job: Job) -> Iterator[tuple[Image, float]]:
    """Every frame of a stream, whole, in BGR, with its time in milliseconds."""
    for _ in range(job.passes):
        capture = cv2.VideoCapture(str(job.clip))
        while True:
            good, image = capture.read()
            if not good:
                break
            yield image, capture.get(cv2.CAP_PROP_POS_MSEC)
        capture.release()


def network_input(image: Image, *, interpolation: int = cv2.INTER_LINEAR) -> Floats:
    """The network's input of an image."""
    small = cv2.resize(image, (SIDE, SIDE), interpolation=interpolation)
    return np.ascontiguousarray((small.astype(np.float32) / 255).transpose(2, 0, 1)[None])


def published_head(cells: Floats, *, confidence: float, size_wh: tuple[int, int]) -> Floats:
    """Rows of x1 y1 x2 y2 score class from a map (85, 22, 22), cell by cell as the model's demo does it."""
    feature = cells.transpose(1, 2, 0)
    rows, columns = feature.shape[:2]
    found = []
    for row in range(rows):
        for column in range(columns):
            values = feature[row][column]
            score = values[0] ** 0.6 * values[5:].max() ** 0.4
            if score > confidence:
                x, y = (column + np.tanh(values[1])) / columns, (row + np.tanh(values[2])) / rows
                half_w, half_h = 0.5 / (1 + np.exp(-values[3])), 0.5 / (1 + np.exp(-values[4]))
                box = [x - half_w, y - half_h, x + half_w, y + half_h]
                found.append([*box, score, np.argmax(values[5:])])
    return _kept(np.array(found, np.float32).reshape(-1, 6), size_wh=size_wh)


def filtered_head(cells: Floats, *, confidence: float, size_wh: tuple[int, int]) -> Floats:
    """The same in NumPy, filtered first."""
    columns = cells.shape[2]
    flat = cells.reshape(cells.shape[0], -1)
    likely = np.flatnonzero(flat[0] > confidence ** (1 / 0.6))
    flat = flat[:, likely]
    score = flat[0] ** 0.6 * flat[5:].max(axis=0, initial=0) ** 0.4
    sure = score > confidence
    flat, likely, score = flat[:, sure], likely[sure], score[sure]
    centre = (np.stack([likely % columns, likely // columns]) + np.tanh(flat[1:3])) / columns
    half = 0.5 / (1 + np.exp(-flat[3:5]))
    found = np.vstack([centre - half, centre + half, score, flat[5:].argmax(axis=0)])
    return _kept(found.T.astype(np.float32), size_wh=size_wh)


def _kept(found: Floats, *, size_wh: tuple[int, int]) -> Floats:
    if not len(found):
        return found
    found[:, :4] *= np.array(size_wh * 2, np.float32)
    boxes = np.concatenate([found[:, :2], found[:, 2:4] - found[:, :2]], axis=1)
    rows = cv2.dnn.NMSBoxes(boxes.tolist(), found[:, 4].tolist(), 0.0, IOU)
    found = found[np.asarray(rows, np.intp).reshape(-1)]
    found[:, :4] = np.clip(found[:, :4], 0, np.array(size_wh * 2, np.float32))
    return found


class PlainStream:
    """One stream's tracker (ByteTrack of the package `trackers`) and file (`json`)."""

    def __init__(self, name: str, *, job: Job) -> None:
        warnings.simplefilter("ignore")  # the packages deprecate themselves at length
        self.name = name
        self._labels = job.label_names()
        self._file = job.path(name).open("w")
        self._detections: Any = import_module("supervision").Detections
        self._tracker = import_module("trackers").ByteTrackTracker()
        self._index = 0

    def finish(self, found: Floats, *, pts_ms: float, size_wh: tuple[int, int]) -> None:
        """Tracks and the line of a frame."""
        detections = self._detections(xyxy=found[:, :4], confidence=found[:, 4], class_id=found[:, 5].astype(np.int64))
        tracked = self._tracker.update(detections)
        objects = (
            [
                {
                    "label": self._labels[class_id],
                    "class_id": int(class_id),
                    "confidence": round(float(confidence), 3),
                    "box": [round(float(value), 2) for value in xyxy],
                    "track_id": int(track_id),
                }
                for xyxy, confidence, class_id, track_id in zip(
                    tracked.xyxy, tracked.confidence, tracked.class_id, tracked.tracker_id, strict=True
                )
            ]
            if len(tracked)
            else []
        )
        line = {"stream": self.name, "frame": self._index, "pts_ns": round(pts_ms * 1e6), "size": size_wh}
        self._file.write(json.dumps({**line, "objects": objects}) + "\n")
        self._index += 1

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def warm_up_tracker(job: Job) -> None:
    """Import and run once what the streams use."""
    PlainStream(job.names[0], job=job).close()
