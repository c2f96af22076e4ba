"""Which head matches the outputs of other families than YOLO."""

from __future__ import annotations

from typing import Any

import pytest

from sightline.errors import ModelError
from sightline_plugins.heads.head import MatchScore
from sightline_plugins.heads.registry import HEADS
from tests.unit.heads.decoding import matched, signature_of

API = ("detection_boxes", "detection_classes", "detection_scores")
FCOS_MAPS = [(1, width, side, side) for width in (80, 4, 1) for side in (80, 40, 20, 10, 5)]
RETINA_MAPS = [(1, 9 * width, side, side) for width in (80, 4) for side in (80, 40, 20, 10, 5)]
SCRFD = [(rows, width) for width in (1, 4, 10) for rows in (12800, 3200, 800)]
YUNET = [(1, None, width) for width in (1, 1, 4, 10) for _ in range(3)]


@pytest.mark.parametrize(
    ("outputs", "size_wh", "classes", "head"),
    [
        ([(1, 3598, 112)], (416, 416), None, "nanodet_plus"),
        ([(1, 2125, 112)], (320, 320), 80, "nanodet_plus"),
        ([(1, 2125, 33)], (320, 320), 1, "nanodet_plus"),
        ([(1, 2100, 112)], (320, 320), 80, "nanodet"),
        ([(1, n, width) for n in (1600, 400, 100) for width in (80, 32)], (320, 320), 80, "nanodet"),
        ([(1, n, width) for width in (80, 32) for n in (1600, 400, 100, 25)], (320, 320), None, "picodet"),
        (FCOS_MAPS, (640, 640), None, "fcos"),
        ([(1, 8525, 80), (1, 8525, 4), (1, 8525, 1)], (640, 640), None, "fcos"),
        ([(1, 80, 128, 128), (1, 2, 128, 128), (1, 2, 128, 128)], (512, 512), None, "centernet"),
        ([(1, 3, 34, 60), (1, 12, 34, 60)], (960, 544), None, "detectnet_v2"),
        ([(None, 12, 34, 60), (None, 3, 34, 60)], (960, 544), None, "detectnet_v2"),
        ([(1, 3000, 21), (1, 3000, 4)], (300, 300), None, "ssd"),
        ([(1, 8732, 4), (1, 8732, 91)], (300, 300), None, "ssd"),
        ([(1, 1917, 4), (1, 1917, 91)], (300, 300), 90, "ssd"),
        ([("loc", (1, 77, 4)), ("conf", (1, 77, 3)), ("priors", (1, 77, 4))], (96, 96), None, "ssd"),
        (RETINA_MAPS, (640, 640), None, "retinanet"),
        ([(1, 76725, 80), (1, 76725, 4)], (640, 640), None, "retinanet"),
        ([(1, 100, 92), (1, 100, 4)], (800, 800), None, "detr"),
        ([(1, 100, 6), (1, 100, 4)], (800, 800), 5, "detr"),
        ([(1, 300, 80), (1, 300, 4)], (640, 640), None, "rt_detr"),
        ([(1, 300, 4), (1, 300, 80)], (640, 640), 80, "rt_detr"),
        ([("dets", (1, 300, 4)), ("labels", (1, 300, 91))], (560, 560), None, "rf_detr"),
        (
            [("labels", (None, None), "i8"), ("boxes", (None, None, 4)), ("scores", (None, None))],
            (320, 320),
            80,
            "detr_deployed",
        ),
        ([("boxes", (None, 4)), ("scores", (None,)), ("labels", (None,), "i8")], (300, 300), None, "end_to_end"),
        ([(None, 4), (None,)], (300, 300), None, "end_to_end"),
        (
            [(API[0], (1, 100, 4)), (API[1], (1, 100)), (API[2], (1, 100)), ("num_detections", (1,))],
            (640, 640),
            None,
            "object_detection_api",
        ),
        (
            [("num_detections", (1, 1), "i4"), (API[0], (1, 100, 4)), (API[2], (1, 100)), (API[1], (1, 100), "i4")],
            (640, 640),
            None,
            "end_to_end",
        ),
        ([("rows", (None, 6)), ("count", (None,), "i4")], (640, 640), None, "paddle"),
        ([(1, 1, 100, 7)], (300, 300), None, "detection_output"),
        (
            [("selected", (None, 3), "i8"), ("boxes", (1, 8400, 4)), ("scores", (1, 80, 8400))],
            (640, 640),
            None,
            "selected_indices",
        ),
        (YUNET, (0, 0), None, "yunet"),
        (SCRFD, (640, 640), None, "scrfd"),
        (SCRFD[:6], (640, 640), 1, "scrfd"),
        ([(1, 16800, 4), (1, 16800, 2), (1, 16800, 10)], (640, 640), None, "retinaface"),
        ([("scores", (1, 4420, 2)), ("boxes", (1, 4420, 4))], (320, 240), None, "ultraface"),
    ],
)
def test_the_head_is_matched(outputs: list[Any], size_wh: tuple[int, int], classes: int | None, head: str) -> None:
    assert matched(*outputs, size_wh=size_wh, classes=classes) == head


@pytest.mark.parametrize(
    ("outputs", "size_wh", "named"),
    [
        ([(1, 2125, 112)], (320, 320), "nanodet_plus, yolox"),
        ([(1, 100, 21), (1, 100, 4)], (640, 640), "detr, rt_detr"),
    ],
)
def test_outputs_that_fit_several_heads_are_an_error_that_names_them(
    outputs: list[Any], size_wh: tuple[int, int], named: str
) -> None:
    with pytest.raises(ModelError, match=f"set head to one of {named}"):
        matched(*outputs, size_wh=size_wh)


@pytest.mark.parametrize(
    "outputs",
    [
        [(1, width, side, side) for width in (80, 4, 9) for side in (80, 40, 20, 10, 5)],
        [(1, width, side, side) for width in (80, 9, 1) for side in (80, 40, 20, 10, 5)],
        [(1, 8525, 80), (1, 8525, 4), (1, 8525, 2)],
        [(1, 8525, 80), (1, 8525, 4), (1, 8524, 1)],
    ],
    ids=["no centerness", "no distances", "two columns of centerness", "a row less"],
)
def test_what_lacks_a_part_of_fcos_is_not_fcos(outputs: list[Any]) -> None:
    assert HEADS["fcos"].match_score(signature_of(*outputs)) is MatchScore.NONE


@pytest.mark.parametrize(
    ("head", "shapes", "classes"),
    [
        ("fcos", [(1, 8525, 80), (1, 8525, 4), (1, 8525, 1)], 80),
        ("fcos", [(1, 8525, 80), (1, 8525, 4), (1, 8525, 7)], None),
        ("retinanet", [(1, 76725, 80), (1, 76725, 4)], 80),
        ("retinanet", [(1, 76725, 4), (1, 76725, 80)], 80),
        ("detr", [(1, 100, 92), (1, 100, 4)], 91),
        ("detr", [(1, 100, 4), (1, 100, 92)], 91),
        ("rt_detr", [(1, 300, 80), (1, 300, 4)], 80),
        ("yolov8", [(1, 84, 8400)], 80),
        ("yolov5", [(1, 25200, 85)], 80),
        ("yolox", [(1, 8400, 85)], 80),
        ("retinaface", [(1, 16800, 4), (1, 16800, 2), (1, 16800, 10)], 1),
    ],
)
def test_shapes_tell_the_number_of_classes(head: str, shapes: list[Any], classes: int | None) -> None:
    assert HEADS[head].count_classes(shapes) == classes
