"""A rule of your own: reports tracks that stay within a short distance of one place for too long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from sightline.graph import ChangesLive
from sightline.graph.rule import Points, Rule, RuleEvent, StreamRule, TrackedObjects
from sightline.media.time import Duration


class Loitering(Rule):
    """Report tracked objects that stay near one place for too long.

    ```yaml
    - loitering: {after: 20s, distance: 80}
    ```
    """

    name: ClassVar[str] = "loitering"

    after: ChangesLive[Duration] = 20_000_000_000
    """How long an object may stay."""
    distance: ChangesLive[float] = 80
    """How far it has to go to have left, in pixels of the frame."""

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        """Make the state of a stream."""
        return StreamLoitering(self, earlier.total if isinstance(earlier, StreamLoitering) else 0)


class StreamLoitering(StreamRule):
    """Where and since when each track of a stream stays; a track that is not on a frame has left."""

    def __init__(self, rule: Loitering, total: int) -> None:
        self.rule, self.total = rule, total
        self.stays: dict[int, tuple[npt.NDArray[np.float32], int, bool]] = {}

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Outline the whole frame, where `draw` writes the count."""
        width, height = size_wh
        return {"loitering": ((0, 0), (width, 0), (width, height), (0, height))}

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield an event for each track that has stayed too long, once a stay."""
        middles = (tracks.xyxy[:, :2] + tracks.xyxy[:, 2:]) / 2
        for now_ns, own in zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True):
            before, self.stays, found = self.stays, {}, []
            for track_id, middle in zip(tracks.track_id[own].tolist(), middles[own], strict=True):
                start, since_ns, is_reported = before.get(track_id, (middle, now_ns, False))
                if np.hypot(*(middle - start)) > self.rule.distance:
                    start, since_ns, is_reported = middle, now_ns, False
                if now_ns - since_ns >= self.rule.after and not is_reported:
                    is_reported = True
                    found.append(RuleEvent("loitering", "loitering", {"track_id": track_id}))
                self.stays[track_id] = start, since_ns, is_reported
            self.total += len(found)
            yield found

    def change(self, rule: Loitering) -> None:
        """Take over other options; the stays go on."""
        self.rule = rule

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return how many objects stayed too long."""
        return {"loitering": {"objects": self.total}}

    def end(self) -> None:
        """Forget the tracks."""
        self.stays = {}
