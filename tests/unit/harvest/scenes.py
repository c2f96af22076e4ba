"""Frames with known objects, for tests of `harvest`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from sightline.media import Batch, Frame, Objects, Origin, Stream, Surface
from sightline.media.surface import PixelFormat

SIZE_WH = (320, 240)
DETECTOR = Origin("detect-1", ("person", "car", "bus"))
SECOND_NS = 1_000_000_000
Box = tuple[float, float, float, float]


def frame(index: int, *, stream: str = "gate", seconds: float | None = None, shade: int = 0) -> Frame:
    """A frame with smooth pixels; other shades have other structure."""
    random = np.random.default_rng(shade)
    coarse = random.integers(30, 220, (6, 8)).astype(np.uint8)
    luma = np.kron(coarse, np.ones((40, 40), np.uint8))
    surface = Surface(PixelFormat.GRAY8, SIZE_WH, (luma,))
    at = index if seconds is None else seconds
    return Frame(Stream(stream), index, round(at * SECOND_NS), surface)


def objects(
    boxes: Sequence[Box],
    *,
    confidence: float | Sequence[float] = 0.9,
    class_id: int | Sequence[int] = 1,
    track_id: Sequence[int] | None = None,
    origin: Origin = DETECTOR,
) -> Objects:
    """Objects of one frame."""
    count = len(boxes)
    return Objects.from_columns(
        frame=np.zeros(count),
        xyxy=np.array(boxes, np.float32).reshape(count, 4),
        confidence=np.broadcast_to(np.asarray(confidence, np.float32), count).copy(),
        class_id=np.broadcast_to(np.asarray(class_id), count).copy(),
        track_id=np.full(count, -1) if track_id is None else np.asarray(track_id),
        source=origin,
    )


def batches(scenes: Iterable[tuple[Frame, Objects]]) -> list[Batch]:
    """A batch for each frame."""
    return [Batch((one,), found) for one, found in scenes]


def at_time_of_day(one: Frame, epoch_seconds: float) -> Frame:
    """The frame, taken at that time."""
    return replace(one, capture_ns=round(epoch_seconds * SECOND_NS))
