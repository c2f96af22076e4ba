"""Track ids over a restart: who was there last, and who of those that come first is the same object.

A tracker of a new process knows nobody, and counts from 1. What is saved of the one before is the boxes that its
tracks had last, with how they moved, and how many ids it had given. A new track whose first box overlaps the place
where an old one is expected, or where it was last, goes on with the id of that one; all others get ids that were never
given. It works on the ids that any tracker gives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

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
_LARGEST_ID = 1 << 53
Label = Callable[[int], str]
"""Returns the label of a class number."""


class SavedTrack(BaseModel):
    """A track as it was last seen: its box in pixels, how that moved in pixels per second, and how long ago that was
    when it was saved.
    """

    model_config = ConfigDict(strict=True, allow_inf_nan=False)

    id: Annotated[int, Field(ge=1, le=_LARGEST_ID)]
    label: str
    age_ns: Annotated[int, Field(ge=0)]
    xyxy: Annotated[list[float], Field(min_length=4, max_length=4)]
    velocity: Annotated[list[float], Field(min_length=4, max_length=4)]


class SavedTracks(BaseModel):
    """What is saved of one stream: `at_ns` is the time of day of its last frame, `latest_id` the highest id given."""

    model_config = ConfigDict(strict=True)

    at_ns: int
    size_wh: Annotated[list[int], Field(min_length=2, max_length=2)]
    latest_id: Annotated[int, Field(ge=0, le=_LARGEST_ID)]
    totals: dict[str, Annotated[int, Field(ge=0)]]
    tracks: list[SavedTrack]


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """The tracked objects of a frame: ids, boxes (N, 4) and class numbers; -1 for objects without a track."""

    pts_ns: int
    ids: Sequence[int]
    xyxy: Boxes
    classes: Sequence[int]


class RecentTracks:
    """The tracks of the last two seconds of one stream. A frame costs the reference to its columns."""

    def __init__(self) -> None:
        self._frames: deque[_Seen] = deque(maxlen=_MOST_FRAMES)

    def add(self, pts_ns: int, ids: Sequence[int], xyxy: Boxes, classes: Sequence[int]) -> None:
        """Note the objects of the next frame; nothing of it may change any more."""
        frames = self._frames
        while frames and not 0 <= pts_ns - frames[0].pts_ns <= _RECENT_NS:
            frames.popleft()
        frames.append(_Seen(pts_ns, ids, xyxy, classes))

    def tracks(self, label: Label) -> Iterator[SavedTrack]:
        """Yield each track, as it was last seen."""
        last: dict[int, tuple[_Seen, int]] = {}
        first: dict[int, tuple[_Seen, int]] = {}
        for seen in reversed(self._frames):
            for row, track_id in enumerate(seen.ids):
                if track_id != NO_TRACK:
                    last.setdefault(track_id, (seen, row))
                    first[track_id] = seen, row
        for track_id, (seen, row) in last.items():
            earlier, earlier_row = first[track_id]
            seconds = (seen.pts_ns - earlier.pts_ns) / 1e9
            moved = (seen.xyxy[row] - earlier.xyxy[earlier_row]) / np.float32(seconds or 1)
            yield SavedTrack(
                id=track_id,
                label=label(seen.classes[row]),
                age_ns=self._frames[-1].pts_ns - seen.pts_ns,
                xyxy=np.round(seen.xyxy[row].astype(np.float64), 2).tolist(),
                velocity=np.round(moved.astype(np.float64), 2).tolist(),
            )


class ResumedTracks:
    """Tracks of an earlier process that may go on in this one. `since_ns` has passed from the last frame that was saved
    to the frame at `pts_ns`, the first one now. For one stream.
    """

    def __init__(self, tracks: Sequence[SavedTrack], *, since_ns: int, pts_ns: int) -> None:
        self._tracks = [one for one in tracks if one.age_ns + since_ns <= RESUMED_WITHIN_NS]
        self._since_ns = since_ns - pts_ns
        self._known: set[int] = set()
        """Ids of the tracker that were compared."""
        self._old_id: dict[int, int] = {}
        """The ids of old tracks that go on, by the ids of the tracker."""

    @property
    def is_over(self) -> bool:
        """Whether it has nothing to say any more: no track was resumed, and none will be."""
        return not self._tracks and not self._old_id

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
        if self._tracks:
            self._forget(pts_ns)
            ids = track_id.tolist()
            new = [row for row, one in enumerate(ids) if one != NO_TRACK and one not in self._known]
            self._known.update(ids)
            if new and self._tracks:
                self._compare(new, ids, xyxy, [label(classes[row]) for row in new], pts_ns=pts_ns)
        return self.old_ids(track_id)

    def left(self, *, pts_ns: int) -> Iterator[SavedTrack]:
        """Yield the old tracks that may still be resumed, as they are at the time of a frame."""
        for one in self._tracks:
            yield one.model_copy(update={"age_ns": max(0, one.age_ns + self._since_ns + pts_ns)})

    def _forget(self, pts_ns: int) -> None:
        """Drop the tracks that were not seen for too long."""
        limit_ns = RESUMED_WITHIN_NS - self._since_ns - pts_ns
        if any(one.age_ns > limit_ns for one in self._tracks):
            self._tracks = [one for one in self._tracks if one.age_ns <= limit_ns]

    def _compare(
        self, new: Sequence[int], ids: Sequence[int], xyxy: Boxes, labels: Sequence[str], *, pts_ns: int
    ) -> None:
        old = np.array([one.xyxy for one in self._tracks], np.float32)
        moving = np.array([one.velocity for one in self._tracks], np.float32)
        ages_ns = np.array([one.age_ns for one in self._tracks], np.int64) + (self._since_ns + pts_ns)
        ahead = np.clip(ages_ns, 0, _LONGEST_STEP_NS).astype(np.float32)[:, None] / np.float32(1e9)
        boxes = xyxy[list(new)]
        overlap = np.maximum(iou_matrix(boxes, old), iou_matrix(boxes, old + moving * ahead))
        same = np.array([[label == one.label for one in self._tracks] for label in labels])
        overlap[~same] = 0
        taken: set[int] = set()
        while overlap.max() >= LEAST_IOU:
            row, column = divmod(int(overlap.argmax()), len(self._tracks))
            self._old_id[ids[new[row]]] = self._tracks[column].id
            taken.add(column)
            overlap[row], overlap[:, column] = 0, 0
        self._tracks = [one for number, one in enumerate(self._tracks) if number not in taken]
