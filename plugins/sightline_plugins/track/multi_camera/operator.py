"""The operator of `multi_camera`: floor positions and order of time, from batches to `Identities` and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from sightline.graph import Operator, Site
from sightline.media import Batch, Event, Frame, Stream
from sightline_plugins.track.multi_camera.floor_plan import FloorCamera
from sightline_plugins.track.multi_camera.identities import Decision, Identities, Observation
from sightline_plugins.track.multi_camera.time_order import TimeOrder

if TYPE_CHECKING:
    from sightline_plugins.track.multi_camera.element import MultiCamera

Floats = npt.NDArray[np.float64]

_FEET_PIXELS, _FEET_OF_HEIGHT = 1.0, 0.03
"""Deviation of the lower edge of a box: pixels, and a share of the box's height."""
_CUT_PIXELS = 2.0
"""A box that ends this close to the lower edge of the frame does not show the feet."""


@dataclass(slots=True, eq=False)
class _Camera:
    """An open stream: its number among the tracks, its floor plan, and what was decided since its last frame."""

    slot: int
    floor: FloorCamera | None
    scaled: FloorCamera | None = None
    size_wh: tuple[int, int] = (0, 0)
    decisions: list[Decision] = field(default_factory=list)

    def on_floor(
        self, xyxy: npt.NDArray[np.float32], size_wh: tuple[int, int], *, pixels: bool
    ) -> tuple[Floats, Floats]:
        """Return where the feet of boxes are (N, 2), in metres, with covariances; NaN where they are not seen."""
        assert self.floor is not None
        if size_wh != self.size_wh or self.scaled is None:
            self.size_wh, self.scaled = size_wh, self.floor if pixels else self.floor.scaled(size_wh)
        boxes = xyxy.astype(np.float64)
        feet = np.stack([(boxes[:, 0] + boxes[:, 2]) / 2, boxes[:, 3]], axis=1)
        floor, derivative = self.scaled.to_floor(feet)
        floor[boxes[:, 3] >= size_wh[1] - _CUT_PIXELS] = np.nan
        deviation = _FEET_PIXELS + _FEET_OF_HEIGHT * (boxes[:, 3] - boxes[:, 1])
        noise = derivative @ derivative.transpose(0, 2, 1) * deviation[:, None, None] ** 2
        return floor, noise + np.eye(2) * self.floor.error_m**2


