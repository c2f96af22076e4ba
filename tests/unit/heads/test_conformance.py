"""Every installed head keeps the contract: random outputs of the family's shapes at an input of 64 x 64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from sightline_plugins.heads.conformance import HeadConformance
from sightline_plugins.heads.head import Array
from sightline_plugins.heads.registry import HEADS

Case = tuple[list[Any], dict[str, Any]]
LABELS = {"labels": ("a", "b", "c")}
FACE = {"labels": ("face",)}
CELLS = 8 * 8 + 4 * 4 + 2 * 2
FOUR = CELLS + 1


def maps(*channels: int, strides: Sequence[int] = (8, 16, 32)) -> list[tuple[int, ...]]:
    return [(1, channel, -(-64 // stride), -(-64 // stride)) for channel in channels for stride in strides]


FCOS_CELLS = CELLS + 1 + 1
NAMED = {"output_names": ("detection_boxes", "detection_classes", "detection_scores", "num_detections")}
CASES: Mapping[str, Case] = {
    "fastestdet": ([(1, 8, 4, 4)], LABELS),
    "yolo_fastestv2": ([(1, 4, 4, 18), (1, 2, 2, 18)], LABELS),
    "yolox": ([(1, CELLS, 8)], LABELS),
    "yolov5": ([(1, 3 * CELLS, 8)], LABELS),
    "yolov8": ([(1, 7, CELLS)], LABELS),
    "yolo_anchors": (maps(24), {**LABELS, "options": {"version": "yolov5"}}),
    "yolo_dfl": (maps(4 * 16 + 3), LABELS),
    "yolo_nas": ([(1, CELLS, 4), (1, CELLS, 3)], LABELS),
    "yolo_nas_rows": ([(9, 7)], {**LABELS, "output_names": ("graph2_flat_predictions",)}),
    "yolov8_obb": ([(1, 8, CELLS)], LABELS),
    "end_to_end_obb": ([(1, 20, 7)], LABELS),
    "yolov5_seg": ([(1, 3 * CELLS, 16), (1, 8, 16, 16)], LABELS),
    "yolov8_seg": ([(1, 15, CELLS), (1, 8, 16, 16)], LABELS),
    "end_to_end_seg": ([(1, 20, 14), (1, 8, 16, 16)], LABELS),
    "yolov8_pose": ([(1, 5 + 51, CELLS)], {"labels": ("person",)}),
    "end_to_end_pose": ([(1, 100, 57)], {"labels": ("person",)}),
    "centernet": ([(1, 3, 16, 16), (1, 2, 16, 16), (1, 2, 16, 16)], LABELS),
    "detectnet_v2": ([(1, 3, 4, 4), (1, 12, 4, 4)], LABELS),
    "nanodet": ([(1, CELLS, 3 + 32)], LABELS),
    "nanodet_plus": ([(1, FOUR, 3 + 32)], LABELS),
    "picodet": ([(1, cells, width) for width in (3, 32) for cells in (64, 16, 4, 1)], LABELS),
    "fcos": ([(1, FCOS_CELLS, 3), (1, FCOS_CELLS, 4), (1, FCOS_CELLS, 1)], LABELS),
    "ssd": ([(1, 144, 4), (1, 144, 4)], LABELS),
    "retinanet": ([(1, 9 * FCOS_CELLS, 3), (1, 9 * FCOS_CELLS, 4)], LABELS),
    "detr": ([(1, 100, 4), (1, 100, 4)], LABELS),
    "rt_detr": ([(1, 300, 3), (1, 300, 4)], LABELS),
    "rf_detr": ([(1, 300, 4), (1, 300, 3)], {**LABELS, "output_names": ("dets", "labels")}),
    "yunet": ([(1, side * side, width) for width in (1, 1, 4, 10) for side in (8, 4, 2)], FACE),
    "scrfd": ([(2 * side * side, width) for width in (1, 4, 10) for side in (8, 4, 2)], FACE),
    "ultraface": ([(1, 235, 2), (1, 235, 4)], FACE),
    "retinaface": ([(1, 2 * CELLS, 4), (1, 2 * CELLS, 2), (1, 2 * CELLS, 10)], FACE),
    "end_to_end": ([(1, 20, 6)], LABELS),
    "end_to_end_normalized": ([(1, 20, 6)], LABELS),
    "detr_deployed": ([((1, 20), 3), (1, 20, 4), (1, 20)], {**LABELS, "output_names": ("labels", "boxes", "scores")}),
    "object_detection_api": ([(1, 9, 4), (1, 9), (1, 9), ((1,), 9)], {**LABELS, **NAMED}),
    "selected_indices": ([((9, 3), 0), (1, 20, 4), (1, 3, 20)], LABELS),
    "paddle": ([(9, 6), ((1,), 9)], LABELS),
    "detection_output": ([(1, 1, 9, 7)], LABELS),
    "classify": ([(1, 3)], LABELS),
    "tags": ([(1, 3)], {**LABELS, "output_ops": ("Sigmoid",)}),
    "embed": ([(1, 16)], {}),
    "ctc": ([(1, 12, 4)], LABELS),
    "class_map": ([(1, 3, 16, 16)], LABELS),
    "heatmap": ([(1, 5, 16, 16)], {}),
    "simcc": ([(1, 5, 128), (1, 5, 128)], {}),
}


def test_every_installed_head_has_a_case() -> None:
    assert sorted(CASES) == list(HEADS)


@pytest.mark.parametrize("name", CASES)
class TestInstalledHeads(HeadConformance):
    @pytest.fixture(autouse=True)
    def _use(self, name: str) -> None:
        self.shapes, settings = CASES[name]
        vars(self).update(head=HEADS[name], confidence=0.05, **settings)

    def outputs(self) -> Sequence[Array]:
        random = np.random.default_rng(1)
        found: list[Array] = []
        for shape in self.shapes:
            if isinstance(shape[0], tuple):
                found.append(np.full(shape[0], shape[1], np.int64))
            else:
                found.append(np.asarray(random.random(shape, np.float32)))
        return found
