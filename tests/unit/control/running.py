"""Pipelines that run while tests change them, and steps that do not do what they should."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from sightline import Pipeline
from sightline.graph import Element, Message, Operator, PipelineDescription, Sink, Site, SourceElement, Step, Threading
from sightline.media import Batch, Stream
from sightline.testing import FrameOrder
from tests.unit.runtime.elements import Synthetic

LIMIT_SECONDS = 300


def endless() -> SourceElement:
    return Synthetic(frames=None)


def described(*steps: Step, **sources: SourceElement) -> PipelineDescription:
    return PipelineDescription(sources=sources or {"yard": endless(), "gate": endless()}, steps=steps)


@contextmanager
def running(
    *steps: Step, order: FrameOrder | None = None, **sources: SourceElement
) -> Iterator[tuple[Pipeline, list[Message]]]:
    """A pipeline that runs while the block is open, and its messages; `order` looks at what leaves the step `t`."""
    pipeline, messages = Pipeline.from_description(described(*steps, **sources)), list[Message]()
    pipeline.on_message(messages.append)
    if order is not None:
        pipeline.probe("t", order)
    pipeline.start()
    try:
        yield pipeline, messages
    finally:
        pipeline.stop()
        pipeline.wait()


def to_steps(*steps: Step) -> Callable[[PipelineDescription], PipelineDescription]:
    """An edit that sets the steps."""
    return lambda description: description.model_copy(update={"steps": steps})


def with_step(step: Step) -> Callable[[PipelineDescription], PipelineDescription]:
    """An edit that adds a step at the end."""
    return lambda description: description.model_copy(update={"steps": (*description.steps, step)})


def with_source(name: str, source: SourceElement) -> Callable[[PipelineDescription], PipelineDescription]:
    """An edit that adds or replaces a source."""
    return lambda description: description.model_copy(update={"sources": {**description.sources, name: source}})


class Broken(Element):
    """Raises, from the frame `first` on, in `process` or wherever `where` says."""

    name: ClassVar[str] = "broken"

    first: int = 0
    where: str = "process"
    text: str = "this step is broken"

    def build(self, site: Site) -> Operator:
        del site
        return _Broken(self)


class BrokenSink(Broken):
    """The same in a thread of its own, beside the main line."""

    name: ClassVar[str] = "broken_sink"
    threading: ClassVar[Threading] = Threading.OWN
    sink: ClassVar[bool] = True


class BrokenLater(Broken):
    """The same with a pending result."""

    name: ClassVar[str] = "broken_later"
    threading: ClassVar[Threading] = Threading.PENDING

    def build(self, site: Site) -> Operator:
        del site
        return _Broken(self, is_pending=True)


class _Broken(Sink):
    def __init__(self, element: Broken, *, is_pending: bool = False) -> None:
        self._element = element
        self._is_pending = is_pending
        self._seen = 0

    def process(self, batch: Batch) -> Any:
        if self._is_pending:
            return _Later(lambda: super(_Broken, self).process(batch))
        return super().process(batch)

    def consume(self, batch: Batch) -> None:
        self._seen += len(batch)
        if self._seen > self._element.first:
            self._fail("process")

    def end_stream(self, stream: Stream) -> None:
        self._fail("end_stream")

    def drain(self) -> None:
        self._fail("drain")

    def totals(self) -> Mapping[str, Any]:
        self._fail("totals")
        return {}

    def close(self) -> None:
        self._fail("close")

    def _fail(self, where: str) -> None:
        if where in self._element.where.split():
            raise ValueError(self._element.text)


class _Later:
    def __init__(self, work: Callable[[], Batch]) -> None:
        self.result = work


class Stuck(Element):
    """Does not return from its first frame until `released` is set."""

    name: ClassVar[str] = "stuck"
    released: ClassVar[threading.Event] = threading.Event()

    def build(self, site: Site) -> Operator:
        del site
        return _Stuck()


class _Stuck(Operator):
    def process(self, batch: Batch) -> Batch:
        Stuck.released.wait(LIMIT_SECONDS)
        return batch


class Choosy(Element):
    """Raises on every frame of the stream `bad`."""

    name: ClassVar[str] = "choosy"

    def build(self, site: Site) -> Operator:
        del site
        return _Choosy()


class _Choosy(Operator):
    def process(self, batch: Batch) -> Batch:
        if any(frame.stream.name == "bad" for frame in batch.frames):
            raise ValueError("not this stream")
        return batch
