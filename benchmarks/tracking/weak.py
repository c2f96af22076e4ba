"""Sequences as weak detectors see them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnxruntime as ort
from benchmarks.tracking.sequences import Boxes, Floats, Sequence

from sightline.media.boxes import iou_matrix


def squeezed(sequence: Sequence, *, low: float = 0.35, high: float = 0.6) -> Sequence:
    """The sequence as a weak detector would see it: confidences mapped linearly from 0..1 to `low`..`high`."""
    detections = sequence.detections
    confidence = (low + (high - low) * detections.confidence).astype(np.float32)
    return replace(sequence, name=f"{sequence.name}, squeezed", detections=detections._replace(confidence=confidence))


def seen_by_fastestdet(sequence: Sequence, *, images: Path, model: Path, least: float = 0.3) -> Sequence:
    """The sequence with the people that FastestDet finds in its images, by plain ONNX Runtime."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    columns = []
    for frame, path in enumerate(sorted(images.glob("*.jpg")), 1):
        xyxy, confidence = _people(session, cv2.imread(str(path)), least=least)
        number = np.full(len(xyxy), frame)
        columns.append(Boxes(number, number, xyxy, confidence))
    detections = Boxes(*(np.concatenate(column) for column in zip(*columns, strict=True)))
    return replace(sequence, name=f"{sequence.name}, FastestDet", detections=detections)


def _people(session: Any, image: Any, *, least: float) -> tuple[Floats, Floats]:
    height, width = image.shape[:2]
    small = cv2.resize(image, (352, 352), interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    cells = session.run(None, {"input.1": small.transpose(2, 0, 1)[None]})[0][0]
    score = cells[0] ** 0.6 * cells[5:].max(axis=0) ** 0.4
    row, column = ((score >= least) & (cells[5:].argmax(axis=0) == 0)).nonzero()
    count = len(score)
    centre = (np.stack([column, row]) + np.tanh(cells[1:3, row, column])) / count
    half = 0.5 / (1 + np.exp(-cells[3:5, row, column]))
    xyxy = (np.concatenate([centre - half, centre + half]).T * [width, height, width, height]).astype(np.float32)
    order = np.argsort(-score[row, column], kind="stable")
    xyxy, confidence = xyxy[order], score[row, column][order]
    overlap = iou_matrix(xyxy, xyxy)
    kept: list[int] = []
    for index in range(len(order)):
        if not (overlap[index, kept] > 0.45).any():
            kept.append(index)
    return xyxy[kept], confidence[kept]


def as_tall_as_the_truth(sequence: Sequence) -> Sequence:
    """Without the detections lower than any box of the truth, which does not say what they are."""
    detections, truth = sequence.detections.xyxy, sequence.truth.xyxy
    least = (truth[:, 3] - truth[:, 1]).min()
    return replace(sequence, detections=sequence.detections.where(detections[:, 3] - detections[:, 1] >= least))
