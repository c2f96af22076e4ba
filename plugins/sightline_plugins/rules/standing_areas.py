"""The base of rules on areas that ask who stands there: found for all areas of a frame in one call."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from sightline.media.boxes import Boxes
from sightline_plugins.rules.areas import A, AreaFrame, AreaRule, AreaWatch, StreamAreas, T
from sightline_plugins.rules.standing import Standings


class StandingWatch(AreaWatch[A, T]):
    """The rule of one area that follows some of those inside, to know since when they stand."""

    standings: Standings

    def __init__(self, name: str, area: A, tally: T) -> None:
        super().__init__(name, area, tally)
        self.rows: dict[int, int] = {}
        """The rows in `standings` of the tracks that are followed."""
        self.followed: Sequence[int] = ()
        """Those of them that are seen inside."""
        self.places: Sequence[int] = ()
        """Their rows."""
        self.stood: Mapping[int, int] = _NOBODY
        """Who is followed and seen on this frame, and has stood for the time `span_ns`: since when. `update` is called
        when others have than on the frame before.
        """

    @property
    @abstractmethod
    def span_ns(self) -> int:
        """For how long an object has to stand."""

    @abstractmethod
    def follow(self, frame: AreaFrame) -> Sequence[int]:
        """Return the tracks, seen inside, that are followed on a frame that `update` gets, and until the next such."""

    @abstractmethod
    def side(self, track_id: int, frame: AreaFrame) -> float:
        """Return the side of the square in pixels that the path of a track has to keep within."""

    def forget(self, track_id: int) -> None:
        """Follow a track no longer."""
        if (row := self.rows.pop(track_id, None)) is not None:
            self.standings.end(row)

    def follow_on(self, frame: AreaFrame) -> None:
        """Follow whom `follow` returns."""
        self.followed = self.follow(frame)
        for track_id in self.followed:
            if track_id not in self.rows:
                self.rows[track_id] = self.standings.begin(self.side(track_id, frame))
        self.places = [self.rows[track_id] for track_id in self.followed]

    def forget_all(self) -> None:
        """Follow nobody any longer."""
        for track_id in list(self.rows):
            self.forget(track_id)

    def save_rows(self) -> list[Any]:
        """Return what is known of those who are followed."""
        return [[track_id, self.standings.save(row)] for track_id, row in self.rows.items()]

    def restore_rows(self, saved: Sequence[Any]) -> None:
        """Go on with it."""
        self.rows = {int(track_id): self.standings.restore(own) for track_id, own in saved}


S = TypeVar("S", bound=StandingWatch[Any, Any])


class StreamStandingAreas(StreamAreas[S]):
    """The areas of one stream in which some stand."""

    def __init__(self, options: AreaRule, earlier: StreamStandingAreas[S] | None = None) -> None:
        self.standings = Standings()
        self._tracks: list[int] = []
        """Who is followed, area by area."""
        self._rows = self._numbers = np.zeros(0, np.int64)
        """Their rows in `standings`, and the numbers of their areas."""
        self._stood: Sequence[int] = ()
        """The areas in which somebody has stood for long enough."""
        super().__init__(options, earlier)
        self._take_spans()

    def look(self, frames: Mapping[int, AreaFrame], *, xyxy: Boxes, now_ns: int) -> Collection[int]:
        if frames:
            self._follow(frames)
        tracks, areas = self._tracks, self._numbers
        found: dict[int, dict[int, int]] = {}
        if tracks:
            box_of = self._presence.rows
            since_ns = self.standings.update(
                self._rows,
                boxes=np.array(list(map(box_of.__getitem__, tracks)), np.int64),
                areas=areas,
                xyxy=xyxy,
                fractions=self._containment.fractions,
                spans_ns=self._spans_ns,
                now_ns=now_ns,
            )
            stand = np.flatnonzero(now_ns - since_ns >= self._spans_ns[areas])
            for place, number, own_ns in zip(
                stand.tolist(), areas[stand].tolist(), since_ns[stand].tolist(), strict=True
            ):
                found.setdefault(number, {})[tracks[place]] = own_ns
        others = [number for number in self._stood if number not in found]
        for number in others:
            self.watches[number].stood = _NOBODY
        for number, stood in found.items():
            if stood.keys() != self.watches[number].stood.keys():
                others.append(number)
            self.watches[number].stood = stood
        self._stood = list(found)
        return others

    def _follow(self, frames: Mapping[int, AreaFrame]) -> None:
        """Find out whom the watches follow that get the next frame."""
        for number, frame in frames.items():
            self.watches[number].follow_on(frame)
        self._tracks = list(chain.from_iterable([watch.followed for watch in self.watches]))
        rows = list(chain.from_iterable([watch.places for watch in self.watches]))
        self._rows = np.array(rows, np.int64)
        self._numbers = np.repeat(np.arange(len(self.watches)), [len(watch.places) for watch in self.watches])

    def change(self, rule: AreaRule) -> None:
        before = self.watches
        super().change(rule)
        for watch in before:
            if watch not in self.watches:
                watch.forget_all()
        self._stood = [number for number, watch in enumerate(self.watches) if watch.stood]
        self._take_spans()

    def _take_spans(self) -> None:
        self._spans_ns = np.array([watch.span_ns for watch in self.watches], np.int64)


_NOBODY: Mapping[int, int] = {}
