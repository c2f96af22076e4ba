"""The gallery: how the tracks of a stream look, also those that ended, so that an object that comes back has its id.

Motion says nothing of an object that was hidden for long, left and came back, or moved on while its camera was gone.
Each confirmed track has an entry with the mean of its embeddings. A track that is confirmed is compared with all
entries that are not in view, and continues one if the evidence of appearance and time is clear:

- what a similarity says is measured while it runs (`AppearanceScale`), between single detections and entries: tracks in
  view are the same object as their own entry, and no other one; nor is a new track any entry but the most similar one;
- an object is the less likely to come back the longer it was away;
- the similarity must be one that an object usually has with its entry: strangers who look alike are not rare.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import NO_TRACK
from sightline_plugins.track.appearance import AppearanceScale, Floats, unit
from sightline_plugins.track.association import assign

Integers = npt.NDArray[np.int64]

MOST_ENTRIES = 500
"""Entries of a stream, 1 MB for embeddings of 512 numbers; those unseen for longest are dropped first."""
_INTERVAL_NS = 500_000_000
"""How often the entries of tracks in view change; neighbouring frames show nothing new."""
_MOST_VIEWS = 5
"""Detections of which an entry is the mean; later ones count as much as one of these."""
_HALF_AWAY_NS = 10_000_000_000
"""Time away after which an object is half as likely to come back as at once; at once it is as likely as a new one."""
_MIN_PROBABILITY = 0.9
_MOST_LOG_RATIO = 9.0


@dataclass(slots=True, eq=False)
class _Entries:
    """A row for each track, in the order of the ids."""

    track_id: Integers
    class_id: Integers
    seen_ns: Integers
    next_number: Integers
    """The number of the next track when this one was last seen: earlier ones were there beside it."""
    views: Integers
    """Detections that the vector is a mean of."""
    vector: Floats
    """(N, D), of length 1."""

    def __len__(self) -> int:
        return len(self.track_id)

    def select(self, rows: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> Self:
        """Return a copy with these rows only."""
        return type(self)(*(getattr(self, field.name)[rows] for field in fields(self)))

    def joined(self, others: Self) -> Self:
        """Return a copy with the rows of both, in the order of the ids."""
        names = [field.name for field in fields(self)]
        both = type(self)(*(np.concatenate([getattr(self, name), getattr(others, name)]) for name in names))
        return both.select(np.argsort(both.track_id))

    def rows_of(self, track_id: Integers) -> Integers:
        """Return the row of each of these tracks, -1 for none."""
        if not len(self):
            return np.full(len(track_id), -1)
        rows = np.minimum(np.searchsorted(self.track_id, track_id), len(self) - 1)
        return np.where(self.track_id[rows] == track_id, rows, -1)


class Gallery:
    """How the confirmed tracks of one stream look; those unseen for `keep_ns` are forgotten."""

    def __init__(self, *, keep_ns: int) -> None:
        self._keep_ns = keep_ns
        self._scale = AppearanceScale()
        self._changed_ns = -_INTERVAL_NS
        self._entries = _no_entries(0)

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, track_id: Integers, *, class_id: Integers, vector: Floats, next_number: int, now_ns: int) -> None:
        """Note the confirmed tracks (N,) in view, with the embeddings (N, D) of their detections; NaN is left out.

        `next_number` is the number that the next new track will get.
        """
        known = ~np.isnan(vector).any(axis=1)
        if not known.any():
            return
        track_id, class_id, vector = track_id[known], class_id[known], vector[known]
        if vector.shape[1] != self._entries.vector.shape[1]:
            self._entries = _no_entries(vector.shape[1])
        entries = self._entries
        rows = entries.rows_of(track_id)
        is_new = rows < 0
        rows = rows[~is_new]
        entries.seen_ns[rows], entries.next_number[rows] = now_ns, next_number
        if now_ns - self._changed_ns >= _INTERVAL_NS:
            self._changed_ns = now_ns
            self._change(rows, class_id=class_id[~is_new], vector=vector[~is_new])
        if is_new.any():
            count = int(is_new.sum())
            seen_ns, number, views = (np.full(count, value, np.int64) for value in (now_ns, next_number, 1))
            added = _Entries(track_id[is_new], class_id[is_new], seen_ns, number, views, vector[is_new])
            self._entries = entries.joined(added)
            self._forget(now_ns)

    def recognize(
        self, vector: Floats, *, class_id: Integers, number: Integers, in_view: Integers, now_ns: int
    ) -> Integers:
        """Return the ids that new tracks (N,) with these embeddings (N, D) had before; -1 for those that are new.

        `number` are the numbers of the tracks, `in_view` the ids that the frame shows already: no id is given twice.
        """
        found = np.full(len(vector), NO_TRACK, np.int64)
        entries = self._entries
        is_away = ~np.isin(entries.track_id, in_view) & (now_ns - entries.seen_ns <= self._keep_ns)
        if not is_away.any() or vector.shape[1] != entries.vector.shape[1]:
            return found
        away = entries.select(is_away)
        similarity = vector @ away.vector.T
        possible = (class_id[:, None] == away.class_id) & (number[:, None] >= away.next_number)
        similarity[~possible] = np.nan
        ratio = self._scale.log_ratio(similarity, most=_MOST_LOG_RATIO).astype(np.float64)
        weight = np.where(np.isnan(similarity), 0, np.exp(ratio) / (1 + (now_ns - away.seen_ns) / _HALF_AWAY_NS))
        probability = weight / (1 + weight.sum(axis=1, keepdims=True))
        probability[~self._scale.is_usual(similarity)] = 0
        rows, columns = assign((probability - _MIN_PROBABILITY).astype(np.float32))
        found[rows] = away.track_id[columns]
        self._scale.learn_different(_without_best(similarity))
        return found

    def _change(self, rows: Integers, *, class_id: Integers, vector: Floats) -> None:
        """Learn from entries whose tracks are in view, and update them."""
        entries = self._entries
        self._scale.learn(vector @ entries.vector[rows].T)
        entries.views[rows] = np.minimum(entries.views[rows] + 1, _MOST_VIEWS)
        rate = (1 / entries.views[rows])[:, None]
        entries.vector[rows] = unit((1 - rate) * entries.vector[rows] + rate * vector)
        entries.class_id[rows] = class_id

    def _forget(self, now_ns: int) -> None:
        """Forget tracks that were not seen for too long, and those beyond the limit."""
        entries = self._entries
        kept = now_ns - entries.seen_ns <= self._keep_ns
        kept[np.argsort(-entries.seen_ns, kind="stable")[MOST_ENTRIES:]] = False
        if not kept.all():
            self._entries = entries.select(kept)


def _no_entries(width: int) -> _Entries:
    none = np.empty(0, np.int64)
    return _Entries(none, none, none, none, none, np.empty((0, width), np.float32))


def _without_best(similarity: Floats) -> Floats:
    """Return the similarities (K,) of each row but the highest, without NaN."""
    rest = -np.sort(-similarity, axis=1)[:, 1:]
    return rest[~np.isnan(rest)]
