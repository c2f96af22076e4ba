"""A frame with the attributes of Ultralytics' `Results`."""

from __future__ import annotations

import numpy as np

from sightline.media import Objects, Origin
from sightline_plugins.interop import Results
from tests.unit.interop.frames import HEIGHT, WIDTH, rich_objects, view


def plain(*, track_id: list[int] | None = None) -> Results:
    objects = Objects.from_columns(
        frame=[0, 0],
        xyxy=[(16, 12, 48, 36), (0, 0, 64, 24)],
        confidence=[0.5, 0.25],
        class_id=[1, 7],
        track_id=track_id,
        source=Origin("detect-1", ("person", "car")),
    )
    return Results(view(objects))


def test_boxes_come_in_pixels_and_fractions() -> None:
    boxes = plain().boxes

    assert boxes is not None
    assert boxes.xywh.tolist() == [[32, 24, 32, 24], [32, 12, 64, 24]]
    assert boxes.xywhn.tolist() == [[0.5, 0.5, 0.5, 0.5], [0.5, 0.25, 1, 0.5]]
    assert boxes.xyxyn.tolist() == [[0.25, 0.25, 0.75, 0.75], [0, 0, 1, 0.5]]
    assert boxes.cpu().numpy().conf.tolist() == [0.5, 0.25]


def test_columns_are_in_the_order_of_the_package_with_and_without_tracks() -> None:
    without, tracked = plain().boxes, plain(track_id=[9, -1]).boxes

    assert without is not None
    assert tracked is not None
    assert without.id is None
    assert without.data.tolist() == [[16, 12, 48, 36, 0.5, 1], [0, 0, 64, 24, 0.25, 7]]
    assert tracked.data[:, 4].tolist() == [9, -1]


def test_names_hold_every_number_that_occurs() -> None:
    results = plain()

    assert results.names == {0: "person", 1: "car", 7: "7"}
    assert [results.names[int(box.cls[0])] for box in results.boxes or ()] == ["car", "7"]


def test_rows_are_taken_by_index_slice_and_mask() -> None:
    boxes = plain().boxes

    assert boxes is not None
    assert boxes[1].xyxy.tolist() == [[0, 0, 64, 24]]
    assert len(boxes[:1]) == 1
    assert boxes[boxes.conf > 0.3].cls.tolist() == [1]


def test_parts_that_no_step_made_are_none() -> None:
    results = plain()

    assert (results.masks, results.keypoints, results.obb, results.probs) == (None, None, None, None)
    assert results.orig_shape == (HEIGHT, WIDTH)
    assert results.orig_img.shape == (HEIGHT, WIDTH, 3)


def test_masks_keypoints_and_oriented_boxes_are_read() -> None:
    results = Results(view(rich_objects()))

    assert results.boxes is None
    assert results.masks is not None
    assert results.masks.data.shape == (2, HEIGHT, WIDTH)
    assert results.masks.data.sum() == np.tri(30, 20).sum()
    assert results.keypoints is not None
    assert results.keypoints.xyn[1, 0].tolist() == [30.5 / WIDTH, 12 / HEIGHT]
    assert results.obb is not None
    assert results.obb.xyxyxyxyn[0, 2].tolist() == np.array([25 / WIDTH, 40 / HEIGHT], np.float32).tolist()
