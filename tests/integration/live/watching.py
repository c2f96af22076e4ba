"""Watch a pipeline on live sources while it runs: frames, times, messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from sightline import Pipeline
from sightline.graph import Clock, Message, MessageKind, StreamState
from sightline.media import Batch, Frame
from sightline.runtime.stats.report import Report
from sightline.testing import FrameOrder, assert_accounted
from sightline_plugins import Callback

PATIENCE_SECONDS = 300.0
_GLANCE_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Seen:
    """A frame that went through the pipeline: all of it but its pixels, and when (monotonic)."""

    at_seconds: float
    epoch_ns: int
    index: int
    pts_ns: int
    size_wh: tuple[int, int]
    damaged: bool
    capture_ns: int | None
    time_source: str | None
    luma: int

    @classmethod
    def of(cls, frame: Frame) -> Seen:
        """What a frame is now."""
        return cls(
            time.monotonic(),
            time.time_ns(),
            frame.index,
            frame.pts_ns,
            frame.size_wh,
            frame.damaged,
            frame.capture_ns,
            frame.time_source,
            int(frame.surface.planes[0][0, 0]),
        )


@dataclass(frozen=True, slots=True)
class Told:
    """A message and when it came (monotonic)."""

    at_seconds: float
    message: Message


@dataclass(slots=True)
class Watched:
    """Runs a pipeline in the background while its block is open; afterwards `report` is there, and accounted for."""

    sources: Mapping[str, str | Mapping[str, object]]
    steps: Sequence[Any] = ()
    batch: Mapping[str, Any] | None = None
    clock: Clock | None = None
    frames: dict[str, list[Seen]] = field(default_factory=dict)
    told: list[Told] = field(default_factory=list)
    report: Report | None = None
    stop_seconds: float = 0.0
    _pipeline: Pipeline | None = None
    _order: FrameOrder = field(default_factory=FrameOrder)

    def __enter__(self) -> Self:
        self.frames.update({name: [] for name in self.sources})
        pipeline = self._pipeline = Pipeline(
            sources=self.sources,
            steps=[*self.steps, Callback(id="watched", function=_pass)],
            batch=self.batch,
            clock=self.clock,
            state=False,
        )
        pipeline.probe("watched", self._look)
        pipeline.probe("watched", self._order)
        pipeline.on_message(lambda message: self.told.append(Told(time.monotonic(), message)))
        pipeline.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._pipeline is not None
        begun = time.monotonic()
        self._pipeline.stop()
        report = self.report = self._pipeline.wait()
        self.stop_seconds = time.monotonic() - begun
        if error is None:
            assert_accounted(report, stopped=True)
            self._order.check(report)

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline that runs."""
        assert self._pipeline is not None
        return self._pipeline

    def state(self, stream: str) -> StreamState:
        """How a stream is now."""
        return next(status.state for status in self.pipeline.status() if status.name == stream)

    def of_kind(self, kind: MessageKind, *, stream: str | None = None) -> list[Told]:
        """The messages of a kind so far, of one stream or all."""
        return [told for told in self.told if told.message.kind is kind and stream in (None, told.message.stream)]

    def first_after(self, stream: str, moment: float) -> Seen:
        """The first frame of a stream that came after a moment; waits for it."""
        until(lambda: bool(self.frames[stream]) and self.frames[stream][-1].at_seconds > moment)
        return next(seen for seen in self.frames[stream] if seen.at_seconds > moment)

    def has_frames(self, count: int, *, of: str | None = None) -> None:
        """Wait until one stream, or every one, has had so many frames."""
        names = list(self.sources) if of is None else [of]
        until(lambda: all(len(self.frames[name]) >= count for name in names))

    def has_state(self, state: StreamState, *, stream: str) -> Told:
        """Wait until a stream has been in a state; the message that said so."""
        until(lambda: bool(self._in_state(state, stream)))
        return self._in_state(state, stream)[0]

    def _in_state(self, state: StreamState, stream: str) -> list[Told]:
        return [told for told in self.told if told.message.stream == stream and told.message.state is state]

    def _look(self, batch: Batch) -> None:
        for frame in batch.frames:
            self.frames.setdefault(frame.stream.name, []).append(Seen.of(frame))


def until(holds: Callable[[], bool], *, seconds: float = PATIENCE_SECONDS) -> float:
    """Wait until a condition holds; how long that took. Fails when it takes too long."""
    begun = time.monotonic()
    while not holds():
        waited = time.monotonic() - begun
        assert waited < seconds, f"it does not hold after {waited:.1f} s"
        time.sleep(_GLANCE_SECONDS)
    return time.monotonic() - begun


def _pass(frame: object) -> None:
    del frame
