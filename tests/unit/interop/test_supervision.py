"""supervision itself reads what is written for it, and what it gives becomes the same objects again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sightline.errors import ConfigurationError, MissingExtra
from sightline.media import Batch, Objects, Origin
from sightline_plugins.interop import Results, from_supervision, to_supervision, to_supervision_keypoints
from tests.unit.interop.frames import HEIGHT, WIDTH, package, rich_objects, view


@pytest.fixture(scope="module")
def sv() -> Any:
    return package("supervision")


def test_objects_come_back_as_they_were(sv: Any) -> None:
    objects = rich_objects()

    detections = to_supervision(view(objects))
    back = from_supervision(detections, element="detect-1")

    assert isinstance(detections, sv.Detections)
    assert back.origins == (Origin("detect-1", ("person", "1", "car")),)
    for name in ("frame", "xyxy", "confidence", "class_id", "track_id"):
        assert np.array_equal(getattr(back, name), getattr(objects, name)), name
    for name in ("color", "speed", "embedding"):
        assert np.array_equal(back.extra[name], objects.extra[name], equal_nan=name == "speed"), name
    assert np.array_equal(back.extra["corners"][0], objects.extra["corners"][0])
    assert back.extra["corners"][1].tolist() == [[30.25, 8], [40, 8], [40, 28.5], [30.25, 28.5]]
    assert np.array_equal(back[0].mask.in_image((WIDTH, HEIGHT)), objects[0].mask.in_image((WIDTH, HEIGHT)))  # type: ignore[union-attr]
    assert back[1].mask is not None
    assert back[1].mask.area == 0


def test_supervision_counts_and_filters_what_is_written_for_it(sv: Any) -> None:
    detections = to_supervision(view(rich_objects()))
    zone = sv.PolygonZone(polygon=np.array([(0, 0), (28, 0), (28, 47), (0, 47)]))

    cars = detections[detections.data["class_name"] == "car"]

    assert zone.trigger(detections).tolist() == [True, False]
    assert cars.tracker_id.tolist() == [2**25]
    assert cars.area.tolist() == [np.tri(30, 20).sum()]
    assert detections.metadata == {"stream": "gate", "frame": 7, "pts_ns": detections.metadata["pts_ns"]}


def test_a_filtered_selection_keeps_its_own_rows_only(sv: Any) -> None:
    frame = view(rich_objects())

    detections = to_supervision(frame, objects=frame.objects.select(np.array([1])))

    assert detections.data["class_name"].tolist() == ["person"]
    assert detections.tracker_id is None


def test_keypoints_are_those_of_objects_that_have_any(sv: Any) -> None:
    points = to_supervision_keypoints(view(rich_objects()))

    assert isinstance(points, sv.KeyPoints)
    assert points.xy.tolist() == [[[30.5, 12], [34, 20], [0, 0]]]
    assert points.visible.tolist() == [[True, True, False]]
    assert points.data["class_name"].tolist() == ["person"]


def test_an_empty_frame_stays_empty(sv: Any) -> None:
    frame = view(Objects.empty())

    assert len(to_supervision(frame)) == 0
    assert len(to_supervision_keypoints(frame)) == 0
    assert len(from_supervision(sv.Detections.empty())) == 0
    assert len(sv.Detections.from_ultralytics(Results(frame))) == 0


def test_classes_of_two_models_are_told_apart(sv: Any) -> None:
    first = Objects.from_columns(
        frame=[0], xyxy=[(0, 0, 9, 9)], confidence=[1], class_id=[0], source=Origin("a", ("car", "person"))
    )
    second = Objects.from_columns(
        frame=[0, 0],
        xyxy=[(1, 1, 2, 2), (2, 2, 3, 3)],
        confidence=[1, 1],
        class_id=[0, 1],
        source=Origin("b", ("face", "person")),
    )

    detections = to_supervision(view(Objects.concat([first, second])))

    assert detections.data["class_name"].tolist() == ["car", "face", "person"]
    assert detections.class_id.tolist() == [0, 2, 1]


def test_a_tracker_of_supervision_gives_objects_for_a_batch(sv: Any) -> None:
    detections = sv.Detections(
        xyxy=np.array([(1, 2, 30, 40), (5, 5, 20, 20)], np.float64),
        class_id=np.array([70_000, 3]),
        tracker_id=np.array([4, 5]),
        data={"class_name": ["tram", "bus"], "plate": ["A 1", "B 2"]},
    )

    batch = Batch((view(Objects.empty()).frame,), from_supervision(detections))
    objects = next(iter(batch)).objects

    assert [(one.label, one.track_id, one.confidence, one.attributes) for one in objects] == [
        ("tram", 4, 1.0, {"plate": "A 1"}),
        ("bus", 5, 1.0, {"plate": "B 2"}),
    ]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"xyxy": np.array([[5.0, 5, 1, 9]])}, "x1 <= x2"),
        ({"xyxy": np.array([[1.0, 2, 3, 4]]), "data": {"mask": ["x"]}}, r"data\['mask'\]"),
    ],
    ids=["turned over", "a name that is taken"],
)
def test_what_cannot_be_objects_is_refused(sv: Any, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        from_supervision(sv.Detections(**fields))


def test_boxes_that_were_made_no_numbers_are_refused(sv: Any) -> None:
    detections = sv.Detections(xyxy=np.array([[1.0, 2, 3, 4]]))
    detections.xyxy[0, 2] = np.nan

    with pytest.raises(ConfigurationError, match="finite"):
        from_supervision(detections)


def test_without_the_package_the_command_that_installs_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "supervision", None)

    with pytest.raises(MissingExtra, match=r"pip install 'sightline\[supervision\]'"):
        to_supervision(view(Objects.empty()))


def test_supervision_reads_results_as_those_of_ultralytics(sv: Any) -> None:
    objects = rich_objects()
    upright = Objects.from_columns(
        frame=objects.frame,
        xyxy=objects.xyxy,
        confidence=objects.confidence,
        class_id=objects.class_id,
        source=objects.origins[0],
        extra={"mask": objects.extra["mask"], "keypoints": objects.extra["keypoints"]},
    )

    oriented = sv.Detections.from_ultralytics(Results(view(objects)))
    boxes = sv.Detections.from_ultralytics(Results(view(upright)))
    points = sv.KeyPoints.from_ultralytics(Results(view(upright)))

    assert oriented.data["xyxyxyxy"].shape == (2, 4, 2)
    assert np.array_equal(boxes.xyxy, objects.xyxy)
    assert boxes.data["class_name"].tolist() == ["car", "person"]
    assert np.array_equal(boxes.mask, to_supervision(view(upright)).mask)
    assert points.xy[1].tolist() == [[30.5, 12], [34, 20], [0, 0]]
