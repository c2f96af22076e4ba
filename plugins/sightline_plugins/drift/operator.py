"""The operator of `drift`: which frames are sampled, what is measured of their images, and what is reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sightline.errors import OutputError
from sightline.graph import Operator, RunsOn, Saved, Site
from sightline.graph.operator import DriftMeasure
from sightline.graph.rule_options import with_severity
from sightline.graph.tracker import Luma
from sightline.media import Batch, Event, Frame, Part, Stream
from sightline.media.frame import NANOSECONDS
from sightline_plugins.camera_health.operator import fine_size
from sightline_plugins.drift.baseline_file import read_baseline, write_baseline
from sightline_plugins.drift.drift import FEWEST_BLOCKS, Drift
from sightline_plugins.drift.quantities import OF_OBJECTS, QUANTITIES, QuantityName
from sightline_plugins.drift.watch import Change, DriftWatch, ImageValues
from sightline_plugins.flow.luma import FrameLuma
from sightline_plugins.opencv import cv2

_IMAGE = "image"
"""The label of quantities of images in the report."""
Told = Mapping[str, Any]


class DriftOperator(Operator):
    """Watches over each stream; damaged frames, and those on which no detector ran, are not sampled."""

    def __init__(self, element: Drift, *, site: Site) -> None:
        self._element = element
        self._site = site
        self._step = site.element_id or element.name
        self._luma = FrameLuma(site.gpu)
        self._of_image = [name for name in QUANTITIES if name in element.quantities and name not in OF_OBJECTS]
        self._watches: dict[Stream, DriftWatch] = {}
        self._restored: dict[str, DriftWatch] = {}
        self._ended: dict[str, Told] = {}
        self._resets: set[str | None] = set()

    def process(self, batch: Batch) -> Batch:
        """Sample the frames that are due, and add what begins and ends with them."""
        due = [row for row, frame in enumerate(batch.frames) if self._is_due(frame, batch, row)]
        if not due:
            return batch
        frames = [batch.frames[row] for row in due]
        values: list[ImageValues] = [{}] * len(due)
        if self._of_image:
            images = self._luma.reduced([(frame.surface, fine_size(frame.size_wh)) for frame in frames])
            values = [self._measured(image) for image in images]
        events: list[Event] = []
        for row, frame, image in zip(due, frames, values, strict=True):
            watch = self._watches[frame.stream]
            changes = watch.learn_anew() if self._takes_reset(frame.stream.name) else []
            was_learned = watch.baseline is not None
            at_ns = self._site.clock.epoch_ns() if frame.capture_ns is None else frame.capture_ns
            objects = batch.objects.of_frame(row)
            changes += watch.add(objects, frame.size_wh, image, now_ns=frame.pts_ns, at_ns=at_ns)
            events += [self._event(row, change) for change in changes]
            if not was_learned and watch.baseline is not None:
                self._write(frame.stream.name, watch)
        return batch.with_events(events)

    def change(self, element: Drift) -> None:
        """Go on with other options."""
        self._element = element
        for watch in [*self._watches.values(), *self._restored.values()]:
            watch.options = element

    def reset_counts(self, stream: str | None) -> None:
        """Learn what is usual on a stream, or on all, anew."""
        self._resets |= {stream} if stream is not None else {one.name for one in list(self._watches)}

    def end_stream(self, stream: Stream) -> None:
        """Forget what was learned, after it was written where that is wanted; its totals stay."""
        watch = self._watches.pop(stream, None)
        if watch is None:
            return
        if watch.baseline is None:
            self._write(stream.name, watch)
        self._ended[stream.name] = _told(watch)

    def close(self) -> None:
        """End all streams."""
        for stream in list(self._watches):
            self.end_stream(stream)

    def save(self, stream: Stream) -> Saved | None:
        """Return what was learned of a stream, what drifts, and what was counted."""
        watch = self._watches.get(stream)
        return None if watch is None else watch.save()

    def restore(self, stream: str, saved: Saved) -> None:
        """Go on with the baseline of an earlier process. Raises KeyError, TypeError or ValueError."""
        watch = self._new_watch(stream)
        watch.restore(saved, epoch_ns=self._site.clock.epoch_ns())
        self._restored[stream] = watch

    def totals(self) -> Mapping[str, Told]:
        """Return by stream how much is learned (0 to 1), and each quantity by label."""
        present = {stream.name: _told(watch) for stream, watch in list(self._watches.items())}
        return {**self._ended, **present}

    def drifts(self) -> Sequence[DriftMeasure]:
        """Return how far each quantity differs now."""
        return [
            DriftMeasure(
                stream.name, quantity, label, state.distance, state.limit, state.before, state.now, state.drifts
            )
            for stream, watch in list(self._watches.items())
            for (quantity, label), state in watch.states.items()
        ]

    def runs_on(self) -> RunsOn:
        """The CPU, which gets small images."""
        return RunsOn(reason=self._luma.reason)

    def _is_due(self, frame: Frame, batch: Batch, row: int) -> bool:
        detected = batch.columns.detected
        if frame.damaged or (detected and not detected[row]):
            return False
        watch = self._watches.get(frame.stream)
        if watch is None:
            name = frame.stream.name
            watch = self._restored.pop(name) if name in self._restored else self._new_watch(name)
            self._watches[frame.stream] = watch
        return watch.is_due(frame.pts_ns)

    def _new_watch(self, stream: str) -> DriftWatch:
        path = self._element.baseline_for(stream)
        return DriftWatch(self._element, None if path is None else read_baseline(path))

    def _takes_reset(self, stream: str) -> bool:
        if stream not in self._resets:
            return False
        self._resets.discard(stream)
        return True

    def _measured(self, image: Luma) -> ImageValues:
        """Return brightness, contrast and sharpness of a small image (H, W), those that are compared."""
        mean, deviation = (float(value[0, 0]) for value in cv2.meanStdDev(image))
        found: dict[QuantityName, float] = {"brightness": mean, "contrast": deviation}
        if "sharpness" in self._of_image:
            _, detail = cv2.meanStdDev(cv2.Laplacian(image, cv2.CV_16S))
            found["sharpness"] = float(detail[0, 0]) / max(deviation, 1.0)
        return {name: found[name] for name in self._of_image}

    def _write(self, stream: str, watch: DriftWatch) -> None:
        baseline = watch.learned_so_far(fewest=FEWEST_BLOCKS)
        if self._element.write is None or baseline is None:
            return
        outputs = self._site.outputs
        try:
            write_baseline(baseline, outputs.path(self._element.write, stream=stream), stream=stream, outputs=outputs)
        except OutputError as error:
            self._site.warn(f"the baseline is not written: {error}", stream=stream)

    def _event(self, row: int, change: Change) -> Event:
        quantity, label = change.key
        data: dict[str, str | int | float] = {"state": "began" if change.began else "ended", "quantity": quantity}
        if label:
            data["label"] = label
        if not change.began:
            data["seconds"] = round(change.lasted_ns / NANOSECONDS, 1)
        if change.reason:
            data["reason"] = change.reason
        if (state := change.state) is not None:
            data |= {"distance": round(state.distance, 3), "limit": round(state.limit, 3)}
            data |= {"before": _rounded(state.before), "now": _rounded(state.now)}
        told = with_severity(data, self._element.severity)
        return Event("drift", quantity, row, told, self._step, Part.BEGIN if change.began else Part.END, change.row)


def _told(watch: DriftWatch) -> Told:
    lasts_ns, states = watch.lasts_ns(), watch.states
    told: dict[str, Any] = {"learned": round(watch.learned, 3)}
    for key in sorted({*states, *watch.events}, key=lambda key: (QUANTITIES.index(key[0]), key[1])):
        quantity, label = key
        seconds = (watch.ended_ns.get(key, 0) + lasts_ns.get(key, 0)) / NANOSECONDS
        own: dict[str, Any] = {"events": watch.events.get(key, 0), "seconds": round(seconds, 1)}
        if (state := states.get(key)) is not None:
            own |= {"distance": round(state.distance, 3), "limit": round(state.limit, 3)}
            own |= {"before": _rounded(state.before), "now": _rounded(state.now)}
        told.setdefault(quantity, {})[label or _IMAGE] = own
    return told


def _rounded(value: float) -> float:
    """Return three digits of a value."""
    return float(f"{value:.3g}")
