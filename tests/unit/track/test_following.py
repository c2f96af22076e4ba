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
from sightline_plugins.track.following import FollowedTracks, ReducedImage, follow_points

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


@pytest.mark.parametrize(("x", "y"), [(0.3, -0.6), (3.25, 1.5), (-5.5, 2.75)])
def test_points_are_found_to_a_fraction_of_a_pixel(x: float, y: float) -> None:
    points = np.stack(np.meshgrid(np.arange(20, 140, 15), np.arange(20, 80, 15)), axis=-1).astype(np.float32)
    there, followed = follow_points(reduced(waves()), reduced(waves(x, y)), points, guess=points)

    assert followed.mean() > 0.9
    assert np.median(np.abs(there - points - np.array([x, y]))[followed]) < 0.03


def test_points_of_a_reduced_image_are_in_pixels_of_the_source() -> None:
    large = [np.kron(waves(x), np.ones((4, 4), np.uint8)) for x in (0, 2)]
    points = np.array([[200.0, 200], [300, 120]], np.float32)
    there, followed = follow_points(reduced(large[0]), reduced(large[1]), points, guess=points)

    assert followed.all()
    np.testing.assert_allclose(there, points + np.array([8, 0], np.float32), atol=0.3)


def test_points_where_nothing_can_be_followed_are_reported() -> None:
    points = np.array([[80, 48], [np.nan, 5], [-40, 5], [500, 20], [1e30, -1e30]], np.float32)
    there = reduced(waves())
    blank = reduced(np.full_like(there.luma, 90))

    assert follow_points(there, there, points, guess=points)[1].tolist() == [True, False, False, False, False]
    assert not follow_points(blank, there, points, guess=points)[1].any()
    assert not follow_points(there, there, points[:1], guess=points[1:2])[1].any()


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
