from __future__ import annotations

import numpy as np
import pytest

from sightline.errors import ModelError
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.heads.head import Signature
from sightline_plugins.heads.registry import heads_of, match_head

Shape = tuple[int | None, ...]


def specs(*shapes: Shape) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(f"output{number}", shape, np.dtype(np.float32)) for number, shape in enumerate(shapes))


@pytest.mark.parametrize(
    ("shapes", "side", "classes", "head"),
    [
        ([(1, 85, 22, 22)], 352, None, "fastestdet"),
        ([(1, 3549, 85)], 416, None, "yolox"),
        ([(1, 3549, 85)], 416, 80, "yolox"),
        ([(1, 25200, 85)], 640, None, "yolov5"),
        ([(1, 25200, 6)], 640, 1, "yolov5"),
        ([(1, 84, 8400)], 640, None, "yolov8"),
        ([(1, 6, 8400)], 640, 2, "yolov8"),
        ([(1, 8400, 84)], 640, 80, "yolov8"),
        ([(1, 84, None)], 640, None, "yolov8"),
        ([(1, 300, 6)], 640, 80, "end_to_end"),
        ([(1, None, 6)], 640, 80, "end_to_end"),
        ([(None, 7)], 640, None, "end_to_end"),
        ([(1, 300), (1, 300, 4), (1, 300)], 640, None, "end_to_end"),
        ([(1, 1), (1, 100, 4), (1, 100), (1, 100)], 640, None, "end_to_end"),
    ],
)
def test_the_head_is_matched_by_the_shapes(shapes: list[Shape], side: int, classes: int | None, head: str) -> None:
    assert match_head(Signature(specs(*shapes), (side, side), classes), heads_of("detect").values()) == head


def test_shapes_that_fit_two_heads_are_an_error_that_names_them() -> None:
    with pytest.raises(ModelError, match="set head to one of yolov5, yolox"):
        match_head(Signature(specs((1, None, 85)), (640, 640)), heads_of("detect").values())


@pytest.mark.parametrize("shapes", [[(1, 512, 7), (1, 3)], [(1, 7, 9, 3, 2)]])
def test_shapes_that_fit_no_head_are_an_error(shapes: list[Shape]) -> None:
    with pytest.raises(ModelError, match="fit no head"):
        match_head(Signature(specs(*shapes), (224, 224)), heads_of("detect").values())
