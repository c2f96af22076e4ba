"""The best crop of a track: as the frame shows it, not larger than asked, in every layout of pixels."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.media import Frame, Objects, Origin, PixelFormat, Stream
from sightline.media.convert import rgb_from_surface, surface_from_rgb
from sightline_plugins.search.best_crop import BestCrop, worth_of

BOX = (100.0, 40.0, 300.0, 180.0)
FORMATS = [PixelFormat.I420, PixelFormat.I444, PixelFormat.NV12, PixelFormat.RGB24, PixelFormat.BGR24]


def smooth_frame(pixel_format: PixelFormat) -> Frame:
    down, across = np.mgrid[0:240, 0:400]
    rgb = np.stack([across * 0.6, down, 255 - across * 0.4], axis=-1).astype(np.uint8)
    surface = surface_from_rgb(rgb, pixel_format=pixel_format)
    for plane in surface.planes:
        plane.flags.writeable = False  # as those of a decoder
    return Frame(Stream("gate"), index=7, pts_ns=0, surface=surface)


@pytest.mark.parametrize("largest_side", [400, 61])
@pytest.mark.parametrize("pixel_format", FORMATS)
def test_a_crop_shows_the_object_and_a_margin(pixel_format: PixelFormat, largest_side: int) -> None:
    crop, frame = BestCrop(), smooth_frame(pixel_format)
    crop.consider(frame, BOX, 0.5, others=np.array([BOX], np.float32), largest_side=largest_side)
    whole, image = rgb_from_surface(frame.surface), crop.image
    assert image is not None
    assert crop.image is image
    assert (crop.frame, crop.confidence, crop.xyxy, crop.version) == (7, 0.5, BOX, 1)
    assert max(image.shape) == min(largest_side, 232)
    shown = whole[28:192, 84:316]
    for rows, columns in ((0, 0), (-1, 0), (0, -1), (-1, -1)):  # the corners of a gradient tell where it was cut
        assert np.abs(image[rows, columns].astype(int) - shown[rows, columns]).max() <= (
            4 if largest_side == 400 else 8
        )


def test_only_a_larger_or_surer_sighting_is_promising_and_small_objects_are_not() -> None:
    objects = Objects.from_columns(
        frame=np.zeros(3, np.int32),
        xyxy=np.array([BOX, (0, 0, 400, 240), (0, 0, 300, 9)], np.float32),
        confidence=np.array([0.5, 0.5, 0.9], np.float32),
        class_id=np.zeros(3, np.int32),
        source=Origin("detect-1"),
    )
    same, larger, low = worth_of(objects, min_size=16)
    assert (same, larger, low) == (200 * 140 * 0.5, 400 * 240 * 0.5, 0)
    crop = BestCrop()
    crop.consider(smooth_frame(PixelFormat.I420), BOX, 0.5, others=objects.xyxy, largest_side=64)
    assert not crop.is_promising(larger, pts_ns=100_000_000), "after a pause only"
    assert crop.is_promising(larger, pts_ns=300_000_000)
    assert not crop.is_promising(low, pts_ns=300_000_000)
    assert not BestCrop().is_promising(low, pts_ns=0)
