"""A rule of your own: reports tracks that stay within a short distance of one place for too long."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np

from sightline.graph import ChangesLive
from sightline.graph.rule import Points, Rule, RuleEvent, StreamRule
from sightline.graph.state import Saved
from sightline.graph.tracked_objects import TrackedObjects
from sightline.media.time import Duration


class Lingering(Rule):
    """Report tracked objects that stay near one place for too long.

    ```yaml
    - lingering: {after: 20s, distance: 80}
    ```
    """

    name: ClassVar[str] = "lingering"

    after: ChangesLive[Duration] = 20_000_000_000
    """How long an object may stay."""
    distance: ChangesLive[float] = 80
    """How far it has to go to have left, in pixels of the frame."""

    def watch(self, earlier: StreamRule | None) -> StreamRule:
        return StreamLingering(self, earlier.total if isinstance(earlier, StreamLingering) else 0)


class StreamLingering(StreamRule):
    """Where and since when each track of a stream stays; a track that is not on a frame has left."""

    def __init__(self, rule: Lingering, total: int) -> None:
        self.rule, self.total = rule, total
        self.stays: dict[int, tuple[np.ndarray, int, bool]] = {}

    def place(self, size_wh: tuple[int, int]) -> Mapping[str, Points]:
        """Outline the whole frame, where `draw` writes the count."""
        return {"lingering": ((0, 0), (size_wh[0], 0), size_wh, (0, size_wh[1]))}

    def update(self, tracks: TrackedObjects) -> Iterator[Sequence[RuleEvent]]:
        """Yield an event for each track that has stayed too long, once a stay."""
        for now_ns, own in zip(tracks.pts_ns.tolist(), tracks.by_frame(), strict=True):
            before, self.stays, found = self.stays, {}, []
            for track_id, box in zip(tracks.track_id[own].tolist(), tracks.xyxy[own], strict=True):
                middle = (box[:2] + box[2:]) / 2
                start, since_ns, is_reported = before.get(track_id, (middle, now_ns, False))
                if np.hypot(*(middle - start)) > self.rule.distance:
                    start, since_ns, is_reported = middle, now_ns, False
                is_late = now_ns - since_ns >= self.rule.after
                if is_late and not is_reported:
                    found.append(RuleEvent("lingering", "lingering", {"track_id": track_id}))
                self.stays[track_id] = start, since_ns, is_late
            self.total += len(found)
            yield found

    def change(self, rule: Lingering) -> None:
        self.rule = rule

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        return {"lingering": {"objects": self.total}}

    def save(self) -> Saved:
        stays = [[one, at.tolist(), *more] for one, (at, *more) in self.stays.items()]
        return {"tally": {"lingering": self.total}, "stays": stays}

    def restore(self, saved: Saved) -> None:
        """Go on with the stays, and with the count, which is not there when counts begin anew."""
        self.total = saved["tally"].get("lingering", 0)
        self.stays = {one: (np.array(at, np.float32), since, late) for one, at, since, late in saved["stays"]}

    def end(self) -> None:
        self.stays = {}
