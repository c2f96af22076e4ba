"""Measures an exported detector on encoded and decoded frames of scenes that it never saw."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import openvino

from tools.train.augment import NETWORK_WH, PAD_LEVEL
from tools.train.coded import coded_frames
from tools.train.precision import Detections, average_precision, judge
from tools.train.worlds import FIRST_EVALUATION_SEED
from tools.world.arrays import Floats, RgbImage
from tools.world.scene import LABELS

NMS_IOU = 0.6
LEAST_CONFIDENCE = 0.02


@dataclass(frozen=True, slots=True)
class Score:
    """What was measured: AP at IoU 0.5 of each class and how many objects were demanded."""

    average_precision: dict[str, float]
    demanded: dict[str, int]
    images: int

    @property
    def mean(self) -> float:
        """The mean over the classes."""
        return float(np.nanmean(list(self.average_precision.values())))


class OnnxDetector:
    """The exported detector as plain code: letterbox, network, suppression. Independent of the framework."""

    def __init__(self, model: Path) -> None:
        self._network = openvino.Core().compile_model(str(model), "CPU", {"INFERENCE_NUM_THREADS": 1})

    def find(self, image: RgbImage, *, confidence: float = LEAST_CONFIDENCE, nms_iou: float = NMS_IOU) -> Detections:
        """What is in an RGB image, boxes in its pixels."""
        height, width = image.shape[:2]
        scale = min(NETWORK_WH[0] / width, NETWORK_WH[1] / height)
        inner = (round(width * scale), round(height * scale))
        left, top = (NETWORK_WH[0] - inner[0]) // 2, (NETWORK_WH[1] - inner[1]) // 2
        boxed = np.full((NETWORK_WH[1], NETWORK_WH[0], 3), PAD_LEVEL, np.uint8)
        boxed[top : top + inner[1], left : left + inner[0]] = cv2.resize(image, inner, interpolation=cv2.INTER_LINEAR)
        images = np.ascontiguousarray(boxed.transpose(2, 0, 1)[None], dtype=np.float32) / 255
        answer = np.asarray(self._network(images)[0])[0].astype(np.float64)
        scores = answer[4:].max(axis=0)
        kept = scores >= confidence
        answer, scores = answer[:, kept], scores[kept]
        class_id = answer[4:].argmax(axis=0)
        corner = (answer[:2] - answer[2:4] / 2 - np.array([[left], [top]])) / scale
        xywh = np.concatenate([corner, answer[2:4] / scale]).T
        labels = class_id.astype(np.int32).tolist()
        kept_rows = cv2.dnn.NMSBoxesBatched(xywh.tolist(), scores.tolist(), labels, confidence, nms_iou)
        chosen = np.asarray(kept_rows, dtype=np.int64).reshape(-1)
        xyxy = np.clip(
            np.concatenate([xywh[chosen, :2], xywh[chosen, :2] + xywh[chosen, 2:]], axis=1),
            0,
            [width, height, width, height],
        )
        return Detections(xyxy, class_id[chosen], scores[chosen])


def evaluate(*, model: Path, scenes: int, threshold: float = 0.5) -> Score:
    """AP of each class over `scenes` scenes of the evaluation seeds."""
    detector = OnnxDetector(model)
    rows: dict[str, list[Floats]] = {label: [] for label in LABELS}
    demanded = dict.fromkeys(LABELS, 0)
    images = 0
    for seed in range(FIRST_EVALUATION_SEED, FIRST_EVALUATION_SEED + scenes):
        for image, expected in coded_frames(seed):
            found = detector.find(image)
            images += 1
            for class_id, label in enumerate(LABELS):
                judged, wanted = judge(found, expected, class_id=class_id, threshold=threshold)
                rows[label].append(judged)
                demanded[label] += wanted
    precisions = {label: average_precision(np.concatenate(rows[label]), demanded=demanded[label]) for label in LABELS}
    return Score(precisions, demanded, images)
