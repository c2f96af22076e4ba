"""`draw`: what it draws, what it leaves alone, what it remembers."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pytest
from pydantic import ValidationError

from sightline.devices import Device
from sightline.graph import Site
from sightline.media import Batch, Frame, Objects, Origin, Overlay, PixelFormat, Stream, Surface
from sightline.media.batch import FrameColumns
from sightline.testing import make_batches, make_frames, run_element
from sightline_plugins.draw.draw import Draw

SOURCE = Origin("detect-1", ("person", "car", "face"))
PLAIN = {"labels": False, "ids": False, "confidence": False, "trail": "0s"}


def objects_at(*boxes: tuple[float, float, float, float], track_id: list[int] | None = None) -> Objects:
    count = len(boxes)
    return Objects.from_columns(
        frame=np.zeros(count),
        xyxy=np.array(boxes),
        confidence=np.full(count, 0.87),
        class_id=np.arange(count) % 3,
        track_id=track_id,
        source=SOURCE,
    )


def batch_of(objects: Objects, *, pts_ns: int = 0, capture_ns: int | None = None) -> Batch:
    (frame,) = make_frames(1, size_wh=(160, 120))
    return Batch((dataclasses.replace(frame, pts_ns=pts_ns, capture_ns=capture_ns),), objects=objects)


def drawn(batch: Batch, **options: object) -> Surface:
    (result,) = run_element(Draw.model_validate(options), [batch])
    return result.frames[0].surface


def difference(batch: Batch, surface: Surface) -> npt.NDArray[np.bool_]:
    return np.asarray(surface.planes[0] != batch.frames[0].surface.planes[0])


def test_a_shared_image_is_not_written_to() -> None:
    batch = batch_of(objects_at((20, 30, 60, 80)))
    before = [plane.copy() for plane in batch.frames[0].surface.planes]
    surface = drawn(batch)

    assert surface is not batch.frames[0].surface
    assert all((old == new).all() for old, new in zip(before, batch.frames[0].surface.planes, strict=True))


def test_an_exclusive_image_is_drawn_on_in_place() -> None:
    batch = batch_of(objects_at((20, 30, 60, 80)))
    batch = batch.with_surfaces([batch.frames[0].surface.writable()])

    assert drawn(batch) is batch.frames[0].surface


def test_an_image_with_nothing_to_draw_passes_as_it_is() -> None:
    batch = batch_of(Objects.empty())

    assert drawn(batch) is batch.frames[0].surface


def test_boxes_alone_change_only_their_frames() -> None:
    batch = batch_of(objects_at((20, 30, 60, 80)))
    mask = difference(batch, drawn(batch, **PLAIN))

    expected = np.zeros((120, 160), np.bool_)
    expected[30:80, 20:60] = True
    expected[32:78, 22:58] = False
    assert not (mask & ~expected).any()
    assert mask[expected].mean() > 0.9


def test_everything_else_stays_in_the_records() -> None:
    objects = objects_at((20, 30, 60, 80))
    batch = batch_of(objects)
    (result,) = run_element(Draw(), [batch])

    assert result.objects is objects
    assert result.frames[0].pts_ns == batch.frames[0].pts_ns


@pytest.mark.parametrize("option", ["labels", "ids", "confidence"])
def test_each_part_of_the_label_can_be_left_out(option: str) -> None:
    objects = objects_at((20, 60, 60, 80), track_id=[5])
    whole, shorter = (drawn(batch_of(objects), **options) for options in ({}, {option: False}))

    assert (whole.planes[0] != shorter.planes[0]).any()


def test_a_label_stands_on_top_of_its_box_or_inside_where_there_is_no_room() -> None:
    high, low = batch_of(objects_at((20, 0, 100, 60))), batch_of(objects_at((20, 40, 100, 100)))
    options = {"boxes": False, "trail": "0s"}

    rows_high = np.flatnonzero(difference(high, drawn(high, **options)).any(axis=1))
    rows_low = np.flatnonzero(difference(low, drawn(low, **options)).any(axis=1))
    assert rows_high[0] == 0
    assert rows_low[-1] == 39


def test_the_label_of_a_box_at_the_right_edge_is_in_the_image() -> None:
    batch = batch_of(objects_at((150, 40, 160, 100)))
    mask = difference(batch, drawn(batch, boxes=False, trail="0s"))

    assert np.flatnonzero(mask.any(axis=0))[0] < 120


def test_an_object_outside_the_image_has_no_label() -> None:
    batch = batch_of(objects_at((-50, -50, -10, -10), (200, 0, 300, 50)))

    assert not difference(batch, drawn(batch)).any()


@pytest.mark.parametrize("pixel_format", list(PixelFormat))
@pytest.mark.parametrize("size_wh", [(161, 121), (7, 5), (1, 1)])
def test_odd_and_tiny_images_of_every_format_are_drawn_on(pixel_format: PixelFormat, size_wh: tuple[int, int]) -> None:
    (frame,) = make_frames(1, size_wh=size_wh, pixel_format=pixel_format)
    overlays = (
        Overlay("line", "gate", ((0, 0), (9, 9)), (("in", 1),)),
        Overlay("zone", "yard", ((0, 0), (500, 0), (500, 500)), (("inside", 2),)),
    )
    batch = Batch(
        (frame,),
        objects=objects_at((-5, -5, 400, 400), (0, 0, 1, 1), track_id=[1, 2]),
        columns=FrameColumns(overlays=(overlays,)),
    )
    surface = drawn(batch, clock=True)

    assert (surface.planes[0] != frame.surface.planes[0]).any()


def test_lines_and_zones_are_drawn_with_their_counts() -> None:
    batch = batch_of(Objects.empty())
    zone = Overlay("zone", "yard", ((20, 20), (140, 20), (140, 100), (20, 100)), (("inside", 2),))
    more = dataclasses.replace(zone, counts=(("inside", 3),))
    two, three = (
        drawn(dataclasses.replace(batch, columns=FrameColumns(overlays=((shape,),)))) for shape in (zone, more)
    )

    mask = difference(batch, two)
    assert mask[30:90, 30:130].mean() > 0.9
    assert not mask[:16].any()
    assert (two.planes[0] != three.planes[0]).any()


@pytest.mark.parametrize("clock", [False, True])
def test_rules_of_the_whole_frame_only_write_their_counts_one_below_the_other(clock: bool) -> None:
    batch = batch_of(Objects.empty())
    whole = Overlay("zone", "road", ((0, 0), (160, 0), (160, 120), (0, 120)), (("over", 2),))
    masks = [
        difference(
            batch,
            drawn(dataclasses.replace(batch, columns=FrameColumns(overlays=((whole,) * count,))), clock=clock),
        )
        for count in (1, 2)
    ]

    one, two = (np.flatnonzero(mask[:, :20].mean(axis=1) > 0.5) for mask in masks)
    assert one[0] == two[0] == 0
    assert one[-1] < two[-1] < 90, "the second one is below the first one"
    assert not masks[1][90:].any(), "the image is left as it is"


def test_rules_can_be_left_out() -> None:
    batch = dataclasses.replace(
        batch_of(Objects.empty()), columns=FrameColumns(overlays=((Overlay("line", "a", ((0, 0), (99, 99))),),))
    )

    assert drawn(batch, rules=False) is batch.frames[0].surface


def test_the_clock_shows_the_time_of_the_stream_or_of_day() -> None:
    images = [
        drawn(batch_of(Objects.empty(), pts_ns=pts_ns, capture_ns=capture_ns), clock=True).planes[0]
        for pts_ns, capture_ns in ((0, None), (61_500_000_000, None), (0, 1_767_323_045_678_000_000))
    ]

    assert (images[0] != images[1]).any()
    assert (images[0] != images[2]).any()


def test_colors_are_those_of_the_class_or_of_the_track() -> None:
    same_class = objects_at((20, 20, 40, 40), track_id=[1]), objects_at((20, 20, 40, 40), track_id=[2])
    by_class, by_track = (
        [drawn(batch_of(objects), color=color, **PLAIN).planes[1][10, 10] for objects in same_class]
        for color in ("class", "track")
    )

    assert by_class[0] == by_class[1]
    assert by_track[0] != by_track[1]


def moving(stream: str, count: int) -> list[Batch]:
    batches = make_batches(make_frames(count, stream=stream, size_wh=(160, 120)))
    return [
        batch.with_objects(objects_at((10 + 5 * index, 30, 30 + 5 * index, 60), track_id=[4]))
        for index, batch in enumerate(batches)
    ]


def test_a_trail_follows_the_middle_of_the_bottom_edge() -> None:
    batches = moving("cam", 12)
    results = run_element(Draw.model_validate({**PLAIN, "boxes": False, "trail": "2s"}), batches)

    mask = difference(batches[-1], results[-1].frames[0].surface)
    assert mask[58:63, 20:75].any(axis=0).all()
    assert not mask[:50].any()


def test_a_trail_is_no_older_than_asked_for() -> None:
    batches = moving("cam", 12)
    results = run_element(Draw.model_validate({**PLAIN, "boxes": False, "trail": "80ms"}), batches)

    columns = np.flatnonzero(difference(batches[-1], results[-1].frames[0].surface).any(axis=0))
    assert columns[0] >= 20 + 5 * 9 - 3


def test_trails_of_streams_are_kept_apart_and_end_with_their_stream() -> None:
    operator = Draw.model_validate({**PLAIN, "boxes": False}).build(Site(device=Device()))
    for batch in moving("a", 8):
        operator.process(batch)
    other = moving("b", 1)[0]
    again = moving("a", 1)[0]
    operator.end_stream(Stream("a"))

    for batch in (other, again):
        result = operator.process(batch)
        assert isinstance(result, Batch)
        assert not difference(batch, result.frames[0].surface).any()


def test_sizes_can_be_given() -> None:
    batch = batch_of(objects_at((20, 30, 80, 90)))
    surface = drawn(batch, thickness=8, **PLAIN)

    assert difference(batch, surface)[60, 20:28].mean() > 0.6


@pytest.mark.parametrize(
    "wrong", [{"thickness": 0}, {"text_size": 1}, {"color": "rainbow"}, {"trail": "-1s"}, {"blur": ["face"]}]
)
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Draw.model_validate(wrong)


def test_the_description_imports_no_opencv() -> None:
    code = "import sys, sightline_plugins.draw.draw; print('cv2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_frames_of_one_batch_get_their_own_objects() -> None:
    frames: list[Frame] = make_frames(2, size_wh=(160, 120))
    objects = objects_at((20, 30, 60, 80)).with_columns(frame=np.array([1], np.int32))
    (result,) = run_element(Draw(), [Batch(tuple(frames), objects=objects)])

    assert result.frames[0].surface is frames[0].surface
    assert result.frames[1].surface is not frames[1].surface
