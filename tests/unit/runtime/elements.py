"""Small elements and sources that runtime tests describe pipelines with."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import ClassVar

import numpy as np

from sightline.errors import StreamLost, StreamUnreadable
from sightline.graph import Element, Operator, Pending, Sink, Site, SourceElement, SourceReader, Threading
from sightline.media import Batch, Event, Frame, Objects, Origin, Stream
from sightline.testing import make_frames


class Synthetic(SourceElement):
    """Frames at 25 fps; fails, loses the stream or waits where told."""

    name: ClassVar[str] = "synthetic"

    frames: int | None = 20
    camera: bool = False
    unreadable_at: int | None = None
    lost_at: int | None = None
    broken_at: int | None = None
    damaged_at: int | None = None

    @property
    def live(self) -> bool:
        return self.camera

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        del site
        return SyntheticReader(self, stream)


class SyntheticReader(SourceReader):
    opened = 0
    closed = 0

    def __init__(self, source: Synthetic, stream: Stream) -> None:
        self._source = source
        self._stream = stream
        self.frame_count = source.frames
        type(self).opened += 1

    def frames(self) -> Iterator[Frame]:
        surface = make_frames(1, stream=self._stream.name)[0].surface
        index = 0
        while self._source.frames is None or index < self._source.frames:
            if index == self._source.unreadable_at:
                raise StreamUnreadable("there is no video in it")
            if index == self._source.lost_at:
                raise StreamLost("the camera went away")
            if index == self._source.broken_at:
                raise ZeroDivisionError("a fault of the reader")
            damaged = index == self._source.damaged_at
            yield Frame(self._stream, index, index * 40_000_000, surface, damaged=damaged)
            index += 1

    def close(self) -> None:
        type(self).closed += 1


class UntilTold(SourceElement):
    """A file whose end comes when `over` is set: however slow a test is, it is not over before."""

    name: ClassVar[str] = "until_told"
    over: ClassVar[threading.Event] = threading.Event()

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        del site
        return _UntilToldReader(Synthetic(frames=None), stream)


class _UntilToldReader(SyntheticReader):
    def frames(self) -> Iterator[Frame]:
        return itertools.takewhile(lambda _: not UntilTold.over.is_set(), super().frames())


class Find(Element):
    """Adds one object a frame, numbered by the frame; results are pending."""

    name: ClassVar[str] = "find"
    threading: ClassVar[Threading] = Threading.PENDING

    label: str = "thing"
    fail_at: int | None = None

    def build(self, site: Site) -> Operator:
        return _Finder(self, site.element_id)


class _Found:
    def __init__(self, work: Callable[[], Batch]) -> None:
        self.result = work


class _Finder(Operator):
    def __init__(self, element: Find, element_id: str) -> None:
        self._element = element
        self._origin = Origin(element_id, (element.label,))

    def process(self, batch: Batch) -> Pending:
        return _Found(lambda: self._find(batch))

    def _find(self, batch: Batch) -> Batch:
        for frame in batch.frames:
            if frame.index == self._element.fail_at:
                raise ValueError("rtsp://user:secret@camera is no number")
        rows = np.arange(len(batch))
        boxes = np.array([[frame.index, 0, frame.index + 10, 10] for frame in batch.frames], np.float32)
        found = Objects.from_columns(
            frame=rows, xyxy=boxes, confidence=np.ones(len(rows)), class_id=np.zeros(len(rows)), source=self._origin
        )
        return batch.with_objects(Objects.concat([batch.objects, found]))


class Tally(Element):
    """Counts frames and keeps what it saw, and how it was ended; shared through `Tally.seen` by id."""

    name: ClassVar[str] = "tally"

    fail_at: int | None = None
    fail_on_close: bool = False

    def build(self, site: Site) -> Operator:
        return Tallied(self, site.element_id)


class Tallied(Operator):
    built: ClassVar[dict[str, Tallied]] = {}

    def __init__(self, element: Tally, element_id: str) -> None:
        self._element = element
        self.frames: list[tuple[str, int]] = []
        self.ended: list[str] = []
        self.drained = 0
        self.closed = 0
        self.entered_by: set[int] = set()
        self.built[element_id] = self

    def process(self, batch: Batch) -> Batch:
        self.entered_by.add(threading.get_ident())
        for frame in batch.frames:
            if frame.index == self._element.fail_at:
                raise ValueError("this frame is not to my liking")
        self.frames += [(frame.stream.name, frame.index) for frame in batch.frames]
        return batch

    def end_stream(self, stream: Stream) -> None:
        self.ended.append(stream.name)

    def drain(self) -> None:
        self.drained += 1

    def close(self) -> None:
        self.closed += 1
        if self._element.fail_on_close:
            raise OSError("the last bytes could not be written")


class Hold(Element):
    """A sink in a thread of its own that waits for `Held.gate` before it consumes."""

    name: ClassVar[str] = "hold"
    threading: ClassVar[Threading] = Threading.OWN
    sink: ClassVar[bool] = True

    def build(self, site: Site) -> Operator:
        del site
        return Held()


class Held(Sink):
    gate: ClassVar[threading.Event] = threading.Event()

    def consume(self, batch: Batch) -> None:
        assert self.gate.wait(30), "nobody opened the gate"


class Remark(Element):
    """Adds one event a frame."""

    name: ClassVar[str] = "remark"

    rule: str = "r"

    def build(self, site: Site) -> Operator:
        del site
        return _Remarker(self.rule)


class _Remarker(Operator):
    def __init__(self, rule: str) -> None:
        self._rule = rule

    def process(self, batch: Batch) -> Batch:
        return batch.with_events([Event("remark", self._rule, row) for row in range(len(batch))])


class Gated(Element):
    """Its operator is built when `gate` is open."""

    name: ClassVar[str] = "gated"

    gate: Callable[[], object]
    error: Callable[[], Exception] | None = None

    def build(self, site: Site) -> Operator:
        self.gate()
        if self.error is not None:
            raise self.error()
        return _Remarker("gated")
