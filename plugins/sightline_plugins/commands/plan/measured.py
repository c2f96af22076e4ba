"""Run a pipeline for some seconds, and measure what it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sightline.cli.summary import Measurement
from sightline.devices import Device
from sightline.errors import StreamError
from sightline.graph import StreamState
from sightline.pipeline import Pipeline
from sightline.runtime.stats.snapshot import RunView
from sightline.server.resources import Resources

WARM_UP = 0.2
"""Share of the seconds, at the beginning, that is not measured: batches and caches fill."""
_GLANCE_SECONDS = 0.05
_LONGEST_START_SECONDS = 600.0


class Interrupted(Exception):
    """Somebody pressed Ctrl-C."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run of so many streams took, behind its warm-up: frames of all streams that were finished, CPU time of
    this process, both in so many seconds; and the memory that it held at the end.

    `rates` are frames a second of each stream, by its timestamps; `decode_ms` is the CPU time that reading and decoding
    took for each of them. `others` is the share of all cores that other programs used, None where that is unknown.
    """

    streams: int
    seconds: float
    frames: int
    cpu_seconds: float
    cores: int
    resident_bytes: int
    others: float | None
    rates: Mapping[str, float]
    decode_ms: Mapping[str, float]
    measurement: Measurement

    @property
    def fps(self) -> float:
        """Frames a second of all streams."""
        return self.frames / self.seconds

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds a frame."""
        return 1000 * self.cpu_seconds / self.frames

    @property
    def used(self) -> float:
        """Share of all cores that was in use, 0 to 1."""
        return self.cpu_seconds / self.seconds / self.cores

    @property
    def wanted_fps(self) -> float:
        """Frames a second of all streams, by their timestamps."""
        return sum(self.rates.values())


@dataclass(frozen=True, slots=True)
class _Moment:
    resources: Resources
    received: Mapping[str, int]
    finished: Mapping[str, int]
    position_ns: Mapping[str, int]

    @classmethod
    def of(cls, view: RunView | None) -> _Moment:
        streams = () if view is None else view.streams
        return cls(
            Resources.now(),
            {one.stream.name: one.received for one in streams},
            {one.stream.name: one.finished for one in streams},
            {one.stream.name: one.position_ns for one in streams},
        )

    def has_more_than(self, before: _Moment) -> bool:
        """Whether frames of each stream came and were finished since."""
        return all(
            self.finished[name] > before.finished[name] and self.position_ns[name] > before.position_ns[name]
            for name in before.finished
        )


def measure(pipeline: Pipeline, *, seconds: float, is_over: Callable[[], bool]) -> Measured:
    """Run a pipeline without end for that time, behind its warm-up, and until each stream had a frame in it.

    Raises Interrupted when `is_over`, ConfigurationError, and StreamError when a stream cannot be read.
    """
    pipeline.start()
    try:
        _wait(pipeline, is_over, until=lambda moment: all(moment.finished.values()), seconds=_LONGEST_START_SECONDS)
        _wait(pipeline, is_over, seconds=WARM_UP * seconds)
        before = _Moment.of(pipeline.view())
        _wait(pipeline, is_over, seconds=seconds)
        _wait(pipeline, is_over, until=lambda moment: moment.has_more_than(before), seconds=_LONGEST_START_SECONDS)
        after = _Moment.of(pipeline.view())
    finally:
        pipeline.stop()
        report = pipeline.wait()
    decode_ms = {one.stream.name: one.read_cpu_ns / 1e6 / max(1, one.received) for one in report.streams}
    used = after.resources.cpu_since(before.resources)
    machine = used.get("machine")
    return Measured(
        streams=len(pipeline.description.sources),
        seconds=after.resources.at - before.resources.at,
        frames=sum(after.finished.values()) - sum(before.finished.values()),
        cpu_seconds=after.resources.process_cpu_seconds - before.resources.process_cpu_seconds,
        cores=Device().cores,
        resident_bytes=after.resources.process_bytes or 0,
        others=None if machine is None else max(0.0, machine - used["process"]) / Device().cores,
        rates=_rates(before, after),
        decode_ms=decode_ms,
        measurement=Measurement.of(report.to_json()),
    )


def _rates(before: _Moment, after: _Moment) -> dict[str, float]:
    """Frames a second of each stream by its timestamps; what was not seen twice has none."""
    rates = {}
    for name, position_ns in after.position_ns.items():
        seconds = (position_ns - before.position_ns[name]) / 1e9
        if seconds > 0:
            rates[name] = (after.received[name] - before.received[name]) / seconds
    return rates


def _wait(
    pipeline: Pipeline,
    is_over: Callable[[], bool],
    *,
    seconds: float,
    until: Callable[[_Moment], bool] | None = None,
) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if is_over():
            raise Interrupted
        view = pipeline.view()
        if view is not None and not view.is_running:
            pipeline.wait()  # raises what ended it
            raise StreamError("the pipeline ended before it was measured")
        if view is not None and any(one.state is StreamState.FAILED for one in view.streams):
            raise StreamError("a stream failed, and a plan needs all of them")
        if until is not None and view is not None and view.streams and until(_Moment.of(view)):
            return
        time.sleep(min(_GLANCE_SECONDS, max(0.0, end - time.monotonic())))
