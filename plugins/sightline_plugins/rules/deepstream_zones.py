"""ROI counts and overcrowding as nvdsanalytics of DeepStream has them, for `compat: deepstream`.

The method is that of `nvds_analytics.cpp` of DeepStream 9.1, in integers of frame pixels: an object is inside on each
frame by itself, with no margin and no memory of an occlusion, and a zone is crowded at once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sightline.graph.rule import INSIDE, Points, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media import Part
from sightline_plugins.rules.deepstream_history import ObjectHistories, Pixel, whole_pixels

LARGEST = "largest"
_MILLISECOND_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class Roi:
    """A polygon in fractions of the frame or pixels, how many objects in it are a crowd (None for no limit), and
    whether the number inside is the most frequent one of the window.
    """

    polygon: Points
    limit: int | None
    is_smooth: bool
    classes: tuple[str, ...] | None


class Rois(Protocol):
    """The element: its zones by name."""

    @property
    def pixels(self) -> bool:
        """Whether coordinates are pixels."""
        ...

    @property
    def window(self) -> int:
        """How many frames are remembered of each object, and for how many milliseconds counts."""
        ...

    def rois(self) -> Mapping[str, Roi]:
        """Return the zones."""
        ...


class DeepStreamZones(StreamRule):
    """The zones of one stream, and how many objects are inside."""

    def __init__(self, options: Rois, earlier: DeepStreamZones | None = None) -> None:
        self._take(options)
        self._objects = ObjectHistories(options.window)
        self._recent: dict[str, deque[tuple[int, int]]] = {}
        """The counts of smooth zones in the window, with the times of their frames."""
        self._crowded: set[str] = set()
        self._size_wh: tuple[int, int] | None = None
        self.tally: dict[str, dict[str, int]] = {name: _nobody() for name in self._rois}
        if earlier is not None:
            self.tally = earlier.tally

    def change(self, rule: Any) -> None:
        """Take over other zones, between two frames."""
        former = self._rois
        self._take(rule)
        self._crowded &= set(self._rois)
        self._recent = {name: own for name, own in self._recent.items() if self._rois.get(name) == former.get(name)}
        self.tally = {**{name: _nobody() for name in self._rois}, **self.tally}
        if self._size_wh is not None:
            self.place(self._size_wh)

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Convert the zones to whole pixels of frames of that size, by truncation."""
        self._size_wh = size_wh
        self._corners = {
            name: [whole_pixels(corner, size_wh, pixels=self._pixels) for corner in roi.polygon]
            for name, roi in self._rois.items()
        }
        return {name: tuple((float(x), float(y)) for x, y in own) for name, own in self._corners.items()}

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Count the objects inside on each frame; yield when a zone becomes crowded, or cleared."""
        seen = tracks.when_active()
        for now_ns, own in zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True):
            self._objects.forget(now_ns)
            rows = range(own.start, own.stop)
            labels = tracks.labels(np.arange(own.start, own.stop))
            feet = self._objects.add(tracks, own, now_ns=now_ns).feet().tolist()
            found: list[RuleEvent] = []
            for number, (name, roi) in enumerate(self._rois.items()):
                count = sum(
                    _is_inside(self._corners[name], foot)
                    for row, foot, label in zip(rows, feet, labels, strict=True)
                    if (seen is None or seen[row, number]) and (roi.classes is None or label in roi.classes)
                )
                tally, inside = self.tally[name], self._smoothed(name, count, now_ns) if roi.is_smooth else count
                tally[INSIDE], tally[LARGEST] = inside, max(tally[LARGEST], inside)
                if (is_crowded := roi.limit is not None and count >= roi.limit) != (name in self._crowded):
                    self._crowded ^= {name}
                    state, part = ("crowded", Part.BEGIN) if is_crowded else ("cleared", Part.END)
                    found.append(RuleEvent("crowd", name, {"state": state, "occupancy": count}, part))
            yield found

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many objects are inside each zone, and the most that were."""
        return {name: self.tally[name] for name in self._rois}

    def totals(self) -> Mapping[str, Mapping[str, int]]:
        """Return the same for the report, also of zones that are gone."""
        return self.tally

    def save(self) -> Saved:
        """Return the counts, the crowded zones and the histories."""
        recent = {name: [list(one) for one in own] for name, own in self._recent.items()}
        tally = {name: {**own, "recent": recent.get(name, [])} for name, own in self.tally.items()}
        return {"tally": tally, "crowded": sorted(self._crowded), "histories": self._objects.save()}

    def restore(self, saved: Saved) -> None:
        """Go on with the counts, the crowded zones and the histories."""
        tally = {str(name): {one: int(own[one]) for one in _nobody()} for name, own in saved["tally"].items()}
        recent = {
            name: deque((int(at_ns), int(count)) for at_ns, count in saved["tally"][name]["recent"])
            for name in self._rois
            if name in saved["tally"]
        }
        self._objects.restore(saved["histories"], set())
        self._crowded = set(saved["crowded"]) & set(self._rois)
        self.tally, self._recent = {**self.tally, **tally}, recent

    def end(self) -> None:
        self._objects.clear()
        self._crowded, self._recent = set(), {}

    def _take(self, options: Rois) -> None:
        self._rois, self._pixels, self._window_ns = options.rois(), options.pixels, options.window * _MILLISECOND_NS

    def _smoothed(self, name: str, count: int, now_ns: int) -> int:
        """Return the most frequent count of a zone in the window, of equally frequent ones the newest; those before the
        first object do not count.
        """
        recent = self._recent.setdefault(name, deque())
        if not recent and not count:
            return 0
        recent.append((now_ns, count))
        while now_ns - recent[0][0] > self._window_ns:
            recent.popleft()
        times = Counter(one for _, one in reversed(recent))
        return max(times, key=times.__getitem__)


def _nobody() -> dict[str, int]:
    return {INSIDE: 0, LARGEST: 0}


def _is_inside(corners: Sequence[Pixel], point: Pixel) -> bool:
    """Return whether a ray to the left of a point, that included, meets an odd number of edges."""
    x, y = point
    inside = False
    for (x1, y1), (x2, y2) in zip(corners, [*corners[1:], corners[0]], strict=True):
        if (y1 > y) != (y2 > y):
            inside ^= 0 <= x1 + (y - y1) * (x2 - x1) / (y2 - y1) <= x
    return inside
