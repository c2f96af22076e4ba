"""Past frames: where an object was on the frames before its track was confirmed, told when it is.

A tracker gives an id only to what was seen often enough (late activation), so the first frames of an object have none.
DeepStream reports them as past-frame data; here each is an event of the frame that confirms the track.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from sightline.graph.tracker import NO_TRACK, Matches
from sightline.media import Event, Frame, Objects

RULE = "past_frame"
REMEMBERED_NS = 60_000_000_000
"""A track that is not seen for this long will not be confirmed any more."""


class PastFrames:
    """Boxes of the unconfirmed tracks of one stream, by the number of the track."""

    def __init__(self) -> None:
        self._seen: dict[int, list[tuple[int, int, list[float], float]]] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def events(
        self,
        frame: Frame,
        row: int,
        objects: Objects,
        own: npt.NDArray[np.intp],
        track_id: npt.NDArray[np.int64],
        matches: Matches,
    ) -> Iterator[Event]:
        """Note the objects `own` (N,) of a frame that have no id yet; yield the past frames of those that got one.

        `row` is the frame's row in its batch, `track_id` (N,) and `matches` are what the tracker said of the objects.
        """
        for place, own_id, number in zip(own.tolist(), track_id.tolist(), matches.number.tolist(), strict=True):
            if number == NO_TRACK:
                continue
            if own_id == NO_TRACK:
                box, confidence = objects.xyxy[place].tolist(), float(objects.confidence[place])
                self._seen.setdefault(number, []).append((frame.index, frame.pts_ns, box, confidence))
                continue
            for index, pts_ns, box, confidence in self._seen.pop(number, ()):
                places = dict(zip(("x1", "y1", "x2", "y2"), (round(value, 2) for value in box), strict=True))
                known = {"track_id": own_id, "frame": index, "pts_ns": pts_ns}
                yield Event("track", RULE, row, {**known, **places, "confidence": round(confidence, 3)})
        self._forget(frame.pts_ns)

    def _forget(self, now_ns: int) -> None:
        ended = [number for number, seen in self._seen.items() if abs(now_ns - seen[-1][1]) > REMEMBERED_NS]
        for number in ended:
            del self._seen[number]
