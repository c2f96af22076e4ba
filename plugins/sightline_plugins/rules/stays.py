"""Stays of tracks in one area, and states that have to last before they count. Sets of tracks in, stays out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from typing import Any

NEVER_NS = 1 << 62
NOBODY: frozenset[int] = frozenset()


@dataclass(slots=True, eq=False)
class Stay:
    """The stay of one track in an area, from `entered_ns` on.

    `absent_ns` is the time of the first frame on which it was missing, None while it is there. A stay that has ended
    ended then.
    """

    track_id: int
    entered_ns: int
    absent_ns: int | None = None
    is_outside: bool = False
    """The track was seen outside since it has been missing."""
    is_placed: bool = False
    """An edit of the area began it: nobody entered."""
    is_unjudged: bool = False
    """An edit of the area ended it, or the track has been hidden since such an edit: nobody left."""


@dataclass(slots=True, eq=False)
class Stays:
    """The open stays in one area of one stream; takes every frame in order.

    A stay begins when a track is inside. It ends when the track was not inside for `outside_ns` and was seen outside
    meanwhile, or was not seen for `gone_ns`: at the first frame on which it was missing.
    """

    open: dict[int, Stay] = field(default_factory=dict)
    voided: list[Stay] = field(default_factory=list)
    """Those that an edit has ended since the last frame."""
    missing: set[int] = field(default_factory=set)
    """The tracks of open stays that were not inside on the last frame, or are not since an edit."""
    hidden: set[int] = field(default_factory=set)
    """Those of them that have not been seen outside; means nothing while nobody is missing."""
    _hidden_since_ns: int = NEVER_NS
    """None of the hidden ones has been missing for longer than since then."""
    _outside_since_ns: int = NEVER_NS
    """None of the others has."""

    def rests(self, now_ns: int, *, came: Set[int], gone_ns: int, outside_ns: int = 0) -> bool:
        """Return whether `update` would find neither a beginning nor an end: on a frame with the same tracks inside and
        counted as on the one that it took last, when `came` are the tracks that were not on the frame before.

        After `edit` and `restore` it has to take a frame first.
        """
        if not self.missing:
            return not self.voided
        is_due = self._is_due(now_ns, gone_ns, outside_ns)
        return not (is_due or self.voided) and (not came or came.isdisjoint(self.hidden))

    def update(
        self,
        now_ns: int,
        *,
        inside: Set[int],
        counted: Set[int],
        visible: Set[int],
        gone_ns: int,
        outside_ns: int = 0,
    ) -> tuple[list[Stay], list[Stay]]:
        """Return the stays that began and those that ended, each by track; unjudged ones are among the latter.

        `inside` holds the tracks that are inside, `counted` those of them that may begin a stay (their class is
        right), `visible` all tracks on the frame.
        """
        left: list[Stay] = []
        if self.voided:
            left, self.voided = self.voided, left
        if self.missing:
            for track_id in self.missing & inside:
                stay = self.open[track_id]
                stay.absent_ns, stay.is_outside, stay.is_unjudged = None, False, False
        if self.missing or not self.open.keys() <= inside:
            before, self.missing = self.missing, self.open.keys() - inside
            is_due = self._is_due(now_ns, gone_ns, outside_ns)
            if is_due or not visible.isdisjoint(self.hidden) or not self.missing <= before:
                left += self._missed(now_ns, visible=visible, gone_ns=gone_ns, outside_ns=outside_ns)
                left.sort(key=attrgetter("track_id"))
        if self.open.keys() >= counted:
            return [], left
        entered = [Stay(track_id, now_ns) for track_id in sorted(counted - self.open.keys())]
        self.open |= {stay.track_id: stay for stay in entered}
        return entered, left

    def _missed(self, now_ns: int, *, visible: Set[int], gone_ns: int, outside_ns: int) -> list[Stay]:
        """Return the stays that end because they have been missing for too long."""
        ended: list[Stay] = []
        self.hidden, self._hidden_since_ns, self._outside_since_ns = set(), NEVER_NS, NEVER_NS
        for track_id in self.missing:
            stay = self.open[track_id]
            if stay.absent_ns is None:
                stay.absent_ns = now_ns
            if track_id in visible:
                stay.is_outside = True
            bridged_ns = gone_ns if not stay.is_outside else 0 if stay.is_unjudged else outside_ns
            if now_ns - stay.absent_ns >= bridged_ns:
                ended.append(stay)
                continue
            if stay.is_outside:
                self._outside_since_ns = min(self._outside_since_ns, stay.absent_ns)
            else:
                self._hidden_since_ns = min(self._hidden_since_ns, stay.absent_ns)
                self.hidden.add(track_id)
        for stay in ended:
            del self.open[stay.track_id]
            self.missing.remove(stay.track_id)
        return ended

    def edit(self, now_ns: int, *, inside: Set[int], counted: Set[int], visible: Set[int]) -> None:
        """Judge the last frame by another outline: nobody enters or leaves by it."""
        for track_id, stay in list(self.open.items()):
            stay.is_unjudged = track_id not in inside
            if stay.is_unjudged and track_id in visible:
                stay.absent_ns = now_ns
                self.voided.append(self.open.pop(track_id))
        self._note_missing()
        placed = sorted(counted - self.open.keys())
        self.open |= {track_id: Stay(track_id, now_ns, is_placed=True) for track_id in placed}

    def close(self, now_ns: int) -> list[Stay]:
        """End all stays, those of hidden tracks when these vanished."""
        left = [*self.voided, *self.open.values()]
        self.open.clear()
        self.missing.clear()
        self.voided.clear()
        for stay in left:
            stay.absent_ns = now_ns if stay.absent_ns is None else stay.absent_ns
        return left

    def save(self) -> list[dict[str, Any]]:
        """Return the stays as plain values."""
        return [asdict(stay) for stay in self.open.values()]

    def restore(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Go on with saved stays."""
        self.open = {one["track_id"]: Stay(**one) for one in saved}
        self._note_missing()

    def _note_missing(self) -> None:
        """Note who is missing, for stays that did not become so by `update`."""
        missing = [stay for stay in self.open.values() if stay.absent_ns is not None or stay.is_unjudged]
        self.missing = {stay.track_id for stay in missing}
        self.hidden = {stay.track_id for stay in missing if not stay.is_outside}
        self._hidden_since_ns = self._outside_since_ns = min(
            [stay.absent_ns or 0 for stay in missing], default=NEVER_NS
        )

    def _is_due(self, now_ns: int, gone_ns: int, outside_ns: int) -> bool:
        """Return whether a stay may end although nobody comes or goes."""
        return now_ns - self._hidden_since_ns >= gone_ns or now_ns - self._outside_since_ns >= outside_ns