class MultiCameraOperator(Operator):
    """Feeds the tracked objects of all streams to `Identities` in the order of time; writes the ids it knows."""

    def __init__(self, element: MultiCamera, site: Site) -> None:
        self._element = element
        self._site = site
        self._plans = element.cameras()
        self._cameras: dict[Stream, _Camera] = {}
        self._by_slot: dict[int, _Camera] = {}
        self._names: dict[int, str] = {}
        self._labels: dict[str, int] = {}
        self._counts: dict[str, Counter[str]] = {}
        self._has_capture_times: bool | None = None
        self._begin(first_id=1)

    def process(self, batch: Batch) -> Batch:
        """Add `global_id` and `global_id_confidence` to tracked objects, and events."""
        objects = batch.objects
        wanted = objects.track_id >= 0
        if self._element.classes is not None:
            wanted &= objects.has_label(self._element.classes)
        labels = self._label_numbers(objects.labels())
        bounds = np.searchsorted(objects.frame, np.arange(len(batch) + 1)).tolist()
        global_id = np.full(len(objects), None, object)
        confidence = np.full(len(objects), np.nan)
        events: list[Event] = []
        for row, frame in enumerate(batch.frames):
            own = bounds[row] + np.flatnonzero(wanted[bounds[row] : bounds[row + 1]])
            camera = self._camera(frame.stream)
            self._observe(camera, frame, batch, own, labels)
            known = self._identities.lookup(camera.slot, objects.track_id[own].tolist())
            for place, one in zip(own.tolist(), known, strict=True):
                if one is not None:
                    global_id[place], confidence[place] = one[0], round(one[1], 3)
            events += [self._event(decision, row) for decision in camera.decisions]
            camera.decisions.clear()
        if len(objects):
            objects = objects.with_columns(global_id=global_id, global_id_confidence=confidence)
        return batch.with_objects(objects).with_events(events)

    def end_stream(self, stream: Stream) -> None:
        """End the stream's tracks, when the other streams have reached that time."""
        camera = self._cameras.pop(stream, None)
        if camera is not None:
            self._take(self._order.end(stream.name, camera))

    def totals(self) -> Mapping[str, Mapping[str, int]]:
        """Return by stream how many tracks were `new` objects, were `matched` with known ones, and were `revised`."""
        return {
            stream: {name: own[name] for name in ("new", "matched", "revised")} for stream, own in self._counts.items()
        }

    def _begin(self, *, first_id: int) -> None:
        element = self._element
        self._order: TimeOrder[Observation | _Camera] = TimeOrder(element.max_wait)
        self._identities = Identities(
            motion=element.motion(),
            confirm_ns=element.confirm_after,
            max_gap_ns=element.max_gap,
            min_probability=element.min_probability,
            first_id=first_id,
        )

    def _observe(
        self, camera: _Camera, frame: Frame, batch: Batch, own: npt.NDArray[np.intp], labels: npt.NDArray[np.int64]
    ) -> None:
        time_ns = self._time_ns(frame)
        objects = batch.objects
        embedding = objects.extra.get("embedding")
        floor = noise = None
        if camera.floor is not None:
            floor, noise = camera.on_floor(objects.xyxy[own], frame.size_wh, pixels=self._element.pixels)
        seen = Observation(
            slot=camera.slot,
            track_id=objects.track_id[own],
            label=labels[own],
            embedding=None if embedding is None else embedding[own],
            floor=floor,
            noise=noise,
        )
        self._take(self._order.push(frame.stream.name, time_ns, seen))

    def _take(self, released: Iterable[tuple[int, Observation | _Camera]]) -> None:
        for time_ns, item in released:
            if isinstance(item, _Camera):
                self._identities.end_stream(item.slot)
                del self._by_slot[item.slot], self._names[item.slot]
            else:
                for decision in self._identities.update(time_ns, item):
                    self._counts[self._names[decision.slot]][decision.change] += 1
                    if decision.change != "new":
                        self._by_slot[decision.slot].decisions.append(decision)

    def _event(self, decision: Decision, row: int) -> Event:
        data: dict[str, str | int | float] = {"track_id": decision.track_id, "global_id": decision.global_id}
        if decision.change == "revised":
            data["previous"] = decision.previous
        data["confidence"] = round(decision.probability, 3)
        return Event("identity", decision.change, row, data, self._site.element_id)

    def _camera(self, stream: Stream) -> _Camera:
        camera = self._cameras.get(stream)
        if camera is None:
            slot = next(number for number in range(len(self._by_slot) + 1) if number not in self._by_slot)
            camera = self._cameras[stream] = self._by_slot[slot] = _Camera(slot, self._plans.get(stream.name))
            self._names[slot] = stream.name
            self._counts.setdefault(stream.name, Counter())
        return camera

    def _time_ns(self, frame: Frame) -> int:
        """Return the capture time while all frames have one, else the time in the stream's own clock."""
        has_capture_time = frame.capture_ns is not None
        if self._has_capture_times is None:
            self._has_capture_times = has_capture_time
        elif self._has_capture_times and not has_capture_time:
            self._has_capture_times = False
            self._site.warn(
                "a frame has no capture time: streams are compared by their own clocks from now on, which is right "
                "only if all began at the same time",
                stream=frame.stream.name,
            )
            self._begin(first_id=self._identities.next_id)
        if self._has_capture_times and frame.capture_ns is not None:
            return frame.capture_ns
        return frame.pts_ns

    def _label_numbers(self, labels: list[str]) -> npt.NDArray[np.int64]:
        return np.array([self._labels.setdefault(label, len(self._labels)) for label in labels], np.int64)
