"""The tracker contract: the detections of one stream in, as columns, and track ids out.

A tracker is a pure algorithm that knows no element, no frame and no thread. The `track` element keeps one for each
stream, feeds it that stream's detections in order, and writes the ids into the objects. It hands over the frames of a
batch together (`Tracker.update_batch`), so that an algorithm may work on all streams at once. A package registers its
tracker's options under the entry-point group `sightline.trackers`; `track: {algorithm: NAME, ...}` then takes them.
`sightline.testing.tracker_conformance` tests the contract.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from sightline.graph.described import Described
from sightline.media.boxes import Boxes

NO_TRACK = -1

Luma: TypeAlias = npt.NDArray[np.uint8]
"""Brightness of an image, (height, width), read-only."""

Vectors: TypeAlias = npt.NDArray[np.float32]
"""Embeddings of objects (N, D), of length 1; rows of NaN for objects that have none."""


@dataclass(frozen=True, slots=True, eq=False)
class Predictions:
    """Expected objects at a time without detections; columns over N tracks.

    track_id    int64 (N,)
    xyxy        float32 (N, 4) source pixels, not clipped
    confidence  float32 (N,)
    class_id    int64 (N,)
    certainty   float32 (N,)|None  how sure the tracker is of each box, 0..1; None where it does not say
    """

    track_id: npt.NDArray[np.int64]
    xyxy: Boxes
    confidence: npt.NDArray[np.float32]
    class_id: npt.NDArray[np.int64]
    certainty: npt.NDArray[np.float32] | None = None

    @classmethod
    def none(cls) -> Predictions:
        """Return predictions without a row."""
        return cls(np.empty(0, np.int64), np.empty((0, 4), np.float32), np.empty(0, np.float32), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """What a tracker knows of the detections of one frame; columns over N detections, as they were passed to `update`.

    number      int64 (N,)    number of the track, which it has before it has an id; never used again; -1 for none
    certainty   float32 (N,)  how well the detection is where the track was expected, 0..1; NaN without a track before
    """

    number: npt.NDArray[np.int64]
    certainty: npt.NDArray[np.float32]


class Tracker(ABC):
    """Assign track ids to the detections of one stream. One thread at a time calls it; it is dropped with its stream.

    Deterministic: the same detections give the same ids. Arrays passed in are neither kept nor changed; arrays returned
    belong to the caller.
    """

    @abstractmethod
    def update(
        self,
        xyxy: Boxes,
        confidence: npt.NDArray[np.float32],
        class_id: npt.NDArray[np.int64],
        *,
        pts_ns: int,
    ) -> npt.NDArray[np.int64]:
        """Return the track id of each detection of the next frame, (N,) int64, -1 for none.

        `xyxy` is (N, 4) float32 in source pixels, `confidence` (N,) 0..1, `class_id` (N,). Called for every frame on
        which a detector looked, also without a detection. A new track gets the lowest id that was never used, counting
        from the `first_id` it was built with, or the id that its object had before, where the tracker recognizes it; an
        id appears at most once a frame and never belongs to a second object.
        `pts_ns` may stand still or run backward (a file that starts again).
        """

    @classmethod
    def update_batch(
        cls,
        trackers: Sequence[Self],
        xyxy: Boxes,
        confidence: npt.NDArray[np.float32],
        class_id: npt.NDArray[np.int64],
        *,
        ends: Sequence[int],
        pts_ns: Sequence[int],
    ) -> npt.NDArray[np.int64]:
        """Return the track ids (N,) of the detections on several frames, of one stream or of several.

        Columns hold the detections of frame after frame, as for `update`. Frame number i is of `trackers[i]`, at
        `pts_ns[i]`, and the row behind its last detection is `ends[i]`. All trackers have the same options. One whose
        stream has several frames stands there as often, in their order, unless images, embeddings or matches are asked
        for. Ids are those of one `update` after another, which is what this does; a tracker overrides it where all
        streams at once cost less.
        """
        found = [np.empty(0, np.int64)]
        first = 0
        for tracker, last, time in zip(trackers, ends, pts_ns, strict=True):
            own = slice(first, last)
            found.append(tracker.update(xyxy[own], confidence[own], class_id[own], pts_ns=time))
            first = last
        return np.concatenate(found)

    def look(self, image: Luma) -> None:
        """Look at the frame that the next `update` or `predict` is about, where the options say `needs_images`.

        Called for every frame, in order. The image is not changed; it may be kept.
        """
        del image

    def compare_by(self, appearance: Vectors) -> None:
        """Take the embeddings of the detections of the next `update`, where the options say `needs_appearance`.

        Called before every `update`. D is the same for all frames, or 0 as long as no object has an embedding.
        """
        del appearance

    def matches(self) -> Matches:
        """Return what is known of the detections of the last `update`; asked for where the options say
        `tells_matches`.
        """
        raise NotImplementedError

    def predict(self, *, pts_ns: int) -> Predictions:
        """Return the objects expected at `pts_ns`, on a frame that no detector looked at.

        Changes nothing, except that a tracker with `needs_images` may note where the image of the last `look` shows its
        objects. Asked twice, it answers the same.
        """
        del pts_ns
        return Predictions.none()


class TrackerOptions(Described):
    """Options of a tracker; the fields are YAML keys of `track`, with defaults, units and limits.

    A subclass sets `name` (its entry point, and what `algorithm:` names) and builds the tracker.
    """

    name: ClassVar[str]
    tells_matches: ClassVar[bool] = False
    """Whether the tracker has `matches`, which the options `tracker_confidence` and `past_frames` need."""

    @property
    def needs_images(self) -> bool:
        """Whether `look` is called: images cost time, and on a GPU a copy to host memory."""
        return False

    @property
    def follows_objects(self) -> bool:
        """Whether `predict` already says where the image of the last `look` shows the objects."""
        return False

    @property
    def needs_appearance(self) -> bool:
        """Whether `compare_by` is called; `check` then demands a step before that gives embeddings."""
        return False

    def build(self, *, first_id: int = 1) -> Tracker:
        """Make the tracker of one stream, whose first track gets `first_id`."""
        raise NotImplementedError
