"""The operator of `camera_health`: which frames are looked at, how they get small, and what is reported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sightline.graph import Operator, RunsOn, Saved, Site
from sightline.graph.rule_options import with_severity
from sightline.media import Batch, Event, Frame, Part, Stream, Tensor
from sightline.media.frame import NANOSECONDS
from sightline_plugins.camera_health.camera_health import IMAGE, CameraHealth, Check
from sightline_plugins.camera_health.view import LONGEST
from sightline_plugins.camera_health.watch import CameraWatch, Change, Measures
from sightline_plugins.flow.luma import FrameLuma


@dataclass(slots=True)
class _Tally:
    """What is in the report of a stream: how often each check found something, how long that lasted until it ended,
    and what was measured last.
    """

    events: dict[Check, int]
    ended_ns: dict[Check, int]
    measures: Measures = field(default_factory=Measures)

    @classmethod
    def of(cls, checks: Iterable[Check], saved: Saved | None = None) -> _Tally:
        """Make a tally, with what is saved of these checks. Raises KeyError, TypeError or ValueError."""
        events, ended_ns = ({}, {}) if saved is None else (dict(saved["events"]), dict(saved["ended_ns"]))
        return cls(
            {check: int(events.get(check, 0)) for check in checks},
            {check: int(ended_ns.get(check, 0)) for check in checks},
        )

    def count(self, change: Change) -> None:
        """Count what began or ended."""
        if change.began:
            self.events[change.check] += 1
        else:
            self.ended_ns[change.check] += change.lasted_ns

    def told(self, lasts_ns: Mapping[Check, int]) -> dict[str, dict[str, Any]]:
        """Return it for the report; `lasts_ns` is for how long what has not ended has been so."""
        told: dict[str, dict[str, Any]] = {
            check: {"events": events, "seconds": _seconds(self.ended_ns[check] + lasts_ns.get(check, 0))}
            for check, events in self.events.items()
        }
        return {**told, IMAGE: self.measures.known()}


class CameraHealthOperator(Operator):
    """Watches over the camera of each stream; a damaged frame is not looked at."""

    def __init__(self, element: CameraHealth, *, site: Site) -> None:
        self._element = element
        self._step = site.element_id or element.name
        self._clock = site.clock
        self._luma = FrameLuma(site.gpu)
        self._watches: dict[Stream, CameraWatch] = {}
        self._restored: dict[str, CameraWatch] = {}
        self._tallies: dict[str, _Tally] = {}

    def process(self, batch: Batch) -> Batch:
        """Look at the frames that are due, and add what begins and ends with them."""
        due = [row for row, frame in enumerate(batch.frames) if not frame.damaged and self._is_due(frame)]
        if not due:
            return batch
        events: list[Event] = []
        tensors: list[Tensor] = []
        frames = [batch.frames[row] for row in due]
        images = self._luma.reduced([(frame.surface, fine_size(frame.size_wh)) for frame in frames])
        for row, frame, image in zip(due, frames, images, strict=True):
            watch, tally = self._watches[frame.stream], self._tallies[frame.stream.name]
            changes = watch.update(image, now_ns=frame.pts_ns)
            tally.measures = seen = watch.measures
            for change in changes:
                tally.count(change)
                events.append(self._event(row, change, seen))
            measured = (seen.brightness, seen.contrast, seen.match, seen.sharpness, seen.change)
            tensors.append(Tensor(row, self._step, IMAGE, np.array(measured, np.float32)))
        return batch.with_events(events).with_tensors(tensors)

    def change(self, element: CameraHealth) -> None:
        """Go on with other options."""
        self._element = element
        for watch in [*self._watches.values(), *self._restored.values()]:
            watch.options = element

    def end_stream(self, stream: Stream) -> None:
        """Forget what the camera usually sees; its totals stay."""
        watch = self._watches.pop(stream, None)
        if watch is not None:
            for check, lasted_ns in watch.lasts_ns().items():
                self._tallies[stream.name].ended_ns[check] += lasted_ns

    def close(self) -> None:
        """End all streams."""
        for stream in list(self._watches):
            self.end_stream(stream)

    def save(self, stream: Stream) -> Saved | None:
        """Return what was learned of a stream, what is so, and what was counted."""
        watch = self._watches.get(stream)
        if watch is None:
            return None
        tally = self._tallies[stream.name]
        counted = {"events": dict(tally.events), "ended_ns": dict(tally.ended_ns)}
        return {"at_ns": self._clock.epoch_ns(), "watch": watch.save(), "tally": counted}

    def restore(self, stream: str, saved: Saved) -> None:
        """Go on with the view and the counts of an earlier process. Raises KeyError, TypeError or ValueError."""
        watch = CameraWatch(self._element)
        watch.restore(saved["watch"], gap_ns=max(self._clock.epoch_ns() - int(saved["at_ns"]), 0))
        self._tallies[stream] = _Tally.of(self._element.checks, saved["tally"])
        self._restored[stream] = watch

    def totals(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Return by stream how often and for how long each was so, and what was measured last (`image`)."""
        lasts_ns = {stream.name: watch.lasts_ns() for stream, watch in list(self._watches.items())}
        return {stream: tally.told(lasts_ns.get(stream, {})) for stream, tally in list(self._tallies.items())}

    def runs_on(self) -> RunsOn:
        """The CPU, which gets small images."""
        return RunsOn(reason=self._luma.reason)

    def _is_due(self, frame: Frame) -> bool:
        stream = frame.stream
        watch = self._watches.get(stream)
        if watch is None:
            watch = self._restored.pop(stream.name, None) or CameraWatch(self._element)
            self._watches[stream] = watch
            self._tallies.setdefault(stream.name, _Tally.of(self._element.checks))
        return watch.is_due(frame.pts_ns)

    def _event(self, row: int, change: Change, measures: Measures) -> Event:
        data: dict[str, str | int | float] = {
            "state": "began" if change.began else "ended",
            "seconds": _seconds(change.lasted_ns),
        }
        if change.reason:
            data["reason"] = change.reason
        told = with_severity({**data, **measures.known()}, self._element.severity)
        part = Part.BEGIN if change.began else Part.END
        return Event(f"camera_{change.check}", change.check, row, told, self._step, part)


def fine_size(size_wh: tuple[int, int]) -> tuple[int, int]:
    """Return the size of the fine image of a frame: its longer side is `LONGEST` at most."""
    scale = min(1.0, LONGEST / max(size_wh))
    width, height = (max(round(side * scale), 2) for side in size_wh)
    return width, height


def _seconds(time_ns: int) -> float:
    return round(time_ns / NANOSECONDS, 1)
