"""Batches with known objects, for tests of sinks."""

from __future__ import annotations

import numpy as np

from sightline.media import Batch, Objects, Origin
from sightline.testing import make_frames

DETECTOR = Origin("detect", ("person", "traffic light", "car"))


def batches(
    count: int, *, size: int = 1, track_ids: tuple[int, ...] = (5,), stream: str = "cam", class_id: int = 2
) -> list[Batch]:
    """Frames with one object for each track id, ten pixels apart, that moves by a pixel a frame."""
    frames = make_frames(count, stream=stream)
    groups = [tuple(frames[first : first + size]) for first in range(0, count, size)]
    return [
        Batch(
            group,
            Objects.from_columns(
                frame=np.repeat(np.arange(len(group)), len(track_ids)),
                xyxy=[
                    [1.1 + frame.index + 10 * n, 2.25, 8.333 + frame.index + 10 * n, 40]
                    for frame in group
                    for n in range(len(track_ids))
                ],
                confidence=np.full(len(group) * len(track_ids), 0.871),
                class_id=np.full(len(group) * len(track_ids), class_id),
                source=DETECTOR,
                track_id=np.tile(track_ids, len(group)),
            ),
        )
        for group in groups
    ]
