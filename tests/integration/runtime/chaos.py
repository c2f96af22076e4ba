"""Elements and sources that wait and fail on request, and a record of how they were called."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from sightline.errors import StreamLost, StreamUnreadable
from sightline.graph import Element, Operator, Pending, Site, SourceElement, SourceReader, Threading
from sightline.media import Batch, Frame, Stream
from sightline.testing import make_frames

Place = Literal["build", "process", "result", "end_stream", "drain", "close", "totals"]
BLINK_SECONDS = 0.0005


class Planted(Exception):
    """A failure that a scenario put where it is."""


@dataclass
class Record:
    """How one operator was treated."""

    frames: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    ended: list[str] = field(default_factory=list)
    drained: int = 0
    closed: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass
class World:
    """What happened in one scenario; elements find theirs by number."""

    built: dict[str, Record] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    readers_opened: int = 0
    readers_closed: int = 0
    moment: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def fail(self, name: str) -> None:
        with self.lock:
            self.failed.append(name)
        raise Planted(f"planted at {name}")

    def count_reader(self, *, opened: int = 0, closed: int = 0) -> None:
        with self.lock:
            self.readers_opened += opened
            self.readers_closed += closed


WORLDS: dict[int, World] = {}


class Step(Element):
    """Passes batches on; waits and fails as told. `moment_at` is the call that rings `World.moment`."""

    name: ClassVar[str] = "step"

    world: int
    fails_in: Place | None = None
    fails_at: int = 0
    slow_calls: frozenset[int] = frozenset()
    moment_at: int | None = None

    def build(self, site: Site) -> Operator:
        if self.fails_in == "build":
            WORLDS[self.world].fail(f"{site.element_id} build")
        return StepOperator(self, WORLDS[self.world], site.element_id)


class OwnStep(Step):
    name: ClassVar[str] = "own-step"
    threading: ClassVar[Threading] = Threading.OWN


class PendingStep(Step):
    name: ClassVar[str] = "pending-step"
    threading: ClassVar[Threading] = Threading.PENDING


class InlineSink(Step):
    name: ClassVar[str] = "inline-sink"
    sink: ClassVar[bool] = True


class OwnSink(Step):
    name: ClassVar[str] = "own-sink"
    threading: ClassVar[Threading] = Threading.OWN
    sink: ClassVar[bool] = True


class Later:
    """A pending result."""

    def __init__(self, work: Callable[[], Batch]) -> None:
        self.result = work


class StepOperator(Operator):
    def __init__(self, element: Step, world: World, element_id: str) -> None:
        self._element = element
        self._world = world
        self._id = element_id
        self._calls = 0
        self._results = 0
        self._entered = threading.Lock()
        self.record = world.built[element_id] = Record()

    def process(self, batch: Batch) -> Batch | Pending:
        self._enter("process")
        try:
            if self._calls in self._element.slow_calls:
                threading.Event().wait(BLINK_SECONDS)
            if self._calls == self._element.moment_at:
                self._world.moment.set()
            self._fail_if(self._calls, "process")
            self._calls += 1
        finally:
            self._entered.release()
        if self._element.threading is not Threading.PENDING:
            self._note(batch)
            return batch
        return Later(lambda: self._result(batch))

    def _result(self, batch: Batch) -> Batch:
        if self.record.closed:
            self.record.wrong.append("result after close")
        self._results += 1
        self._fail_if(self._results - 1, "result")
        self._note(batch)
        return batch

    def end_stream(self, stream: Stream) -> None:
        self._enter("end_stream")
        self._entered.release()
        self._fail_if(len(self.record.ended), "end_stream")
        self.record.ended.append(stream.name)

    def drain(self) -> None:
        self._enter("drain")
        self._entered.release()
        self._fail_if(0, "drain")
        self.record.drained += 1

    def close(self) -> None:
        self.record.closed += 1
        if not self._entered.acquire(blocking=False):
            self.record.wrong.append("closed while it worked")
            return
        self._entered.release()
        self._fail_if(0, "close")

    def totals(self) -> dict[str, int]:
        self._fail_if(0, "totals")
        return {"calls": self._calls}

    def _note(self, batch: Batch) -> None:
        for frame in batch.frames:
            self.record.frames[frame.stream.name].append(frame.index)

    def _enter(self, place: str) -> None:
        if not self._entered.acquire(blocking=False):
            self.record.wrong.append(f"{place}: entered by two threads")
            self._entered.acquire()
        if self.record.closed:
            self.record.wrong.append(f"{place} after close")

    def _fail_if(self, call: int, place: Place) -> None:
        early = place in ("drain", "close", "totals")
        if self._element.fails_in == place and (early or call == self._element.fails_at):
            self._world.fail(f"{self._id} {place}")


class Input(SourceElement):
    """Frames at 25 fps, made at once; fails as told."""

    name: ClassVar[str] = "input"

    world: int
    frames: int
    camera: bool = False
    fault: Literal["unreadable", "lost", "broken", "close"] | None = None
    fault_at: int = 0
    damaged: frozenset[int] = frozenset()

    @property
    def live(self) -> bool:
        return self.camera

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        del site
        return InputReader(self, stream)


class InputReader(SourceReader):
    def __init__(self, source: Input, stream: Stream) -> None:
        self._source = source
        self._stream = stream
        self._world = WORLDS[source.world]
        self._world.count_reader(opened=1)
        self.frame_count = source.frames

    def frames(self) -> Iterator[Frame]:
        source = self._source
        surface = make_frames(1, size_wh=(16, 16))[0].surface
        for index in range(source.frames):
            if index == source.fault_at:
                self._fail()
            yield Frame(self._stream, index, index * 40_000_000, surface, damaged=index in source.damaged)

    def close(self) -> None:
        self._world.count_reader(closed=1)
        if self._source.fault == "close":
            raise Planted("the input cannot be closed")

    def _fail(self) -> None:
        if self._source.fault == "unreadable":
            raise StreamUnreadable("there is no video in it")
        if self._source.fault == "lost":
            raise StreamLost("it broke off")
        if self._source.fault == "broken":
            raise Planted("a fault of the reader")
