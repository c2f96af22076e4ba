"""Objects whose ways the time of day decides, for cameras that are watched over restarts; a step `apply` calls it.

Somebody crosses the middle of the image every 0.8 seconds, from left to right, in one of three lanes. Another one
stands at the left until there is a file `gone` in the working directory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from sightline.media import Batch, Frame, Objects, Origin

EVERY_SECONDS = 0.8
SPEED = 0.25
"""Widths of the image a second."""
SEEN_SECONDS = 1.0
"""For how long somebody is seen before and after the middle."""
LANES = (0.3, 0.6, 0.9)
STANDS_AT = (0.1, 0.5)
GONE = Path("gone")
_SIDES = (0.06, 0.2)


def walkers(batch: Batch) -> Batch:
    """Return the batch with those who are there when its frames were captured."""
    found = [(row, box) for row, frame in enumerate(batch.frames) for box in _boxes(frame)]
    return batch.with_objects(
        Objects.from_columns(
            frame=[row for row, _ in found],
            xyxy=[box for _, box in found],
            confidence=[0.9] * len(found),
            class_id=[0] * len(found),
            source=Origin("walkers", ("person",)),
        )
    )


def _boxes(frame: Frame) -> Iterator[list[float]]:
    now = (time.time_ns() if frame.capture_ns is None else frame.capture_ns) / 1e9
    for number in range(int((now - SEEN_SECONDS) / EVERY_SECONDS) + 1, int((now + SEEN_SECONDS) / EVERY_SECONDS) + 1):
        x = 0.5 + (now - number * EVERY_SECONDS) * SPEED
        yield _box(frame, x, LANES[number % len(LANES)])
    if not GONE.exists():
        yield _box(frame, *STANDS_AT)


def _box(frame: Frame, x: float, bottom: float) -> list[float]:
    width, height = frame.size_wh
    return [(x - _SIDES[0] / 2) * width, (bottom - _SIDES[1]) * height, (x + _SIDES[0] / 2) * width, bottom * height]
