"""Objects are followed in the image on frames without detections."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from sightline.graph.tracker import Predictions
from sightline.media import Batch, Frame, Objects, Origin, PixelFormat, Stream, Surface
from sightline.media.boxes import Boxes
from sightline.testing.run import run_element
from sightline_plugins import Track
from sightline_plugins.flow.luma import HalvedLuma
from sightline_plugins.track.following import BoxFollower, FollowedTracks, ReducedImage

Image = npt.NDArray[np.uint8]
FRAME_NS = 40_000_000
BOX = np.array([[100, 60, 180, 140]], np.float32)


def image(x: float, *, size_wh: tuple[int, int] = (640, 360)) -> Image:
    """Return a frame with an object in `BOX`, moved to the right by so many pixels, over a background that stands."""
    rng = np.random.default_rng(1)
    ground, patch = (
        np.kron(rng.integers(60, 200, (side_wh[1] // 4, side_wh[0] // 4)), np.ones((4, 4))).astype(np.uint8)
        for side_wh in (size_wh, (80, 80))
    )
    left = round(100 + x)
    ground[60:140, left : left + 80] = patch
    return ground


def reduced(luma: Image) -> ReducedImage:
    return ReducedImage.of(HalvedLuma(luma))


def expected(xyxy: Boxes) -> Predictions:
    count = len(xyxy)
    return Predictions(
        np.arange(1, count + 1, dtype=np.int64), xyxy, np.ones(count, np.float32), np.zeros(count, np.int64)
    )


def test_a_box_goes_where_its_object_goes_not_where_it_was_expected() -> None:
    tracks = FollowedTracks()
    tracks.look(reduced(image(0)))
    tracks.begin(expected(BOX), np.array([1]), BOX)
    for step in range(1, 6):
        tracks.look(reduced(image(6 * step)))
        found = tracks.follow(expected(BOX + np.array([2 * step, 0, 2 * step, 0], np.float32)))
    np.testing.assert_allclose(found.xyxy, BOX + np.array([30, 0, 30, 0], np.float32), atol=0.5)


def test_a_box_grows_as_expected_and_starts_from_its_detection() -> None:
    tracks = FollowedTracks()
    tracks.look(reduced(image(0)))
    tracks.begin(expected(BOX + 3), np.array([-1, 1]), np.concatenate([BOX + 90, BOX]))
    tracks.look(reduced(image(4)))
    wider = np.array([[99, 59, 187, 147]], np.float32)  # 80 wide becomes 88 wide
    found = tracks.follow(expected(wider))
    np.testing.assert_allclose(found.xyxy, [[100, 56, 188, 144]], atol=0.5)


def test_a_box_without_texture_moves_as_expected() -> None:
    blank = np.full((360, 640), 128, np.uint8)
    tracks = FollowedTracks()
    tracks.look(reduced(blank))
    tracks.begin(expected(BOX), np.array([1]), BOX)
    tracks.look(reduced(blank))
    np.testing.assert_allclose(tracks.follow(expected(BOX + 5)).xyxy, BOX + 5, atol=1e-3)


def test_other_tracks_or_another_size_of_images_begin_anew() -> None:
    tracks = FollowedTracks()
    tracks.look(reduced(image(0)))
    tracks.begin(expected(BOX), np.array([1]), BOX)
    tracks.look(reduced(image(6, size_wh=(480, 360))))
    np.testing.assert_allclose(tracks.follow(expected(BOX + 1)).xyxy, BOX + 1, atol=1e-3)
    none = tracks.follow(Predictions.none())
    assert len(none.xyxy) == 0
    tracks.look(reduced(image(12)))
    np.testing.assert_array_equal(tracks.follow(expected(BOX + 7)).xyxy, BOX + 7)


def waves(x: float = 0, y: float = 0, *, size_wh: tuple[int, int] = (160, 96)) -> Image:
    """Return a smooth image without repetition, whose content is moved by so many pixels."""
    columns, rows = np.meshgrid(np.arange(size_wh[0]) - x, np.arange(size_wh[1]) - y)
    sum_of_waves = np.sin(columns / 3.1 + rows / 7.3) + np.sin(columns / 11.7 - rows / 4.7) + np.sin(rows / 2.9)
    return np.asarray(np.round(127 + 40 * sum_of_waves), np.uint8)


def moved(before: ReducedImage, now: ReducedImage, xyxy: Boxes, *, expected: Boxes) -> Boxes:
    follower = BoxFollower()
    follower.look(before)
    follower.look(now)
    return follower.moved(xyxy, before=xyxy, expected=expected)


@pytest.mark.parametrize(("x", "y"), [(0.3, -0.6), (3.25, 1.5), (-5.5, 2.75)])
def test_boxes_are_followed_to_a_fraction_of_a_pixel(x: float, y: float) -> None:
    corner = np.stack(np.meshgrid(np.arange(10, 110, 15), np.arange(10, 60, 15)), axis=-1).reshape(-1, 2)
    boxes = np.concatenate([corner, corner + np.array([40, 30])], axis=1).astype(np.float32)
    found = moved(reduced(waves()), reduced(waves(x, y)), boxes, expected=boxes)

    np.testing.assert_allclose(found, boxes + np.array([x, y, x, y], np.float32), atol=0.15)


def test_boxes_are_in_pixels_of_the_source_whatever_the_size_of_images() -> None:
    before, now = (np.kron(waves(x), np.ones((4, 4), np.uint8)) for x in (0, 2))
    found = moved(reduced(before), reduced(now), 2 * BOX, expected=2 * BOX)

    assert reduced(before).scale == 2
    np.testing.assert_allclose(found, 2 * BOX + np.array([8, 0, 8, 0], np.float32), atol=0.3)


@pytest.mark.parametrize("wrong", [(-300, 5), (900, 5), (1e30, -1e30)])
def test_boxes_outside_of_the_image_move_as_expected(wrong: tuple[float, float]) -> None:
    boxes = np.concatenate([BOX - 70, BOX + np.tile(np.array(wrong, np.float32), 2)])
    found = moved(reduced(waves()), reduced(waves(2)), boxes, expected=boxes + 3)

    np.testing.assert_allclose(found[0], boxes[0] + np.array([2, 0, 2, 0]), atol=0.15)
    np.testing.assert_allclose(found[1], boxes[1] + 3, rtol=1e-5)


def boxes_without_detections(**options: bool) -> Boxes:
    """Return the boxes (N, 4) of an object that stops when it is no longer detected: 6 pixels a frame before."""
    stream, origin = Stream("gate"), Origin("detect-1", ("car",))
    batches = []
    for index in range(16):
        at = 6 * min(index, 8)
        surface = Surface(PixelFormat.GRAY8, (640, 360), (image(at),)).shared()
        is_detected = index < 9 and index != 4
        objects = Objects.from_columns(
            frame=np.zeros(int(is_detected)),
            xyxy=BOX[: int(is_detected)] + np.array([at, 0, at, 0], np.float32),
            confidence=np.full(int(is_detected), 0.9),
            class_id=np.zeros(int(is_detected)),
            source=origin,
        )
        batch = Batch((Frame(stream, index, index * FRAME_NS, surface),), objects)
        batches.append(batch.with_detection({0} if is_detected else set()))
    tracked = run_element(Track(**options), batches)
    return np.concatenate([batch.objects.xyxy for batch in tracked[9:]])


def test_track_follows_an_object_that_stops_between_detections() -> None:
    stopped = np.tile(BOX + np.array([48, 0, 48, 0], np.float32), (7, 1))
    np.testing.assert_allclose(boxes_without_detections(), stopped, atol=1)
    assert np.abs(boxes_without_detections(follow=False) - stopped).max() > 20
