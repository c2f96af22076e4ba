"""The watch over one stream: it takes samples, learns what is usual, compares, and decides what drifts."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.graph.state import Saved
from sightline.media import Objects
from sightline.media.boxes import area
from sightline_plugins.drift.baseline import (
    MOST_FRAMES,
    Baseline,
    Block,
    Comparison,
    Key,
    restored_blocks,
    save_blocks,
)
from sightline_plugins.drift.distance import median_position
from sightline_plugins.drift.drift import PARTS, Drift
from sightline_plugins.drift.quantities import BINS, MOST_LABELS, MOST_SERIES, SCALES, Counts, QuantityName, mean_count

_CLEARED = 0.8
"""A drift is over when its distance, or the move, is below this share of what begins one."""

ImageValues: TypeAlias = Mapping[QuantityName, float]
"""Brightness, contrast and sharpness of an image; empty where they are not compared."""


@dataclass(slots=True)
class _Part:
    """Samples of a tenth of a window, as in `Block`; `seen` are the numbers of the objects sampled, by label."""

    at_ns: int
    frames: int
    counts: Counts
    seen: dict[str, set[int]]


@dataclass(frozen=True, slots=True)
class SeriesState:
    """How a series was when it was compared last. `before` and `now` are medians, of counts means."""

    distance: float
    limit: float
    before: float
    now: float
    drifts: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A drift that began or ended: for how long it has been so, and why it ended where that is not by itself."""

    key: Key
    row: int
    began: bool
    lasted_ns: int
    state: SeriesState | None
    reason: str = ""


