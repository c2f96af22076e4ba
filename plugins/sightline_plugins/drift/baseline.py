"""A baseline: what a stream usually shows, as histograms of spans of time, and how far it differs from itself.

It was learned in blocks as long as the window that is compared. A window is compared with all of them together, and
with the one that is most like it; where the baseline covers a day, only with those at that time of day (an hour and a
half earlier or later). So a night is compared with nights, and dusk may come earlier. How far the blocks differ from
one another in the same way is what is usual, and no alarm.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.graph.state import Saved
from sightline.media.frame import NANOSECONDS
from sightline_plugins.drift.distance import Floats, critical, distances
from sightline_plugins.drift.quantities import (
    BINS,
    MOST_BLOCKS,
    MOST_SERIES,
    OF_OBJECTS,
    QUANTITIES,
    Counts,
    QuantityName,
)

Key: TypeAlias = tuple[QuantityName, str]
"""A quantity and the label of its objects; of an image the label is empty."""

FEWEST_SAMPLES = 30
"""With fewer samples nothing is compared."""
_FEWEST_OF_BLOCK = 100
"""With fewer samples of objects, a block does not count by itself."""
MOST_FRAMES = 60
"""Frames of a window that count as samples of their own: others are too near to one of these."""
_NOTHING = (np.zeros((0, BINS), np.uint32), np.zeros(0, np.uint32))
_Samples: TypeAlias = tuple[Counts, npt.NDArray[np.int64]]
"""Histograms (..., S, 32), and how many independent samples are in each (..., S)."""
_DAY_NS = 86_400 * NANOSECONDS
_ABOUT_A_DAY_NS = 23 * 3600 * NANOSECONDS
_TWO_DAYS_NS = 47 * 3600 * NANOSECONDS
_SAME_TIME_NS = 90 * 60 * NANOSECONDS
_USUAL_FACTOR = 1.25
"""How much farther than usual a window has to differ."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Samples of a span of time: how many are in each bin of each series, `counts` (S, 32), on how many `frames`.

    `at_ns` is when, since the epoch. `objects` (S,) is how many different objects the samples of a series are of, 0
    where they are of frames. Counts of objects have no samples of frames without objects: these are the frames that are
    left. Series that came later are missing at the end.
    """

    at_ns: int
    frames: int
    counts: Counts
    objects: npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """How far a window differs from the baseline, for each series (S,).

    `distance` and `limit`, from which on it differs for certain, are NaN where there are too few samples. `move` is in
    bins, `before` the samples (S, 32) of the part of the baseline that is most like it, `now` its own.
    """

    distance: Floats
    limit: Floats
    move: Floats
    before: npt.NDArray[np.uint64]
    now: Counts

    @property
    def is_known(self) -> npt.NDArray[np.bool_]:
        """Which series were compared."""
        return ~np.isnan(self.distance)


class Baseline:
    """What a stream usually shows. `keys` name the series; those of later windows may be more, with these first."""

    def __init__(self, keys: Sequence[Key], blocks: Sequence[Block]) -> None:
        self.keys = tuple(keys)
        self._at_ns = np.array([block.at_ns for block in blocks], np.int64)
        self._frames = np.array([block.frames for block in blocks], np.int64)
        self._counts = _complete(_stacked(blocks, rows=len(keys)), self._frames, self.keys)
        self._samples = _samples(blocks, self.keys)
        span_ns = int(np.ptp(self._at_ns))
        self._has_day, self._has_days = span_ns >= _ABOUT_A_DAY_NS, span_ns >= _TWO_DAYS_NS
        self._usual = self._learned_distances()

    def compare(self, window: Block, keys: Sequence[Key], *, threshold: float) -> Comparison:
        """Compare a window with it. A series is judged against `threshold`, what chance does, and what is usual."""
        now = _complete(_stacked([window], rows=len(keys)), np.array([window.frames]), keys)[0]
        near, missing = self._near(window.at_ns), len(keys) - len(self.keys)
        frames = self._frames[near]
        blocks = _complete(np.pad(self._counts[near], ((0, 0), (0, missing), (0, 0))), frames, keys)
        added = _samples([Block(0, count, *_NOTHING) for count in frames.tolist()], keys[len(self.keys) :])
        samples = np.concatenate([self._samples[near], added], axis=1)
        usual = np.pad(self._usual, (0, missing))
        return _compared((blocks, samples), (now, _samples([window], keys)[0]), keys, usual, threshold)

    def _near(self, at_ns: int) -> npt.NDArray[np.intp]:
        """Return the rows of the blocks at that time of day; all where there are none, or no day was learned."""
        if self._has_day:
            apart = np.abs((self._at_ns - at_ns) % _DAY_NS)
            near = np.flatnonzero(np.minimum(apart, _DAY_NS - apart) <= _SAME_TIME_NS)
            if near.size:
                return near
        return np.arange(len(self._at_ns))

    def _learned_distances(self) -> Floats:
        """Return how far the blocks differ from others at most, for each series (S,): from those of other days where
        there are any.
        """
        usual = np.zeros(len(self.keys))
        for row, at_ns in enumerate(self._at_ns.tolist()):
            others = self._near(at_ns)
            if self._has_days:
                others = others[np.abs(self._at_ns[others] - at_ns) >= _DAY_NS // 2]
            others = others[others != row]
            if others.size:
                blocks, own = (self._counts[others], self._samples[others]), (self._counts[row], self._samples[row])
                found = _compared(blocks, own, self.keys, np.zeros_like(usual), 0.0)
                usual = np.fmax(usual, found.distance)
        return usual

    def save(self) -> Saved:
        """Return it as JSON values."""
        rows = zip(self._at_ns.tolist(), self._frames.tolist(), self._counts, self._samples, strict=True)
        return save_blocks(self.keys, [Block(*row[:3], row[3].astype(np.uint32)) for row in rows])

    @classmethod
    def restored(cls, saved: Saved, *, is_wanted: Callable[[Key], bool] = lambda _: True) -> Baseline:
        """Return what `save` gave, of the series that are wanted. Raises KeyError, TypeError or ValueError."""
        keys, blocks = restored_blocks(saved, is_wanted=is_wanted)
        if not blocks:
            raise ValueError("a baseline without samples")
        return cls(keys, blocks)


def save_blocks(keys: Iterable[Key], blocks: Sequence[Block]) -> Saved:
    """Return blocks as JSON values, the samples compressed."""
    names = [list(key) for key in keys]
    counts = np.zeros((len(blocks), len(names), BINS + 1), "<u4")
    for row, block in enumerate(blocks):
        counts[row, : len(block.counts), :BINS], counts[row, : len(block.objects), BINS] = block.counts, block.objects
    return {
        "series": names,
        "at_ns": [block.at_ns for block in blocks],
        "frames": [block.frames for block in blocks],
        "counts": b64encode(zlib.compress(counts.tobytes())).decode(),
    }


def restored_blocks(
    saved: Saved, *, is_wanted: Callable[[Key], bool] = lambda _: True
) -> tuple[list[Key], list[Block]]:
    """Return what `save_blocks` gave, of the series that are wanted. Raises KeyError, TypeError or ValueError."""
    keys = [_key(name) for name in saved["series"]]
    at_ns, frames = [int(one) for one in saved["at_ns"]], [int(one) for one in saved["frames"]]
    if len(at_ns) != len(frames) or len(at_ns) > MOST_BLOCKS or len(keys) > MOST_SERIES or len(set(keys)) < len(keys):
        raise ValueError("blocks of samples that do not fit one another")
    size = len(at_ns) * len(keys) * (BINS + 1) * 4
    try:
        unpacked = zlib.decompressobj().decompress(b64decode(saved["counts"]), size + 1)
    except zlib.error as error:
        raise ValueError("damaged samples") from error
    if len(unpacked) != size or min(frames, default=0) < 0:
        raise ValueError("samples that do not fit their series")
    counts = np.frombuffer(unpacked, "<u4").astype(np.uint32).reshape(len(at_ns), len(keys), BINS + 1)
    rows = [row for row, key in enumerate(keys) if is_wanted(key)]
    wanted, objects = counts[:, rows, :BINS], counts[:, rows, BINS]
    blocks = [Block(at_ns[row], frames[row], wanted[row], objects[row]) for row in range(len(at_ns))]
    return [keys[row] for row in rows], blocks


def _key(name: Sequence[str]) -> Key:
    quantity, label = name
    if quantity not in QUANTITIES or not isinstance(label, str):
        raise ValueError(f"{quantity!r} is no quantity")
    return quantity, label


def _stacked(blocks: Sequence[Block], *, rows: int) -> Counts:
    """Return the samples of blocks in one new array (K, rows, 32)."""
    counts = np.zeros((len(blocks), rows, BINS), np.uint32)
    for row, block in enumerate(blocks):
        counts[row, : len(block.counts)] = block.counts
    return counts


def _complete(counts: Counts, frames: npt.NDArray[np.int64], keys: Sequence[Key]) -> Counts:
    """Add the frames without objects to the counts of objects (K, S, 32), in place."""
    for row, (quantity, _) in enumerate(keys):
        if quantity == "count":
            missing = frames - counts[:, row].sum(axis=-1, dtype=np.int64)
            counts[:, row, 0] += np.maximum(missing, 0).astype(np.uint32)
    return counts


def _samples(blocks: Sequence[Block], keys: Sequence[Key]) -> npt.NDArray[np.int64]:
    """Return how many independent samples blocks have (K, S): the different objects, or the frames, at most sixty."""
    found = np.zeros((len(blocks), len(keys)), np.int64)
    of_frames = [row for row, (quantity, _) in enumerate(keys) if quantity == "count" or quantity not in OF_OBJECTS]
    for row, block in enumerate(blocks):
        found[row, : len(block.objects)] = block.objects
        found[row, of_frames] = min(block.frames, MOST_FRAMES)
    return found


def _compared(blocks: _Samples, now: _Samples, keys: Sequence[Key], usual: Floats, threshold: float) -> Comparison:
    """Compare a window (S, 32) with each block (K, S, 32) and with all of them; the nearest, measured by its limit,
    counts. A block with few samples does not count by itself.
    """
    (counts, samples), (own_counts, own) = blocks, now
    samples = np.concatenate([samples, samples.sum(axis=0, keepdims=True)])
    profiles = np.concatenate([counts, counts.sum(axis=0, keepdims=True)], dtype=np.uint64)
    distance, move = distances(profiles, own_counts)
    limit = np.maximum(np.maximum(critical(samples, own), threshold), _USUAL_FACTOR * usual)
    of_objects = np.array([quantity in ("confidence", "size") for quantity, _ in keys])
    fewest = np.where(of_objects, _FEWEST_OF_BLOCK, FEWEST_SAMPLES) * np.ones_like(samples)
    fewest[-1] = FEWEST_SAMPLES
    ratio = np.where(samples >= fewest, distance / limit, np.inf)
    best, every = ratio.argmin(axis=0), np.arange(len(keys))
    known = (own >= FEWEST_SAMPLES) & np.isfinite(ratio[best, every])
    return Comparison(
        np.where(known, distance[best, every], np.nan),
        np.where(known, limit[best, every], np.nan),
        move[best, every],
        profiles[best, every],
        own_counts,
    )
