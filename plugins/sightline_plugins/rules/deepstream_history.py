"""What nvdsanalytics of DeepStream remembers of each object, for the rules with `compat: deepstream`.

The method is that of `nvds_analytics.cpp` of DeepStream 9.1: a ring of the newest samples of each object, in whole
pixels of the frame, and the place where it was before. An object that is hidden for longer than 300 ms is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import Field

from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline_plugins.rules.geometry import Floats, Mask
from sightline_plugins.rules.track_table import TrackTable

DEFAULT_WINDOW = 50
"""DeepStream's value where `obj-cnt-win-in-ms` is not set."""
Window = Annotated[int, Field(ge=4, le=1000)]
"""`obj-cnt-win-in-ms` of nvdsanalytics: for so many milliseconds it smooths counts, and so many frames it remembers of
each object."""
_MEMORY_MS = 300
"""An object that was not seen for more whole milliseconds is another one: it can be counted again."""
_FIRST_SAMPLES, _OLDEST_SAMPLES = 2, 4
_MOST_VARIANCE_X, _HEIGHTS = 400, 100
"""Of an object that stands: the variance of x in pixels squared; that of y is at most its mean height by `_HEIGHTS`."""
_NANOSECONDS = 1_000_000

Whole: TypeAlias = npt.NDArray[np.int64]
Pixel: TypeAlias = tuple[int, int]
Segment: TypeAlias = tuple[Pixel, Pixel]


@dataclass(frozen=True, slots=True, eq=False)
class Histories:
    """The N objects of one frame with what is remembered of each, in whole pixels; this frame is the newest of it.

    track_id        (N,)
    sample          (N, 4)  centre x, y, width and height on this frame
    before          (N, 4)  the same of before: the mean of the first two samples, or of the oldest four of a full ring;
                            only of objects that were seen on two frames
    frames          (N,)    on how many frames it was seen
    mean_height     (N,)    over the ring, float64
    is_still        (N,)    its ring is full, and its centre has hardly moved in it
    """

    track_id: Whole
    sample: Whole
    before: Whole
    frames: Whole
    mean_height: Floats
    is_still: Mask

    def squared_way(self) -> Whole:
        """Return how far (N,) each object has come since before, squared: that of the middle of its bottom edge."""
        x, y = self.sample[:, 0] - self.before[:, 0], _bottom(self.sample) - _bottom(self.before)
        squared: Whole = x**2 + y**2
        return squared

    def feet(self) -> Whole:
        """Return the centres, lowered by half of the mean height (N, 2)."""
        feet = self.sample[:, :2].copy()
        feet[:, 1] += self.mean_height.astype(np.int64) // 2
        return feet


class ObjectHistories:
    """The histories of the objects of one stream, of the newest `ring` samples each, and which rules have reported
    them.
    """

    def __init__(self, ring: int) -> None:
        self._ring = ring
        self._table = TrackTable({"samples": np.zeros((ring, 4), np.int64), "frames": 0})
        self._reported: dict[int, set[str]] = {}

    def forget(self, now_ns: int) -> dict[int, int]:
        """Forget the objects that were not seen for too long; return when each was seen last, by its track."""
        table = self._table
        is_gone = np.abs(now_ns - table.seen_ns) // _NANOSECONDS > _MEMORY_MS
        if not is_gone.any():
            return {}
        gone = dict(zip(table.track_id[is_gone].tolist(), table.seen_ns[is_gone].tolist(), strict=True))
        table.keep(~is_gone)
        for track_id in gone:
            self._reported.pop(track_id, None)
        return gone

    def add(self, tracks: TrackedObjects, own: slice, *, now_ns: int) -> Histories:
        """Add the boxes of a frame to the histories of their objects, and return those."""
        table, ring = self._table, self._ring
        box = tracks.xyxy[own].astype(np.float64)
        left_top, size = box[:, :2].astype(np.int64), (box[:, 2:] - box[:, :2]).astype(np.int64)
        rows, _ = table.rows(tracks.track_id[own], now_ns=now_ns)
        seen = table["frames"][rows]
        table["samples"][rows, seen % ring] = np.concatenate([left_top + size // 2, size], axis=1)
        table["frames"][rows] = frames = seen + 1
        samples = table["samples"][rows]
        mean_height = samples[..., 3].sum(axis=1) / np.minimum(frames, ring)
        oldest = (frames[:, None] + np.arange(_OLDEST_SAMPLES)) % ring
        before = np.where(
            (frames < ring)[:, None],
            samples[:, :_FIRST_SAMPLES].sum(axis=1) // _FIRST_SAMPLES,
            np.take_along_axis(samples, oldest[..., None], axis=1).sum(axis=1) // _OLDEST_SAMPLES,
        )
        newest = samples[np.arange(len(rows)), seen % ring]
        is_still = (frames > ring) & _have_hardly_moved(samples)
        return Histories(tracks.track_id[own], newest, before, frames, mean_height, is_still)

    def report(self, track_id: int, name: str) -> bool:
        """Return whether a rule reports an object for the first time: from now on it has."""
        reported = self._reported.setdefault(track_id, set())
        is_first = name not in reported
        reported.add(name)
        return is_first

    def was_reported(self, track_id: int, name: str) -> bool:
        """Return whether a rule has reported an object."""
        return name in self._reported.get(track_id, ())

    def take_over(self, former: Mapping[str, str]) -> None:
        """Keep only what the rules of these names have reported, each under its `former` name."""
        for track_id, reported in self._reported.items():
            self._reported[track_id] = {name for name, before in former.items() if before in reported}

    def save(self) -> Saved:
        """Return them as plain values."""
        reported = {str(track_id): sorted(names) for track_id, names in self._reported.items() if names}
        return {"ring": self._ring, "objects": self._table.save(), "reported": reported}

    def restore(self, saved: Saved, names: set[str]) -> None:
        """Take over saved ones, and what rules of these names have reported. Raises KeyError, TypeError or ValueError
        when they are something else. Those with rings of another length are forgotten.
        """
        if saved["ring"] != self._ring:
            return
        self._table.restore(saved["objects"])
        self._reported = {int(track_id): set(own) & names for track_id, own in saved["reported"].items()}

    def clear(self) -> None:
        """Forget all objects."""
        self._table.clear()
        self._reported = {}


def whole_pixels(point: tuple[float, float], size_wh: tuple[int, int], *, pixels: bool) -> Pixel:
    """Return a point, in fractions of a frame or in `pixels` of it, in whole pixels by truncation."""
    width, height = (1, 1) if pixels else size_wh
    return int(point[0] * width), int(point[1] * height)


def _have_hardly_moved(samples: Whole) -> Mask:
    """Return which objects (N,) with full rings (N, ring, 4) stand, by the variances of their centres."""
    centres, ring = samples[..., :2], samples.shape[1]
    spread = ring * (centres**2).sum(axis=1) - centres.sum(axis=1) ** 2
    """The variances (N, 2), times the square of the number of samples: so whole numbers decide."""
    heights = samples[..., 3].sum(axis=1)
    is_still: Mask = (spread[:, 0] <= _MOST_VARIANCE_X * ring**2) & (_HEIGHTS * spread[:, 1] <= heights * ring)
    return is_still


def _bottom(samples: Whole) -> Whole:
    bottom: Whole = samples[:, 1] + samples[:, 3] // 2
    return bottom
