"""Track ids over a restart: who was there last, and who of those that come first is the same object.

A tracker of a new process knows nobody, and counts from 1. What is saved of the one before is the boxes that its
tracks had last, with how they moved, and how many ids it had given. A new track whose first box overlaps the place
where an old one is expected, or where it was last, goes on with the id of that one; all others get ids that were never
given. It works on the ids that any tracker gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Self

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, model_validator

from sightline.graph.tracker import NO_TRACK
from sightline.media.boxes import Boxes, iou_matrix

LEAST_IOU: Final = 0.3
"""How far the first box of a new track must overlap that of an old one."""
RESUMED_WITHIN_NS: Final = 30_000_000_000
"""A track that was last seen longer ago is not resumed: what stands at its place by then may be another object."""
SPARE_IDS: Final = 100
"""Ids that are left out after a restart: tracks may have got them after the state was saved the last time."""
_RECENT_NS: Final = 2_000_000_000
_MOST_FRAMES = 128
_LONGEST_STEP_NS: Final = 2_000_000_000
"""For how long an object is expected to move on as it did."""
_LARGEST = 1 << 53
Id = Annotated[int, Field(ge=0, le=_LARGEST)]
Corners = Annotated[list[float], Field(min_length=4, max_length=4)]
Label = Callable[[int], str]
"""Returns the label of a class number."""


class SavedTracks(BaseModel):
    """What is saved of one stream: `at_ns` is the time of day of its last frame, `latest_id` the highest id given.

    Of each track there is the id, the label, how long before that frame it was last seen, its box then in pixels, and
    how that moved, in pixels per second.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    at_ns: int
    size_wh: Annotated[list[int], Field(min_length=2, max_length=2)]
    latest_id: Id
    totals: dict[str, Annotated[int, Field(ge=0)]]
    track_id: list[Id]
    label: list[str]
    age_ns: list[Annotated[int, Field(ge=0, le=_LARGEST)]]
    xyxy: list[Corners]
    velocity: list[Corners]

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if len({len(one) for one in (self.track_id, self.label, self.age_ns, self.xyxy, self.velocity)}) > 1:
            raise ValueError("the columns of tracks differ in length")
        return self


