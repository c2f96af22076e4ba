"""The base of rules on areas that ask who stands there: found for all areas of a frame in one call."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from sightline_plugins.rules.areas import A, AreaFrame, AreaRule, AreaWatch, StreamAreas, T
from sightline_plugins.rules.standing import Standings


class StandingWatch(AreaWatch[A, T]):
    """The rule of one area that follows some of those inside, to know since when they stand."""

    standings: Standings

    def __init__(self, name: str, area: A, tally: T) -> None:
        super().__init__(name, area, tally)
        self.rows: dict[int, int] = {}
        """The rows in `standings` of the tracks that are followed."""
        self.stood: Mapping[int, int] = _NOBODY
        """Who is followed and seen on this frame, and has stood for the time `span_ns`: since when."""

    @property
    @abstractmethod
    def span_ns(self) -> int:
        """For how long an object has to stand."""

    @abstractmethod
    def follow(self, frame: AreaFrame) -> Sequence[int]:
        """Return the tracks, seen inside, that are followed on a frame."""

    @abstractmethod
    def side(self, track_id: int, frame: AreaFrame) -> float:
        """Return the side of the square in pixels that the path of a track has to keep within."""

    def forget(self, track_id: int) -> None:
        """Follow a track no longer."""
        if (row := self.rows.pop(track_id, None)) is not None:
            self.standings.end(row)

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
        super().__init__(options, earlier)

    def look(self, frames: Sequence[tuple[S, AreaFrame]]) -> None:
        if not frames:
            return
        rows: list[int] = []
        boxes: list[int] = []
        tracks: list[int] = []
        counts: list[int] = []
        for watch, frame in frames:
            watch.stood = _NOBODY
            followed = watch.follow(frame)
            own = watch.rows
            for track_id in followed:
                if track_id not in own:
                    own[track_id] = self.standings.begin(watch.side(track_id, frame))
            rows += [own[track_id] for track_id in followed]
            boxes += [frame.rows[track_id] for track_id in followed]
            tracks += followed
            counts.append(len(followed))
        if not rows:
            return
        now_ns = frames[0][1].now_ns
        areas = np.repeat(np.arange(len(frames)), counts)
        spans_ns = np.array([watch.span_ns for watch, _ in frames], np.int64)
        fractions = np.array([frame.fractions for _, frame in frames])
        since_ns = self.standings.update(
            rows,
            boxes=boxes,
            areas=areas,
            xyxy=frames[0][1].xyxy,
            fractions=fractions,
            spans_ns=spans_ns,
            now_ns=now_ns,
        )
        for place in np.flatnonzero(now_ns - since_ns >= spans_ns[areas]).tolist():
            watch, _ = frames[areas[place]]
            watch.stood = {**watch.stood, tracks[place]: int(since_ns[place])}

    def change(self, rule: AreaRule) -> None:
        before = self.watches
        super().change(rule)
        for watch in before:
            if watch not in self.watches:
                watch.forget_all()


_NOBODY: Mapping[int, int] = {}
