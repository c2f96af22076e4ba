"""Objects that move along known ways, sampled at any rate of frames, for tests of rules of motion."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.devices import Device
from sightline.graph import Site
from sightline.graph.rule import Rule
from sightline.media import Batch, Objects, Origin
from sightline.testing import make_frames

SIZE_WH = (1280, 720)
RATES = (1, 5, 10, 25, 60)
LABELS = ("person", "car", "suitcase")
Way = Callable[[float], tuple[float, float] | None]
"""Where the middle of the bottom edge of a box is at a time in seconds, in pixels; None where it is not seen."""
Seen = list[tuple[float, str, str, dict[str, Any]]]


def along(points: Mapping[float, tuple[float, float]], *, hidden: Sequence[tuple[float, float]] = ()) -> Way:
    """The way through points at times in seconds, in straight lines; not seen before, after, and while `hidden`."""
    times, places = list(points), np.array(list(points.values()), np.float64)

    def place(seconds: float) -> tuple[float, float] | None:
        if not times[0] <= seconds <= times[-1] or any(first < seconds < last for first, last in hidden):
            return None
        return float(np.interp(seconds, times, places[:, 0])), float(np.interp(seconds, times, places[:, 1]))

    return place


def sampled(
    ways: Mapping[int, Way],
    *,
    fps: float,
    seconds: float,
    noise: float = 0,
    box_wh: tuple[float, float] = (40, 100),
    labels: Mapping[int, str] | None = None,
    pts_ns: npt.NDArray[np.int64] | None = None,
    seed: int = 1,
) -> Batch:
    """All frames of the ways as one batch; `noise` is the deviation of the edges of the boxes in pixels."""
    random = np.random.default_rng(seed)
    if pts_ns is None:
        pts_ns = (np.arange(int(seconds * fps) + 1) * 1e9 / fps).astype(np.int64)
    (still,) = make_frames(1, size_wh=SIZE_WH)
    frames = tuple(dataclasses.replace(still, index=index, pts_ns=now) for index, now in enumerate(pts_ns.tolist()))
    half, height = box_wh[0] / 2, box_wh[1]
    rows = [
        (index, track_id, LABELS.index((labels or {}).get(track_id, "person")), x - half, y - height, x + half, y)
        for index, now in enumerate(pts_ns.tolist())
        for track_id, way in ways.items()
        if (place := way(now / 1e9)) is not None
        for x, y in [place]
    ]
    table = np.array(rows, np.float64).reshape(-1, 7)
    objects = Objects.from_columns(
        frame=table[:, 0],
        xyxy=table[:, 3:] + random.normal(0, noise, (len(table), 4)),
        confidence=np.full(len(table), 0.9),
        class_id=table[:, 2],
        track_id=table[:, 1],
        source=Origin("made", LABELS),
    )
    return Batch(frames, objects)


def seen_by(element: Rule, batch: Batch) -> tuple[Seen, dict[str, dict[str, Any]]]:
    """The events of an element on a batch, each with its time in seconds, and its totals."""
    operator = element.build(Site(device=Device()))
    made = operator.process(batch)
    found = [(made.frames[event.frame].pts_ns / 1e9, event.kind, event.rule, dict(event.data)) for event in made.events]
    operator.close()
    return found, {name: dict(own) for name, own in operator.totals()["cam"].items()}