@dataclass(frozen=True, slots=True, eq=False)
class OldTracks:
    """Tracks as they were last seen; columns over N tracks.

    track_id  int64 (N,)
    label     N texts
    age_ns    int64 (N,)      how long ago that was
    xyxy      float32 (N, 4)  pixels
    velocity  float32 (N, 4)  pixels per second
    """

    track_id: npt.NDArray[np.int64]
    label: Sequence[str]
    age_ns: npt.NDArray[np.int64]
    xyxy: Boxes
    velocity: Boxes

    @classmethod
    def of(cls, saved: SavedTracks) -> OldTracks:
        """Return the tracks that were saved."""
        return cls(
            np.array(saved.track_id, np.int64),
            saved.label,
            np.array(saved.age_ns, np.int64),
            np.array(saved.xyxy, np.float32).reshape(-1, 4),
            np.array(saved.velocity, np.float32).reshape(-1, 4),
        )

    def __len__(self) -> int:
        return len(self.track_id)

    def select(self, mask: npt.NDArray[np.bool_]) -> OldTracks:
        """Return some of them."""
        label = [one for one, wanted in zip(self.label, mask.tolist(), strict=True) if wanted]
        return OldTracks(self.track_id[mask], label, self.age_ns[mask], self.xyxy[mask], self.velocity[mask])

    def with_others(self, others: OldTracks) -> OldTracks:
        """Return them with others behind."""
        return OldTracks(
            np.concatenate([self.track_id, others.track_id]),
            [*self.label, *others.label],
            np.concatenate([self.age_ns, others.age_ns]),
            np.concatenate([self.xyxy, others.xyxy]),
            np.concatenate([self.velocity, others.velocity]),
        )

    def columns(self) -> dict[str, Any]:
        """Return what is saved of them."""
        return {
            "track_id": self.track_id.tolist(),
            "label": list(self.label),
            "age_ns": self.age_ns.tolist(),
            "xyxy": np.round(self.xyxy.astype(np.float64), 1).tolist(),
            "velocity": np.round(self.velocity.astype(np.float64), 1).tolist(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """The objects of a frame: ids, -1 for objects without a track, boxes (N, 4) and class numbers."""

    pts_ns: int
    track_id: npt.NDArray[np.int64]
    xyxy: Boxes
    classes: npt.NDArray[np.int64]


class RecentTracks:
    """The tracks of the last two seconds of one stream. A frame costs the reference to its columns."""

    def __init__(self) -> None:
        self._frames: deque[_Seen] = deque(maxlen=_MOST_FRAMES)

    def add(self, pts_ns: int, track_id: npt.NDArray[np.int64], xyxy: Boxes, classes: npt.NDArray[np.int64]) -> None:
        """Note the objects of the next frame; nothing of it may change any more."""
        frames = self._frames
        while frames and not 0 <= pts_ns - frames[0].pts_ns <= _RECENT_NS:
            frames.popleft()
        frames.append(_Seen(pts_ns, track_id, xyxy, classes))

    def tracks(self, label: Label) -> OldTracks:
        """Return each track as it was last seen."""
        frames = [*self._frames] or [
            _Seen(0, np.empty(0, np.int64), np.empty((0, 4), np.float32), np.empty(0, np.int64))
        ]
        ids = np.concatenate([one.track_id for one in frames])
        xyxy = np.concatenate([one.xyxy for one in frames])
        pts_ns = np.repeat([one.pts_ns for one in frames], [len(one.track_id) for one in frames])
        classes = np.concatenate([one.classes for one in frames]).tolist()
        _, first = np.unique(ids, return_index=True)
        track_id, last = np.unique(ids[::-1], return_index=True)
        tracked, last = track_id != NO_TRACK, len(ids) - 1 - last
        first, last = first[tracked], last[tracked]
        seconds = np.maximum(pts_ns[last] - pts_ns[first], 1).astype(np.float32) / np.float32(1e9)
        return OldTracks(
            track_id[tracked],
            [label(classes[row]) for row in last.tolist()],
            frames[-1].pts_ns - pts_ns[last],
            xyxy[last],
            (xyxy[last] - xyxy[first]) / seconds[:, None],
        )


class ResumedTracks:
    """Tracks of an earlier process that may go on in this one. `since_ns` has passed from the last frame that was saved
    to the frame at `pts_ns`, the first one now. For one stream.
    """

    def __init__(self, tracks: OldTracks, *, since_ns: int, pts_ns: int) -> None:
        self._tracks = tracks
        self._since_ns = since_ns - pts_ns
        self._known: set[int] = set()
        """Ids of the tracker that were compared."""
        self._old_id: dict[int, int] = {}
        """The ids of old tracks that go on, by the ids of the tracker."""
        self._forget(pts_ns)

    @property
    def is_over(self) -> bool:
        """Whether it has nothing to say any more: no track was resumed, and none will be."""
        return not len(self._tracks) and not self._old_id

    def was_resumed(self, track_id: int) -> bool:
        """Whether this id of the tracker stands for an old track."""
        return track_id in self._old_id

    def old_ids(self, track_id: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the ids (N,) that objects have had before, where they are resumed."""
        if not self._old_id:
            return track_id
        return np.array([self._old_id.get(one, one) for one in track_id.tolist()], np.int64)

    def resume(
        self, track_id: npt.NDArray[np.int64], xyxy: Boxes, classes: Sequence[int], *, pts_ns: int, label: Label
    ) -> npt.NDArray[np.int64]:
        """Return the ids (N,) of the objects on a frame, of which those that the tracker has not given before are
        compared with the old tracks: first the pair that overlaps most.
        """
        if len(self._tracks):
            self._forget(pts_ns)
            ids = track_id.tolist()
            new = [row for row, one in enumerate(ids) if one != NO_TRACK and one not in self._known]
            self._known.update(ids)
            if new and len(self._tracks):
                self._compare(new, ids, xyxy, [label(classes[row]) for row in new], pts_ns=pts_ns)
        return self.old_ids(track_id)

    def left(self, *, pts_ns: int) -> OldTracks:
        """Return the old tracks that may still be resumed, as they are at the time of a frame."""
        return replace(self._tracks, age_ns=np.maximum(self._ages_ns(pts_ns), 0))

    def _ages_ns(self, pts_ns: int) -> npt.NDArray[np.int64]:
        return self._tracks.age_ns + (self._since_ns + pts_ns)

    def _forget(self, pts_ns: int) -> None:
        """Drop the tracks that were not seen for too long."""
        recent = self._ages_ns(pts_ns) <= RESUMED_WITHIN_NS
        if not recent.all():
            self._tracks = self._tracks.select(recent)

    def _compare(
        self, new: Sequence[int], ids: Sequence[int], xyxy: Boxes, labels: Sequence[str], *, pts_ns: int
    ) -> None:
        old = self._tracks
        ahead = np.clip(self._ages_ns(pts_ns), 0, _LONGEST_STEP_NS).astype(np.float32)[:, None] / np.float32(1e9)
        boxes = xyxy[list(new)]
        overlap = np.maximum(iou_matrix(boxes, old.xyxy), iou_matrix(boxes, old.xyxy + old.velocity * ahead))
        overlap[np.array([[one != other for other in old.label] for one in labels])] = 0
        is_left = np.ones(len(old), np.bool_)
        while overlap.max() >= LEAST_IOU:
            row, column = divmod(int(overlap.argmax()), len(old))
            self._old_id[ids[new[row]]] = int(old.track_id[column])
            is_left[column] = False
            overlap[row], overlap[:, column] = 0, 0
        self._tracks = old.select(is_left)
