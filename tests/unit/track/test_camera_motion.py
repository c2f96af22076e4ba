"""The motion of the camera is measured in the images, and expected boxes follow it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from sightline.graph.tracker import TrackerOptions
from sightline.media import Batch, Objects, Origin, PixelFormat
from sightline.media.convert import luma_from_surface, surface_from_rgb
from sightline.testing import make_frames, run_element
from sightline_plugins.flow.camera_motion import CameraMotion
from sightline_plugins.track.adaptive_options import AdaptiveOptions
from sightline_plugins.track.botsort import BotSortOptions
from sightline_plugins.track.cbiou import CBIouOptions
from sightline_plugins.track.track import Track

SIZE_WH, FRAMES, FPS = (320, 240), 24, 10
PLACES = np.array([[200, 150], [260, 190], [330, 140], [400, 200]])
"""Middles of objects that stand still, in a scene that is larger than the image."""
TRACKERS: list[type[TrackerOptions]] = [AdaptiveOptions, BotSortOptions, CBIouOptions]


def scene() -> npt.NDArray[np.uint8]:
    """A wall of grey stones, 640 x 400."""
    stones = np.random.default_rng(1).integers(0, 256, (50, 80), dtype=np.uint8)
    return stones.repeat(8, axis=0).repeat(8, axis=1)


def panned(speed: float) -> Iterator[tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]]:
    """Image and boxes of a camera that swings to and fro by so many pixels a frame."""
    wall, (width, height) = scene(), SIZE_WH
    for frame in range(FRAMES):
        way = frame % 12 if frame % 12 < 6 else 12 - frame % 12
        left, top = 100 + round(way * speed), 80 + round(way * speed / 4)
        corner = (PLACES - [left, top]).astype(np.float32) - np.float32(12)
        yield wall[top : top + height, left : left + width], np.concatenate([corner, corner + 24], axis=1)


def ids_of(options: TrackerOptions, *, speed: float, every: int = 1) -> list[tuple[int, ...]]:
    tracker = options.build()
    found = []
    for frame, (image, xyxy) in enumerate(panned(speed)):
        if options.needs_images:
            tracker.look(image)
        if frame % every == 0:
            scores, classes = np.full(len(xyxy), 0.9, np.float32), np.zeros(len(xyxy), np.int64)
            found.append(tuple(tracker.update(xyxy, scores, classes, pts_ns=frame * 10**9 // FPS).tolist()))
        else:
            expected = tracker.predict(pts_ns=frame * 10**9 // FPS)
            if frame > every:
                order = np.argsort(expected.track_id)
                np.testing.assert_allclose(expected.xyxy[order], xyxy, atol=3)
    return found


@pytest.mark.parametrize("shift", [(0.0, 0.0), (7.0, -3.0), (-12.5, 4.0)])
def test_a_shift_is_measured(shift: tuple[float, float]) -> None:
    camera, wall = CameraMotion(), scene()
    camera.look(wall[100:300, 100:400])
    left, top = (100 - round(2 * shift[0]) // 2, 100 - round(2 * shift[1]) // 2)
    camera.look(wall[top : top + 200, left : left + 300])

    np.testing.assert_allclose(camera.since[:, :2], np.eye(2), atol=0.01)
    np.testing.assert_allclose(camera.since[:, 2], [100 - left, 100 - top], atol=0.5)


def test_motions_add_up_until_the_next_start() -> None:
    camera, wall = CameraMotion(), scene()
    for left in (100, 96, 90):
        camera.look(wall[100:300, left : left + 300])
    centre, velocity = camera.follow(np.array([[50.0, 60.0]]), np.array([[1.0, 0.0]]))
    np.testing.assert_allclose(centre, [[60, 60]], atol=0.5)
    np.testing.assert_allclose(velocity, [[1, 0]], atol=0.02)

    camera.restart()
    np.testing.assert_array_equal(camera.follow(np.array([[50.0, 60.0]]), velocity)[0], [[50, 60]])


def test_an_image_without_corners_and_one_of_another_size_count_as_no_motion() -> None:
    camera, wall = CameraMotion(), scene()
    for image in (
        wall[:200, :300],
        np.full((200, 300), 90, np.uint8),
        wall[:200, :300],
        wall[:100, :100],
        wall[:1, :1],
    ):
        camera.look(image)

    np.testing.assert_array_equal(camera.since, [[1, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize("options", TRACKERS)
def test_ids_stay_when_the_camera_swings(options: type[TrackerOptions]) -> None:
    still = set(ids_of(options(), speed=0)[4:])
    swinging = ids_of(options.model_validate({"camera_motion": True}), speed=14)

    assert set(swinging[4:]) == still
    assert set(ids_of(options(), speed=14)[4:]) != still


@pytest.mark.parametrize("options", TRACKERS)
def test_predictions_follow_the_camera(options: type[TrackerOptions]) -> None:
    ids = ids_of(options.model_validate({"camera_motion": True}), speed=3, every=3)

    assert len(set(ids[1:])) == 1


def test_the_element_shows_images_to_the_tracker() -> None:
    (still,) = make_frames(1, size_wh=SIZE_WH)
    batches = []
    for index, (image, xyxy) in enumerate(panned(14)):
        surface = surface_from_rgb(np.repeat(image[..., None], 3, axis=2))
        frame = replace(still, index=index, pts_ns=index * 10**9 // FPS, surface=surface)
        zeros = np.zeros(len(xyxy))
        objects = Objects.from_columns(
            frame=zeros, xyxy=xyxy, confidence=zeros + 0.9, class_id=zeros, source=Origin("test", ("thing",))
        )
        batches.append(Batch((frame,), objects))

    def ids(**options: object) -> set[tuple[int, ...]]:
        found = run_element(Track.model_validate(options), batches)
        return {tuple(batch.objects.track_id.tolist()) for batch in found[4:]}

    assert len(ids(camera_motion=True)) == 1
    assert len(ids()) > 1


def test_luma_is_the_plane_or_the_mean_of_the_channels() -> None:
    rgb = np.dstack([np.full((4, 6), value, np.uint8) for value in (30, 60, 90)])
    (frame,) = make_frames(1, size_wh=(6, 4))

    assert luma_from_surface(frame.surface) is frame.surface.planes[0]
    assert (
        luma_from_surface(surface_from_rgb(rgb, pixel_format=PixelFormat.BGR24)).tolist()
        == np.full((4, 6), 60).tolist()
    )