@dataclass(slots=True, eq=False)
class Held:
    """A state that begins when its condition has held for some time, and ends when it has not for some time.

    `began_ns` and `ended_ns` are when the condition of the latest state began to hold, and when it no longer did.
    """

    is_on: bool = False
    began_ns: int = 0
    ended_ns: int = 0
    since_ns: int | None = None
    """Since when the condition has differed from the state."""

    def update(self, now_ns: int, *, holds: bool, after_ns: int, clear_after_ns: int) -> bool:
        """Take the condition on a frame; return whether the state changed."""
        if holds == self.is_on:
            self.since_ns = None
            return False
        self.since_ns = now_ns if self.since_ns is None else self.since_ns
        if now_ns - self.since_ns < (after_ns if holds else clear_after_ns):
            return False
        if holds:
            self.began_ns = self.since_ns
        else:
            self.ended_ns = self.since_ns
        self.is_on, self.since_ns = holds, None
        return True

    @property
    def is_clear(self) -> bool:
        """Whether the state is off, and is not about to begin."""
        return not self.is_on and self.since_ns is None

    def due_ns(self, *, after_ns: int, clear_after_ns: int) -> int:
        """Return when the state changes if the condition stays as it was on the last frame."""
        if self.since_ns is None:
            return NEVER_NS
        return self.since_ns + (clear_after_ns if self.is_on else after_ns)

    def save(self) -> list[Any]:
        """Return the state as plain values."""
        return [self.is_on, self.began_ns, self.ended_ns, self.since_ns]

    @classmethod
    def restored(cls, saved: Sequence[Any]) -> Held:
        """Return a saved state."""
        is_on, began_ns, ended_ns, since_ns = saved
        return cls(bool(is_on), int(began_ns), int(ended_ns), None if since_ns is None else int(since_ns))
