"""Images with everything on them that can be drawn or hidden."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sightline.devices.cuda.device import CudaDevice
from sightline.media import Arrows, Batch, Frame, HeatLayer, Objects, Origin, Overlay, PixelFormat
from sightline.media.shapes import PERSON_17, Mask
from sightline.testing import make_frames

COUNT = 4
SIZES = ((321, 181), (160, 120))
FORMATS = (PixelFormat.NV12, PixelFormat.I420, PixelFormat.RGB24)
OVERLAYS = (
    Overlay("line", "gate", ((10.0, 40.0), (120.5, 90.25)), (("in", 3),)),
    Overlay("zone", "yard", ((5.0, 5.0), (90.0, 12.0), (60.0, 70.0)), (("now", 1),)),
)
_LEVELS = np.zeros((5, 7), np.uint8)
_LEVELS[1:, 2:6] = np.arange(16).reshape(4, 4) * 17
GRAPHICS = (
    HeatLayer(_LEVELS, 0.7),
    Arrows(np.array([[20, 30, 44, 21], [100, 90, 96, 130], [5, 5, 5, 5], [-9, 60, 30, np.nan]], np.float32)),
)


def objects_on(frame: int, *, seed: int, searched: bool = True) -> Objects:
    """Objects with tracks, masks, keypoints, corners and attributes, partly beyond the image."""
    random = np.random.default_rng(seed)
    corner = random.uniform(-20, 120, (COUNT, 2))
    xyxy = np.concatenate([corner, corner + random.uniform(10, 80, (COUNT, 2))], axis=1).astype(np.float32)
    masks, skeletons = np.empty(COUNT, np.object_), np.full(COUNT, PERSON_17, np.object_)
    for row, (left, top, right, bottom) in enumerate(xyxy.astype(int).tolist()):
        masks[row] = Mask(left, top, random.random((bottom - top, right - left)) < 0.6) if row % 2 else None
    points = random.uniform(0, 120, (COUNT, 17, 3)).astype(np.float32)
    points[..., 2] /= 120
    corners = random.uniform(0, 100, (COUNT, 4, 2)).astype(np.float32)
    corners[1:] = np.nan
    return Objects.from_columns(
        frame=np.full(COUNT, frame),
        xyxy=xyxy,
        confidence=np.full(COUNT, 0.5),
        class_id=np.arange(COUNT) % 2,
        track_id=np.arange(COUNT),
        source=Origin("detect-1", ("car", "person")),
    ).with_columns(mask=masks, keypoints=points, skeleton=skeletons, corners=corners)


def crowded_batches(pixel_format: PixelFormat, *, rounds: int = 2) -> list[Batch]:
    """Batches of four frames of two streams of different sizes; one frame of each has nothing on it."""
    streams = [
        make_frames(2 * rounds, stream=f"cam{number}", size_wh=size_wh, pixel_format=pixel_format, seed=number)
        for number, size_wh in enumerate(SIZES)
    ]
    batches = []
    for turn in range(rounds):
        frames = [frames[2 * turn + step] for step in range(2) for frames in streams]
        objects = Objects.concat([objects_on(row, seed=10 * turn + row) for row in range(3)])
        batch = Batch(tuple(frames), objects).with_overlays([OVERLAYS, (), OVERLAYS, ()])
        batch = batch.with_graphics([GRAPHICS, (), GRAPHICS[:1], ()])
        batches.append(batch.with_search("detect-1", {0, 2, 3}))
    return batches


def on_gpu(batch: Batch, gpu: CudaDevice) -> Batch:
    """The same batch with its images in a GPU's memory."""
    return batch.with_surfaces([frame.surface.to_device(gpu) for frame in batch.frames])


def assert_same_images(made: Sequence[Batch], expected: Sequence[Batch]) -> None:
    """Every sample of every frame is the same."""
    pairs: list[tuple[Frame, Frame]] = [
        pair for one, other in zip(made, expected, strict=True) for pair in zip(one.frames, other.frames, strict=True)
    ]
    for one, other in pairs:
        for plane, wanted in zip(one.surface.to_host().planes, other.surface.planes, strict=True):
            np.testing.assert_array_equal(plane, wanted)
