"""Where events happened: the object's box and path, and the line or zone as it was.

A probe keeps where tracked objects were in the last seconds; an event takes its part of that along into the history.
Everything is in fractions of the frame, so that it can be drawn on an image of any size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.media import Batch, Event

TRAIL_SECONDS = 12.0
"""How much of an object's path before an event is kept."""
_STEP_NS = 150_000_000
_MOST_OBJECTS = 256
_MOST_STREAMS = 512
_LONGEST_GAP_NS = 2_000_000_000
"""A gap in a track after which its path begins anew."""


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """The tracked objects of one frame: their ids (N,) and feet (N, 2) in fractions of the frame."""

    pts_ns: int
    track_id: npt.NDArray[np.int64]
    feet: npt.NDArray[np.float32]


class Trails:
    """Where the tracked objects of each stream were in the last seconds: the middle of the lower edge of their boxes,
    about seven times a second, of 256 objects a frame at most.

    `look` is a probe for steps that have rules; where several have it, the first one counts. From any thread.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._streams: dict[str, deque[_Seen]] = {}

    def look(self, batch: Batch) -> None:
        """Note the objects of these frames."""
        objects = batch.objects
        if not len(objects):
            return
        for row, frame in enumerate(batch.frames):
            name, seen = frame.stream.name, self._streams.get(frame.stream.name)
            if seen and 0 <= frame.pts_ns - seen[-1].pts_ns < _STEP_NS:
                continue
            begin, end = np.searchsorted(objects.frame, (row, row + 1))
            tracked = objects.track_id[begin:end] >= 0
            ids = objects.track_id[begin:end][tracked][:_MOST_OBJECTS]
            boxes = objects.xyxy[begin:end][tracked][:_MOST_OBJECTS]
            feet = np.stack([(boxes[:, 0] + boxes[:, 2]) / 2, boxes[:, 3]], axis=1) / np.array(
                frame.size_wh, np.float32
            )
            self._add(name, _Seen(frame.pts_ns, ids.copy(), feet.astype(np.float32)))

    def path(self, stream: str, track_id: int, *, until_ns: int) -> list[tuple[float, float, float]]:
        """Where an object was until that time of the stream, oldest first: seconds before it, x and y."""
        with self._lock:
            seen = list(self._streams.get(stream, ()))
        found: list[tuple[float, float, float]] = []
        last_ns = until_ns
        for one in reversed(seen):
            if one.pts_ns > until_ns:
                continue
            rows = np.flatnonzero(one.track_id == track_id)
            if last_ns - one.pts_ns > _LONGEST_GAP_NS:
                break
            if rows.size:
                x, y = one.feet[rows[0]].tolist()
                found.append((round((until_ns - one.pts_ns) / 1e9, 3), round(x, 4), round(y, 4)))
                last_ns = one.pts_ns
        return found[::-1]

    def newest_pts_ns(self, stream: str) -> int | None:
        """The time of the newest frame with objects of a stream; None without one."""
        seen = self._streams.get(stream)
        return seen[-1].pts_ns if seen else None

    def _add(self, name: str, seen: _Seen) -> None:
        with self._lock:
            known = self._streams.get(name)
            if known is None:
                if len(self._streams) >= _MOST_STREAMS:
                    del self._streams[next(iter(self._streams))]
                known = self._streams[name] = deque()
            if known and seen.pts_ns < known[-1].pts_ns:
                if known[-1].pts_ns - seen.pts_ns < _STEP_NS * 8:
                    return  # another step with rules has had a later frame already
                known.clear()  # the stream has begun anew
            known.append(seen)
            while seen.pts_ns - known[0].pts_ns > TRAIL_SECONDS * 1e9:
                known.popleft()


def box_of(batch: Batch, event: Event) -> npt.NDArray[np.float32] | None:
    """The box (4,) of the object that an event is about, in pixels; None where it is about none that is there."""
    track_id = event.data.get("track_id")
    objects = batch.objects
    if not isinstance(track_id, int) or not len(objects):
        return None
    rows = np.flatnonzero((objects.track_id == track_id) & (objects.frame == event.frame))
    return objects.xyxy[rows[0]] if rows.size else None


def scene_of(batch: Batch, event: Event, *, trails: Trails) -> Mapping[str, Any]:
    """Where an event happened, as JSON holds it: `size` of the frame in pixels; `box` and `path` of the object; and
    `outline` (`line` or `zone`) with the `points` of the rule. What is not known is left out.
    """
    frame = batch.frames[event.frame]
    width, height = frame.size_wh
    scene: dict[str, Any] = {"size": [width, height]}
    box = box_of(batch, event)
    if box is not None:
        x1, y1, x2, y2 = box.tolist()
        scene["box"] = [_fraction(x1, width), _fraction(y1, height), _fraction(x2, width), _fraction(y2, height)]
        path = trails.path(frame.stream.name, int(event.data["track_id"]), until_ns=frame.pts_ns)
        foot = (0.0, _fraction((x1 + x2) / 2, width), _fraction(y2, height))
        scene["path"] = [*(one for one in path if one[0] > 0), foot]
    overlays = batch.columns.overlays
    for overlay in overlays[event.frame] if overlays else ():
        if overlay.name == event.rule:
            scene["outline"] = overlay.kind
            scene["points"] = [[_fraction(x, width), _fraction(y, height)] for x, y in overlay.points]
    return scene


def _fraction(value: float, size: int) -> float:
    return round(value / size, 4)
