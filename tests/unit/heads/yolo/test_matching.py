from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sightline.devices import Device
from sightline.errors import ModelError
from sightline.graph import CheckContext, Outputs
from sightline_plugins.engines.protocol import TensorSpec
from sightline_plugins.heads.head import Signature
from sightline_plugins.heads.registry import heads_of, match_head
from sightline_plugins.heads.yolo.instances import PoseOptions
from sightline_plugins.infer.detect import Detect
from tests.unit.infer.tiny import write_shapes

Shape = tuple[int | None, ...]
RAW_5D = [(1, 3, 80, 80, 85), (1, 3, 40, 40, 85), (1, 3, 20, 20, 85)]
RAW_4D = [(1, 255, 20, 20), (1, 255, 40, 40), (1, 255, 80, 80)]
RAW_LAST = [(1, 80, 80, 3, 85), (1, 40, 40, 3, 85), (1, 20, 20, 3, 85)]
DFL = [(1, 144, 80, 80), (1, 144, 40, 40), (1, 144, 20, 20)]
DFL_APART = [(1, size, side, side) for side in (80, 40, 20) for size in (64, 80, 1)]
DFL_V6 = [(1, size, side, side) for side in (80, 40, 20) for size in (68, 80)]
FASTEST_TWO = [(1, 40, 40, 95), (1, 20, 20, 95)]
FASTEST_SIX = [(1, size, side, side) for side in (40, 20) for size in (12, 3, 80)]
PROTOTYPES = (1, 32, 160, 160)


def matched_head(
    shapes: list[Any],
    *,
    task: str = "detect",
    classes: int | None = None,
    exported_task: str | None = None,
    name: str = "output",
) -> str:
    outputs = tuple(TensorSpec(f"{name}{number}", shape, np.dtype(np.float32)) for number, shape in enumerate(shapes))
    return match_head(Signature(outputs, (640, 640), classes, exported_task=exported_task), heads_of(task).values())


@pytest.mark.parametrize(
    ("shapes", "classes", "head"),
    [
        (RAW_5D, None, "yolo_anchors"),
        (RAW_5D, 80, "yolo_anchors"),
        (RAW_LAST, None, "yolo_anchors"),
        (RAW_4D, 80, "yolo_anchors"),
        (DFL, 80, "yolo_dfl"),
        (DFL_APART, None, "yolo_dfl"),
        (DFL_V6, 80, "yolo_dfl"),
        (FASTEST_TWO, 80, "yolo_fastestv2"),
        (FASTEST_SIX, None, "yolo_fastestv2"),
        ([(1, 8400, 4), (1, 8400, 80)], None, "yolo_nas"),
        ([(1, 8400, 80), (1, 8400, 4)], 80, "yolo_nas"),
        ([(1, 25200, 85), *RAW_5D], None, "yolov5"),
        ([(1, 116, 8400), PROTOTYPES], None, "yolov8_seg"),
        ([(1, 116, None), (1, 32, None, None)], None, "yolov8_seg"),
        ([(1, 25200, 117), PROTOTYPES], None, "yolov5_seg"),
        ([(1, 300, 38), PROTOTYPES], None, "end_to_end_seg"),
        ([(1, 56, 8400)], 1, "yolov8_pose"),
        ([(1, 56, 8400)], 52, "yolov8"),
    ],
)
def test_shapes_tell_the_head(shapes: list[Any], classes: int | None, head: str) -> None:
    assert matched_head(shapes, classes=classes) == head


@pytest.mark.parametrize(
    ("shapes", "exported_task", "head"),
    [
        ([(1, 20, 8400)], "obb", "yolov8_obb"),
        ([(1, 20, None)], "obb", "yolov8_obb"),
        ([(1, 300, 7)], "obb", "end_to_end_obb"),
        ([(1, 56, 8400)], "pose", "yolov8_pose"),
        ([(1, 56, 8400)], "detect", "yolov8"),
        ([(1, 300, 57)], "pose", "end_to_end_pose"),
        ([(1, 300, 21)], "pose", "end_to_end_pose"),
        ([(1, 300, 6)], "detect", "end_to_end"),
    ],
)
def test_the_task_in_the_metadata_tells_the_head(shapes: list[Any], exported_task: str, head: str) -> None:
    assert matched_head(shapes, exported_task=exported_task) == head


def test_the_name_of_its_rows_tells_the_flat_format_of_yolo_nas() -> None:
    assert matched_head([(None, 7)], name="graph2_flat_predictions") == "yolo_nas_rows"


@pytest.mark.parametrize(
    ("task", "shapes", "head"),
    [
        ("pose", [(1, 56, 8400)], "yolov8_pose"),
        ("pose", [(1, 300, 57)], "end_to_end_pose"),
        ("segment", [(1, 116, 8400), PROTOTYPES], "yolov8_seg"),
        ("segment", [(1, 300, 38), PROTOTYPES], "end_to_end_seg"),
    ],
)
def test_a_step_of_the_task_recognises_its_models(task: str, shapes: list[Any], head: str) -> None:
    assert matched_head(shapes, task=task) == head


@pytest.mark.parametrize(
    ("shapes", "classes", "names"),
    [
        ([(1, 20, 8400)], 15, "yolov5, yolov8_obb"),
        ([(1, 56, 8400)], None, "yolov8, yolov8_pose"),
        ([(1, 204, side, side) for side in (80, 40, 20)], None, "yolo_anchors, yolo_dfl"),
        ([(1, None, 38), PROTOTYPES], None, "end_to_end_seg, yolov5_seg"),
    ],
)
def test_outputs_that_two_families_have_are_reported_with_both(
    shapes: list[Any], classes: int | None, names: str
) -> None:
    with pytest.raises(ModelError, match=f"set head to one of {names}$"):
        matched_head(shapes, classes=classes)


def test_an_export_of_oriented_boxes_needs_nothing_but_the_model(tmp_path: Path) -> None:
    path = write_shapes(tmp_path / "obb.onnx", inputs={"images": [1, 3, 64, 64]}, outputs={"output0": [1, 8, 84]})
    stamp(path, task="obb", names="{0: 'plane', 1: 'ship', 2: 'car'}")

    assert list(Detect(model=path).check(CheckContext(device=Device(), streams=("a",), outputs=Outputs()))) == []


def test_an_export_of_poses_tells_its_keypoints(tmp_path: Path) -> None:
    path = write_shapes(tmp_path / "pose.onnx", inputs={"images": [1, 3, 64, 64]}, outputs={"output0": [1, 17, 84]})
    stamp(path, task="pose", names="{0: 'box'}", kpt_shape="[6, 2]")

    plan, problems = Detect(model=path).plan()

    assert problems == []
    assert plan is not None
    assert plan.head_options == PoseOptions(keypoints=(6, 2))


def test_raw_anchor_maps_ask_for_the_version(tmp_path: Path) -> None:
    path = write_shapes(
        tmp_path / "raw.onnx",
        inputs={"images": [1, 3, 64, 64]},
        outputs={f"o{side}": [1, 3, side, side, 7] for side in (8, 4, 2)},
    )

    found = list(Detect(model=path).check(CheckContext(device=Device(), streams=("a",), outputs=Outputs())))

    assert [problem.key for problem in found] == [("head_options",)]
    assert "set version, which the outputs do not tell, to one of yolov3" in found[0].message


def stamp(path: Path, **metadata: str) -> None:
    """Write metadata into a model file."""
    import onnx

    model = onnx.load(path)
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, path)
