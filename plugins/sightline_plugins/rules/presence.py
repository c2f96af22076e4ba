"""Which tracks are in each area on successive frames, as sets that are made anew only where others are there."""

from __future__ import annotations

from collections.abc import Iterator, Set

import numpy as np

from sightline_plugins.rules.containment import tracks_by_area
from sightline_plugins.rules.geometry import Mask
from sightline_plugins.rules.stays import NOBODY
from sightline_plugins.rules.track_table import Ids


class Presence:
    """The tracks in each of Z areas of one stream; takes every frame in order, and begins anew after `forget`.

    On most frames nobody comes or goes in most areas. What follows from who is there has to be looked at in the
    others only.
    """

    inside: list[Set[int]]
    """The tracks in each area."""
    counted: list[Set[int]]
    """Those of them that may begin a stay (their class is right)."""
    rows: dict[int, int]
    """The row of each track on the frame."""
    came: Set[int]
    """The tracks that were not on the frame before."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Forget the frame before: with the next one, others are in every area."""
        self.inside, self.counted, self.rows, self.came = [], [], {}, NOBODY
        self._last: tuple[Ids, tuple[Mask, Mask]] | None = None
        self._is_same = False
        """Whether who is inside is counted, everywhere."""

    def take(self, track_id: Ids, inside: Mask, counted: Mask) -> Set[int]:
        """Take the tracks (N,) of the next frame, which of them are `inside` each area, and which are `counted`, (N, Z)
        each. Return the areas in which others are inside, or counted, than on the frame before.

        The arrays are kept until the next frame.
        """
        areas = inside.shape[1]
        was_same, self._is_same = self._is_same, np.array_equal(inside, counted)
        masks = inside, counted
        last, self._last = self._last, (track_id, masks)
        looked = slice(1 if self._is_same and was_same else 2)
        if last is not None and np.array_equal(track_id, last[0]):
            self.came = NOBODY
            changed = _any_area(now != former for now, former in zip(masks[looked], last[1][looked], strict=True))
        else:
            ids, before = track_id.tolist(), self.rows
            self.rows = dict(zip(ids, range(len(ids)), strict=True))
            self.came = self.rows.keys() - before.keys()
            if last is None:
                self.inside, self.counted = [NOBODY] * areas, [NOBODY] * areas
                changed = np.ones(areas, np.bool_)
            else:
                pairs = list(zip(masks[looked], last[1][looked], strict=True))
                changed = self._compared(ids, before, pairs, is_unique=len(before) == len(last[0]))
        numbers = np.flatnonzero(changed)
        here = tracks_by_area(track_id, inside[:, numbers])
        may = here if self._is_same else tracks_by_area(track_id, counted[:, numbers])
        found: list[int] = numbers.tolist()
        for place, number in enumerate(found):
            self.inside[number], self.counted[number] = here.get(place, NOBODY), may.get(place, NOBODY)
        return set(found)

    def _compared(
        self, ids: list[int], before: dict[int, int], pairs: list[tuple[Mask, Mask]], *, is_unique: bool
    ) -> Mask:
        """Return the areas (Z,) in which masks differ, of tracks that have other rows than on the frame before."""
        if not is_unique or len(self.rows) < len(ids):
            return np.ones(pairs[0][0].shape[1], np.bool_)
        places = np.array([before.get(track_id, -1) for track_id in ids], np.intp)
        is_old = places >= 0
        left = [row for track_id, row in before.items() if track_id not in self.rows]

        def differing() -> Iterator[Mask]:
            for now, former in pairs:
                yield now[is_old] != former[places[is_old]]
                yield now[~is_old]
                yield former[left]

        return _any_area(differing())


def _any_area(masks: Iterator[Mask]) -> Mask:
    """Return the areas (Z,) with anything in any of these masks (N, Z)."""
    found: Mask = np.bitwise_or.reduce([np.bitwise_or.reduce(mask, axis=0) for mask in masks])
    return found