class DriftWatch:
    """One stream. Times `now_ns` are by its clock, `at_ns` since the epoch; both in nanoseconds."""

    def __init__(self, options: Drift, baseline: Baseline | None = None) -> None:
        self.options = options
        self.baseline = baseline
        self.states: Mapping[Key, SeriesState] = {}
        """The series that could be compared last; replaced as a whole."""
        self.events: dict[Key, int] = {}
        self.ended_ns: dict[Key, int] = {}
        self._rows: dict[Key, int] = {} if baseline is None else {key: row for row, key in enumerate(baseline.keys)}
        self._blocks: list[Block] = []
        self._parts: deque[_Part] = deque(maxlen=PARTS)
        self._counts: Counts = np.zeros((MOST_SERIES, BINS), np.uint32)
        self._frames = 0
        self._seen: dict[str, set[int]] = {}
        self._untracked, self._has_tracks = 0, False
        self._part_since_ns: int | None = None
        self._part_at_ns = self._saved_at_ns = 0
        self._due_ns: int | None = None
        self._untracked_ns: int | None = None
        self._since_ns: dict[Key, int] = {}
        self._lasted_ns: dict[Key, int] = {}
        """For how long what drifts had done so when it was restored, until the first frame."""
        self._last_ns = 0
        self._saved: Saved | None = None

    @property
    def learned(self) -> float:
        """The share of the baseline that is learned, 0..1."""
        if self.baseline is not None:
            return 1.0
        return min((len(self._blocks) + len(self._parts) / PARTS) * self.options.window / self.options.learn, 1.0)

    def is_due(self, now_ns: int) -> bool:
        """Whether to sample the frame of that time. A frame that is due is to be given to `add`."""
        if self._due_ns is not None and 0 <= now_ns - self._due_ns < self.options.interval:
            return False
        self._due_ns = now_ns
        return True

    def add(
        self, objects: Objects, size_wh: tuple[int, int], image: ImageValues, *, now_ns: int, at_ns: int
    ) -> list[Change]:
        """Sample a frame with its objects, and return what begins and ends with it."""
        changes = self._advance(now_ns, at_ns)
        self._frames += 1
        self._last_ns = now_ns
        rows = [self._row((name, "")) for name in image]
        bins = [int(SCALES[name].bins(np.array(value))) for name, value in image.items()]
        self._counts[rows, bins] += np.uint32(1)
        if len(objects):
            self._add_objects(objects, size_wh, now_ns)
        return changes

    def learn_anew(self) -> list[Change]:
        """Forget what was learned; return the drifts that end with that."""
        changes = [
            Change(key, self._rows[key], False, self._last_ns - since_ns, self.states.get(key), "relearned")
            for key, since_ns in self._since_ns.items()
        ]
        for change in changes:
            self.ended_ns[change.key] = self.ended_ns.get(change.key, 0) + change.lasted_ns
        self.baseline, self._blocks, self.states, self._saved = None, [], {}, None
        self._since_ns.clear()
        self._parts.clear()
        return changes

    def lasts_ns(self) -> Mapping[Key, int]:
        """Return what drifts now, and for how long."""
        return {key: self._last_ns - since_ns for key, since_ns in list(self._since_ns.items())} | self._lasted_ns

    def learned_so_far(self, *, fewest: int) -> Baseline | None:
        """Return what is learned, also before all is; None with fewer windows."""
        if self.baseline is None and len(self._blocks) >= fewest:
            return Baseline(tuple(self._rows), self._blocks)
        return self.baseline

    def save(self) -> Saved | None:
        """Return what was learned in whole windows, and what drifts, as it was at the end of the last part; None before
        that.
        """
        if self._saved is None and self._saved_at_ns:
            learned = save_blocks(self._rows, self._blocks) if self.baseline is None else self.baseline.save()
            self._saved = {
                "at_ns": self._saved_at_ns,
                "window_ns": self.options.window,
                "is_learned": self.baseline is not None,
                "learned": learned,
                "drifts": [[*key, lasted_ns] for key, lasted_ns in self.lasts_ns().items()],
                "events": [[*key, count, self.ended_ns.get(key, 0)] for key, count in self.events.items()],
            }
        return self._saved

    def restore(self, saved: Saved, *, epoch_ns: int) -> None:
        """Go on with what an earlier process has saved. Raises KeyError, TypeError or ValueError."""
        options, gap_ns = self.options, max(epoch_ns - int(saved["at_ns"]), 0)
        baseline, keys, blocks = self.baseline, list[Key](), list[Block]()
        if baseline is None and saved["is_learned"]:
            baseline = Baseline.restored(saved["learned"], is_wanted=self._is_wanted)
        elif baseline is None and int(saved["window_ns"]) == options.window:
            keys, blocks = restored_blocks(saved["learned"], is_wanted=self._is_wanted)
        if baseline is not None:
            keys = list(baseline.keys)
        drifts = {(name, label): int(lasted_ns) + gap_ns for name, label, lasted_ns in saved["drifts"]}
        events = {(name, label): (int(count), int(ended)) for name, label, count, ended in saved["events"]}
        lasting = {key: lasted_ns for key, lasted_ns in drifts.items() if self._is_wanted(key)}
        rows = {key: row for row, key in enumerate(dict.fromkeys([*keys, *lasting]))}
        if len(rows) > MOST_SERIES:
            raise ValueError("too many quantities")
        self.baseline, self._blocks, self._saved_at_ns = baseline, blocks, int(saved["at_ns"])
        self._rows, self._lasted_ns = rows, lasting
        self.events = {key: count for key, (count, _) in events.items() if self._is_wanted(key)}
        self.ended_ns = {key: ended for key, (_, ended) in events.items() if self._is_wanted(key)}

    def _is_wanted(self, key: Key) -> bool:
        quantity, label = key
        is_of_label = not label or self.options.classes is None or label in self.options.classes
        return quantity in self.options.quantities and is_of_label

    def _row(self, key: Key) -> int:
        return self._rows.setdefault(key, len(self._rows))

    def _add_objects(self, objects: Objects, size_wh: tuple[int, int], now_ns: int) -> None:
        """Count the objects of a frame, and sample those that were not sampled in this part."""
        known = {label: number for number, label in enumerate(self._labels())}
        wanted = self.options.classes
        numbers = np.empty(len(objects), np.intp)
        for row, label in enumerate(objects.labels()):
            if label not in known and len(known) < MOST_LABELS and (wanted is None or label in wanted):
                known[label] = len(known)
            numbers[row] = known.get(label, -1)
        names = list(known)
        present = np.bincount(numbers[numbers >= 0], minlength=len(names))
        if "count" in self.options.quantities:
            found = np.flatnonzero(present)
            rows = [self._row(("count", names[number])) for number in found]
            self._counts[rows, SCALES["count"].bins(present[found])] += np.uint32(1)
        own = self._new(objects, [*names, ""], numbers, now_ns)
        if not own.any():
            return
        numbers = numbers[own]
        if "confidence" in self.options.quantities:
            self._sample("confidence", names, numbers, objects.confidence[own])
        if "size" in self.options.quantities:
            sides = np.sqrt(area(objects.xyxy[own]) / (size_wh[0] * size_wh[1]))
            self._sample("size", names, numbers, sides)

    def _labels(self) -> Sequence[str]:
        return list(dict.fromkeys(label for _, label in self._rows if label))

    def _new(
        self, objects: Objects, names: Sequence[str], numbers: npt.NDArray[np.intp], now_ns: int
    ) -> npt.NDArray[np.bool_]:
        """Return which objects (N,) are samples: each track once in a part, and others on sixty frames of a window,
        where those of a label and frame count as one object. Behind a tracker these are objects that it has not taken
        up, perhaps the same one all the time: they are taken from one frame in each part.
        """
        self._has_tracks = self._has_tracks or bool((objects.track_id >= 0).any())
        before_ns, spacing_ns = self._untracked_ns, self.options.window // (PARTS if self._has_tracks else MOST_FRAMES)
        takes_untracked = before_ns is None or not 0 <= now_ns - before_ns < spacing_ns
        if takes_untracked and (objects.track_id < 0).any():
            self._untracked_ns = now_ns
            self._untracked += 1
        new = np.zeros(len(objects), np.bool_)
        for row, (number, track_id) in enumerate(zip(numbers.tolist(), objects.track_id.tolist(), strict=True)):
            seen = self._seen.setdefault(names[number], set())
            new[row] = number >= 0 and (takes_untracked if track_id < 0 else track_id not in seen)
            if new[row]:
                seen.add(track_id if track_id >= 0 else -self._untracked)
        return new

    def _sample(
        self, name: QuantityName, names: Sequence[str], numbers: npt.NDArray[np.intp], values: npt.NDArray[np.float32]
    ) -> None:
        rows_of = {number: self._row((name, names[number])) for number in set(numbers.tolist())}
        rows = np.array([rows_of[number] for number in numbers.tolist()])
        np.add.at(self._counts, (rows, SCALES[name].bins(values)), 1)

    def _advance(self, now_ns: int, at_ns: int) -> list[Change]:
        """End the present part where its time is over, and return what begins and ends with that."""
        since_ns, part_ns = self._part_since_ns, self.options.window // PARTS
        changes: list[Change] = []
        if since_ns is None or now_ns < since_ns:
            lasting = {key: self._last_ns - since for key, since in self._since_ns.items()} | self._lasted_ns
            self._since_ns = {key: now_ns - lasted_ns for key, lasted_ns in lasting.items()}
            self._lasted_ns = {}
        elif now_ns - since_ns < part_ns:
            return []
        else:
            counts = self._counts[: len(self._rows)].copy()
            self._parts.append(_Part(self._part_at_ns, self._frames, counts, self._seen))
            self._last_ns = now_ns
            changes = self._end_window() if len(self._parts) == PARTS else []
            if now_ns - since_ns > self.options.window + part_ns:
                self._parts.clear()
            self._saved, self._saved_at_ns = None, at_ns
        is_next = since_ns is not None and 0 <= now_ns - since_ns < 2 * part_ns
        self._part_since_ns = since_ns + part_ns if is_next and since_ns is not None else now_ns
        self._part_at_ns, self._frames = at_ns, 0
        self._counts[:] = 0
        self._seen = {}
        return changes

    def _end_window(self) -> list[Change]:
        """Learn from the newest window, or compare it."""
        window = self._window()
        if self.baseline is None:
            self._blocks.append(window)
            self._parts.clear()
            if len(self._blocks) * self.options.window >= self.options.learn:
                self.baseline, self._blocks = Baseline(tuple(self._rows), self._blocks), []
            return []
        found = self.baseline.compare(window, tuple(self._rows), threshold=self.options.threshold)
        changes = list(self._changes(found))
        lasting = self.lasts_ns().values()
        if self.options.relearn is not None and max(lasting, default=0) >= self.options.relearn:
            changes += self.learn_anew()
        return changes

    def _window(self) -> Block:
        """Return the samples of all parts, as those of the time in their middle."""
        parts = list(self._parts)
        counts = np.zeros((len(self._rows), BINS), np.uint32)
        for part in parts:
            counts[: len(part.counts)] += part.counts
        objects = np.zeros(len(self._rows), np.uint32)
        for (quantity, label), row in self._rows.items():
            if quantity in ("confidence", "size"):
                objects[row] = len(set[int]().union(*(part.seen.get(label, ()) for part in parts)))
        at_ns = sum(part.at_ns for part in parts) // len(parts)
        return Block(at_ns, sum(part.frames for part in parts), counts, objects)

    def _changes(self, found: Comparison) -> Iterator[Change]:
        states: dict[Key, SeriesState] = {}
        for key, row in self._rows.items():
            if not found.is_known[row]:
                continue
            was = key in self._since_ns
            factor = _CLEARED if was else 1.0
            distance, limit = float(found.distance[row]), float(found.limit[row])
            is_so = distance >= factor * limit and found.move[row] >= factor * SCALES[key[0]].least_move
            middle = _middle(key)
            state = SeriesState(distance, limit, middle(found.before[row]), middle(found.now[row]), bool(is_so))
            states[key] = state
            if is_so and not was:
                self._since_ns[key] = self._last_ns
                self.events[key] = self.events.get(key, 0) + 1
                yield Change(key, row, True, 0, state)
            elif was and not is_so:
                lasted_ns = self._last_ns - self._since_ns.pop(key)
                self.ended_ns[key] = self.ended_ns.get(key, 0) + lasted_ns
                yield Change(key, row, False, lasted_ns, state)
        self.states = states


def _middle(key: Key) -> Callable[[npt.NDArray[np.integer]], float]:
    """Return what gives the median of a histogram (32,), or the mean of counts."""
    if key[0] == "count":
        return mean_count
    return lambda counts: SCALES[key[0]].value(median_position(counts))
