"""What models find beyond boxes, as it is drawn: masks, skeletons, landmarks, oriented boxes, attributes, children."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from sightline.media import Batch, Objects, Origin, PixelFormat, Skeleton
from sightline.media.shapes import Mask
from sightline.testing import make_frames, run_element
from sightline_plugins.draw.draw import Draw
from sightline_plugins.draw.shapes import Style, below, captions_of

SOURCE = Origin("detect-1", ("person", "face"))
NOTHING = {"boxes": False, "labels": False, "ids": False, "confidence": False, "trail": "0s"}
LINE = Skeleton(("head", "foot"), ((0, 1),))


def objects_at(*boxes: tuple[float, float, float, float], **columns: npt.NDArray[Any]) -> Objects:
    count = len(boxes)
    found = Objects.from_columns(
        frame=np.zeros(count),
        xyxy=np.array(boxes),
        confidence=np.ones(count),
        class_id=np.zeros(count),
        source=SOURCE,
    )
    return found.with_columns(**columns)


def column(*values: object) -> npt.NDArray[np.object_]:
    made = np.empty(len(values), np.object_)
    made[:] = values
    return made


def changed(objects: Objects, *, pixel_format: PixelFormat = PixelFormat.I420, **options: object) -> Any:
    """Mask of the luma (or RGB) samples that drawing changed in an image of 160 x 120."""
    (frame,) = make_frames(1, size_wh=(160, 120), pixel_format=pixel_format)
    (result,) = run_element(Draw.model_validate(NOTHING | options), [Batch((frame,), objects)])
    difference = result.frames[0].surface.planes[0] != frame.surface.planes[0]
    return difference.reshape(120, 160, -1).any(axis=2)


def masked(left: int, top: int, *, width: int = 40, height: int = 30) -> Objects:
    mask = Mask(left, top, np.ones((height, width), np.bool_))
    return objects_at((left, top, left + width, top + height), mask=column(mask))


def with_points(*points: tuple[float, float, float], skeleton: Skeleton | None = LINE) -> Objects:
    keypoints = np.array([points], np.float32)
    return objects_at((10, 10, 150, 110), keypoints=keypoints, skeleton=column(skeleton))


@pytest.mark.parametrize("pixel_format", list(PixelFormat))
@pytest.mark.parametrize(("left", "top"), [(21, 31), (-15, -9), (140, 101), (-40, 50), (200, 200)])
def test_a_mask_is_tinted_wherever_it_lies(pixel_format: PixelFormat, left: int, top: int) -> None:
    difference = changed(masked(left, top), pixel_format=pixel_format)

    inside = difference[max(top, 0) : max(top + 30, 0), max(left, 0) : max(left + 40, 0)]
    assert not inside.size or inside.mean() > 0.9
    difference[max(top - 1, 0) : max(top + 31, 0), max(left - 1, 0) : max(left + 41, 0)] = False
    assert not difference.any()


def test_masks_let_the_image_shine_through() -> None:
    (frame,) = make_frames(1, size_wh=(160, 120))
    (result,) = run_element(Draw.model_validate(NOTHING), [Batch((frame,), masked(20, 20))])
    inside = np.s_[25:45, 25:55]

    before, after = (surface.planes[0][inside].astype(float) for surface in (frame.surface, result.frames[0].surface))
    assert np.corrcoef(before.ravel(), after.ravel())[0, 1] > 0.99


def test_keypoints_are_joined_as_their_skeleton_says() -> None:
    difference = changed(with_points((40, 20, 1), (40, 100, 1)))

    assert difference[20:100, 40].all()
    assert not difference[:, :34].any()
    assert not difference[:, 46:].any()


def test_points_without_a_skeleton_are_dots() -> None:
    difference = changed(with_points((40, 20, 1), (40, 100, 1), skeleton=None))

    assert difference[20, 40]
    assert difference[100, 40]
    assert not difference[30:90].any()


@pytest.mark.parametrize("unsure", [(40, 100, 0.1), (np.nan, np.nan, np.nan), (np.inf, 5, 1)])
def test_points_that_are_unsure_or_missing_are_not_drawn(unsure: tuple[float, float, float]) -> None:
    difference = changed(with_points((40, 20, 1), unsure))

    assert difference[20, 40]
    assert not difference[30:].any()


def test_the_confidence_of_points_can_be_asked_for() -> None:
    objects = with_points((40, 20, 0.6), (40, 100, 0.6))

    assert not changed(objects, keypoint_confidence=0.7).any()


@pytest.mark.parametrize(("option", "objects"), [("masks", masked(20, 20)), ("keypoints", with_points((40, 20, 1)))])
def test_each_kind_can_be_left_out(option: str, objects: Objects) -> None:
    assert changed(objects).any()
    left_out: dict[str, Any] = {option: False}
    assert not changed(objects, **left_out).any()


def test_an_oriented_box_takes_the_place_of_the_upright_one() -> None:
    corners = np.array([[[80, 20], [140, 60], [80, 100], [20, 60]]], np.float32)
    difference = changed(objects_at((20, 20, 140, 100), corners=corners), boxes=True)

    assert difference[40, 48:53].any()
    assert not difference[20:30, 20:30].any()
    assert not difference[55:65, 60:100].any()


def test_a_box_without_corners_stays_upright_beside_an_oriented_one() -> None:
    corners = np.full((1, 4, 2), np.nan, np.float32)
    difference = changed(objects_at((20, 20, 140, 100), corners=corners), boxes=True)

    assert difference[20, 20:140].mean() > 0.9


def test_the_box_of_a_child_is_thinner() -> None:
    boxes = ((10, 10, 150, 110), (40, 40, 100, 80))
    plain = changed(objects_at(*boxes), boxes=True)
    child = changed(objects_at(*boxes).with_columns(parent=np.array([-1, 0], np.int32)), boxes=True)

    assert plain[60, 36:50].sum() == 2
    assert child[60, 36:50].sum() == 1


def test_the_label_of_a_child_stands_below_it() -> None:
    objects = objects_at((10, 10, 150, 110), (40, 40, 100, 60)).with_columns(parent=np.array([-1, 0], np.int32))
    difference = changed(objects, labels=True)

    assert difference[61:70, 42:60].any()
    assert not difference[28:60, 42:60].any()


@pytest.mark.parametrize(
    ("rect", "expected"),
    [
        ((20, 10, 40, 30), (20, 30)),
        ((20, 10, 40, 50), (20, 34)),
        ((90, 10, 99, 20), (60, 20)),
        ((-9, 0, 9, 90), (0, 44)),
    ],
)
def test_text_below_stays_in_the_image(rect: tuple[int, int, int, int], expected: tuple[int, int]) -> None:
    assert below(rect, text_wh=(40, 16), size_wh=(100, 60)) == expected


def test_small_text_stays_legible() -> None:
    style = Style.for_height(240, thickness=None, text_size=None)

    assert (style.text_size, style.small_text_size, style.thin) == (9, 9, 1)


def described(**columns: npt.NDArray[Any]) -> Objects:
    return objects_at((20, 40, 60, 80), (20, 40, 60, 80), **columns)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"color": np.array(["red", ""])}, [("person 1.00", "red"), ("person 1.00",)]),
        ({"speed": np.array([12.345, np.nan])}, [("person 1.00", "speed 12.3"), ("person 1.00",)]),
        ({"tags": column(("hat", "bag"), None)}, [("person 1.00", "hat, bag"), ("person 1.00",)]),
        ({"parked": np.array([True, False])}, [("person 1.00", "parked"), ("person 1.00",)]),
        ({"seats": np.array([4, 5])}, [("person 1.00", "seats 4"), ("person 1.00", "seats 5")]),
        (
            {"color": np.array(["red", "blue"]), "color_confidence": np.array([0.9, 0.8])},
            [("person 1.00", "red"), ("person 1.00", "blue")],
        ),
    ],
)
def test_attributes_are_written_below_the_label(
    columns: dict[str, npt.NDArray[Any]], expected: list[tuple[str, ...]]
) -> None:
    assert captions_of(described(**columns), Draw()) == expected


def test_attributes_can_be_chosen_or_left_out() -> None:
    objects = described(color=np.array(["red", "red"]), text=np.array(["AB-1", ""]))

    assert captions_of(objects, Draw(attributes=("text", "age"), labels=False, confidence=False)) == [("AB-1",), ()]
    assert captions_of(objects, Draw(attributes=False)) == [("person 1.00",)] * 2


def test_long_attributes_are_cut() -> None:
    ((_, line), _) = captions_of(described(text=np.array(["x" * 99, "short"])), Draw())

    assert line == "x" * 39 + "…"
