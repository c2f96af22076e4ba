"""Batches of tracked objects on empty images, for tests of rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sightline.media import Batch, Event, Frame, Objects, Origin
from sightline.testing import make_batches, make_frames

SIZE_WH = (100, 100)
LABELS = ("person", "car")
HALF = 4

Walk = Mapping[int, tuple[float, float]]
"""Where the middle of the bottom edge is, by number of the frame."""


def scene(
    walks: Mapping[int, Walk], *, frames: int, size: int = 1, fps: int = 10, class_id: int = 0, stream: str = "cam"
) -> list[Batch]:
    """Batches of `size` of tracks that walk over images of 100 x 100 pixels."""
    places = {index: {} for index in range(frames)}  # type: dict[int, dict[int, tuple[float, float]]]
    for track_id, walk in walks.items():
        for index, place in walk.items():
            places[index][track_id] = place
    images = make_frames(frames, size_wh=SIZE_WH, fps=fps, stream=stream)
    return [_furnished(batch, places, class_id) for batch in make_batches(images, size=size)]


def _furnished(batch: Batch, places: Mapping[int, Mapping[int, tuple[float, float]]], class_id: int) -> Batch:
    rows = [
        (row, x - HALF, y - 2 * HALF, x + HALF, y, track_id)
        for row, frame in enumerate(batch.frames)
        for track_id, (x, y) in places[frame.index].items()
    ]
    table = np.array(rows, np.float64).reshape(-1, 6)
    return batch.with_objects(
        Objects.from_columns(
            frame=table[:, 0],
            xyxy=table[:, 1:5],
            confidence=np.ones(len(table)),
            class_id=np.full(len(table), class_id),
            source=Origin("test", LABELS),
            track_id=table[:, 5],
        )
    )


def path(points: Sequence[tuple[float, float]], *, start: int = 0) -> Walk:
    """A walk with one point for each frame from `start`."""
    return dict(enumerate(points, start))


def events(batches: Sequence[Batch]) -> list[tuple[int, Event]]:
    """All events with the index of their frame."""
    return [(batch.frames[event.frame].index, event) for batch in batches for event in batch.events]


def truth_scene(shared_data: Path, sequence: str, *, size: int) -> tuple[dict[str, Any], list[Batch]]:
    """What is known of a sequence's lines and zones, and batches of its true tracks."""
    truth: dict[str, Any] = json.loads((shared_data / "truth" / "zones" / f"{sequence}.json").read_text())
    table = np.loadtxt(shared_data / "truth" / "mot" / sequence / "gt.txt", delimiter=",")
    frames = make_frames(truth["frames"], size_wh=SIZE_WH, fps=round(truth["fps"]))
    return truth, [_true(batch, table) for batch in make_batches(_sized(frames, truth["size"]), size=size)]


def _sized(frames: list[Frame], size_wh: list[int]) -> list[Frame]:
    surface = make_frames(1, size_wh=(size_wh[0], size_wh[1]))[0].surface
    return [Frame(frame.stream, frame.index, frame.pts_ns, surface) for frame in frames]


def _true(batch: Batch, table: np.ndarray[Any, np.dtype[np.float64]]) -> Batch:
    first = batch.frames[0].index
    row = table[:, 0] - 1 - first
    rows = table[(row >= 0) & (row < len(batch))]
    corners = np.concatenate([rows[:, 2:4], rows[:, 2:4] + rows[:, 4:6]], axis=1)
    return batch.with_objects(
        Objects.from_columns(
            frame=rows[:, 0] - 1 - first,
            xyxy=corners,
            confidence=np.ones(len(rows)),
            class_id=np.zeros(len(rows)),
            source=Origin("truth", LABELS),
            track_id=rows[:, 1],
        )
    )
