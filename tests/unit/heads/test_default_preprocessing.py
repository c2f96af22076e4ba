"""Default pre-processing and suppression of families, from the file to objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper, numpy_helper

from sightline.media import Frame, PixelFormat, Stream
from sightline.media.convert import surface_from_rgb
from sightline.testing import make_batches, run_element
from sightline_plugins import Detect
from sightline_plugins.infer.plan import ModelPlan
from tests.unit.infer import tiny

SIDE = 64
BOXES = np.array([[8, 8, 24, 40], [9, 8, 24, 40], [30, 20, 60, 50], [0, 0, 4, 4]], np.float32)
SCORES = np.array([[0.9, 0.8, 0.1, 0.0], [0.0, 0.0, 0.7, 0.1]], np.float32)
Floats = npt.NDArray[np.float32]


def yunet_file(path: Path, side: int | str) -> Path:
    outputs: dict[str, list[int | str]] = {
        f"{name}_{stride}": ["batch", "cells", width]
        for name, width in (("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10))
        for stride in (8, 16, 32)
    }
    shape: list[int | str] = [1, 3, side, side if isinstance(side, int) else "width"]
    return tiny.write_shapes(path, inputs={"input": shape}, outputs=outputs)


def planned(**options: Any) -> ModelPlan:
    plan, problems = Detect(**options).plan()
    assert problems == []
    assert plan is not None
    return plan


def test_yunet_takes_images_as_large_as_they_are(tmp_path: Path) -> None:
    plan = planned(model=yunet_file(tmp_path / "yunet.onnx", "height"))

    assert plan.head is not None
    assert plan.head.name == "yunet"
    placement = plan.preprocessing.place((0, 0, 427, 640))
    assert (placement.inner_xywh, placement.size_wh) == ((0, 0, 427, 640), (448, 640))


def test_yunet_of_one_size_letterboxes_at_the_top_left(tmp_path: Path) -> None:
    plan = planned(model=yunet_file(tmp_path / "yunet.onnx", 320))

    placement = plan.preprocessing.place((0, 0, 427, 640))
    assert (placement.inner_xywh, placement.size_wh) == ((0, 0, 213, 320), (320, 320))


def test_a_size_that_is_asked_for_bounds_what_yunet_sees(tmp_path: Path) -> None:
    plan = planned(model=yunet_file(tmp_path / "yunet.onnx", "height"), size=(320, 320))

    assert plan.preprocessing.place((0, 0, 427, 640)).size_wh == (320, 320)


def nms_file(path: Path, *, gathered: bool) -> Path:
    """A network whose scores are as high as the image is bright, and that ends in NonMaxSuppression."""
    nodes = [
        helper.make_node("ReduceMax", ["images"], ["brightest"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Mul", ["all_scores", "brightest"], ["scores"]),
        helper.make_node("NonMaxSuppression", ["boxes_yxyx", "scores", "most", "overlap", "least"], ["selected"]),
        helper.make_node("Identity", ["boxes_yxyx"], ["boxes"]),
    ]
    ends: dict[str, tuple[int, list[int | str]]] = {
        "selected": (TensorProto.INT64, ["n", 3]),
        "boxes": (TensorProto.FLOAT, [1, 4, 4]),
        "scores": (TensorProto.FLOAT, [1, 2, 4]),
    }
    if gathered:
        nodes += [
            helper.make_node("Gather", ["selected", "one"], ["class_of"], axis=1),
            helper.make_node("Gather", ["selected", "two"], ["box_of"], axis=1),
            helper.make_node("Gather", ["flat_boxes", "box_of"], ["xyxy"], axis=0),
            helper.make_node("GatherND", ["scores", "selected"], ["score_of"]),
        ]
        ends = {
            "xyxy": (TensorProto.FLOAT, ["n", 4]),
            "score_of": (TensorProto.FLOAT, ["n"]),
            "class_of": (TensorProto.INT64, ["n"]),
        }
    constants = {
        "all_scores": SCORES[None],
        "boxes_yxyx": BOXES[None][..., [1, 0, 3, 2]],
        "flat_boxes": BOXES,
        "most": np.array([10]),
        "overlap": np.array([0.5], np.float32),
        "least": np.array([0.2], np.float32),
        "one": np.array(1),
        "two": np.array(2),
    }
    graph = helper.make_graph(
        nodes,
        "nms",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in ends.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return tiny.save(graph, path)


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
@pytest.mark.parametrize("gathered", [False, True])
def test_models_that_end_in_nonmaxsuppression_need_nothing_said(tmp_path: Path, engine: str, gathered: bool) -> None:
    path = nms_file(tmp_path / "nms.onnx", gathered=gathered)
    frames = [
        Frame(Stream(str(level)), 0, 0, surface_from_rgb(np.full((SIDE, SIDE, 3), level, np.uint8), pixel_format=form))
        for level, form in ((255, PixelFormat.RGB24), (0, PixelFormat.RGB24), (255, PixelFormat.RGB24))
    ]

    found = [
        view.objects
        for batch in run_element(Detect.model_validate({"model": path, "engine": engine}), make_batches(frames, size=2))
        for view in batch
    ]

    assert [len(objects) for objects in found] == [2, 0, 2]
    assert found[0].xyxy.tolist() == BOXES[[0, 2]].tolist()
    assert found[0].confidence.tolist() == pytest.approx([0.9, 0.7], abs=1e-3)
    assert found[0].class_id.tolist() == [0, 1]
