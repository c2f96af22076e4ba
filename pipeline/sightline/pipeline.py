"""The face for Python: a pipeline that is described, checked, run, watched and iterated."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any

from sightline.devices import resolve_device
from sightline.errors import ConfigurationError, EndOfLink
from sightline.graph import (
    BatchOptions,
    Clock,
    Element,
    Message,
    Outputs,
    Parallel,
    PipelineDescription,
    SourceElement,
    Step,
    Tee,
)
from sightline.graph.site import SystemClock
from sightline.media import Batch, FrameView
from sightline.runtime.link import Link
from sightline.runtime.parcel import Item, Parcel
from sightline.runtime.report import Report
from sightline.runtime.runner import Runner, StreamStatus
from sightline.runtime.supervise import Limits

if TYPE_CHECKING:
    from typing import Self

Source = str | Path | Mapping[str, object] | SourceElement
Described = Element | Tee | Parallel
_FRAMES_AHEAD = 2


class Pipeline:
    """A pipeline: sources, steps and options, ready to run.

    Run it in one of four ways: `run()` blocks and returns the report; iterating yields every frame with what was
    found on it (leaving the loop stops the pipeline); `async for` does the same in an event loop; `start()`, `stop()`
    and `wait()`, or a `with` block, run it in the background. Many pipelines live in one process; one pipeline runs
    once at a time. Sources and steps are elements, or what YAML holds in their place.

    >>> from sightline import Pipeline
    >>> pipeline = Pipeline(sources={"test": {"pattern": "bars", "frames": 3}}, steps=[])
    >>> [frame.index for frame in pipeline]
    [0, 1, 2]
    """

    def __init__(
        self,
        *,
        sources: Mapping[str, Source],
        steps: Sequence[Step | str | Mapping[str, object]] = (),
        name: str = "pipeline",
        device: str = "auto",
        batch: BatchOptions | Mapping[str, Any] | None = None,
        outputs: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
    ) -> None:
        from sightline.config import parse_steps, source_from

        self.description = PipelineDescription(
            name=name,
            device=device,
            sources={one: source_from(source, name=one) for one, source in sources.items()},
            batch=BatchOptions() if batch is None else BatchOptions.model_validate(batch),
            steps=tuple(step if isinstance(step, Described) else parse_steps([step])[0] for step in steps),
        )
        self._outputs_root = None if outputs is None else Path(outputs)
        self._clock = clock or SystemClock()
        self._listeners: list[Callable[[Message], None]] = []
        self._probes: dict[str, list[Callable[[Batch], None]]] = {}
        self._runner: Runner | None = None
        self._lock = Lock()

    @classmethod
    def from_description(
        cls,
        description: PipelineDescription,
        *,
        outputs: str | os.PathLike[str] | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """A pipeline from a description, such as `sightline.config.load_description` gives."""
        return cls(
            sources=description.sources,
            steps=description.steps,
            name=description.name,
            device=description.device,
            batch=description.batch,
            outputs=outputs,
            clock=clock,
        )

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str], *, outputs: str | os.PathLike[str] | None = None) -> Self:
        """A pipeline from a YAML file. Raises ConfigurationError with every mistake in it."""
        from sightline.config import load_description

        return cls.from_description(load_description(Path(path)), outputs=outputs)

    def on_message(self, listener: Callable[[Message], None]) -> None:
        """Call `listener` with every message; it is called from the pipeline's threads and must be quick."""
        self._listeners.append(listener)

    def probe(self, element_id: str, look: Callable[[Batch], None]) -> None:
        """Call `look` with every batch that leaves an element (`detect-1`); it must not change the batch.

        Raises ConfigurationError when no step has that id.
        """
        known = [known_id for known_id, _ in self.description.elements()]
        if element_id not in known:
            raise ConfigurationError(f"no step has the id {element_id!r}; the ids are {', '.join(known) or 'none'}")
        self._probes.setdefault(element_id, []).append(look)

    def check(self) -> None:
        """Check everything that can be checked before anything runs. Raises ConfigurationError with every mistake."""
        from sightline.config import InvalidConfiguration, check_description

        problems = check_description(self.description, outputs=Outputs(self._outputs_root))
        if problems:
            raise InvalidConfiguration(problems)

    def run(self, *, frames: int | None = None, duration_ns: int | None = None) -> Report:
        """Run to the end, or until `frames` of each stream or `duration_ns` of its time were read; return the report.

        Raises ConfigurationError before anything runs; OperatorError when a step failed; StreamError when no stream
        could be read (when some could not, the report and messages say so).
        """
        self.start(frames=frames, duration_ns=duration_ns)
        return self.wait()

    def start(self, *, frames: int | None = None, duration_ns: int | None = None) -> None:
        """Run in the background. Raises ConfigurationError before anything runs."""
        self._begin(Limits(frames, duration_ns), consumer=None)

    def stop(self) -> None:
        """Stop the sources, finish what is under way, close the outputs; from any thread or signal handler."""
        if self._runner is not None:
            self._runner.stop()

    def abort(self) -> None:
        """Stop at once: what is under way is dropped, the outputs are closed."""
        if self._runner is not None:
            self._runner.abort()

    def wait(self) -> Report:
        """Wait for the end of the run and return its report; raises as `run` does."""
        if self._runner is None:
            raise ConfigurationError("the pipeline was not started: call start() or run() first")
        return self._runner.wait()

    def status(self) -> tuple[StreamStatus, ...]:
        """How every stream is doing; empty before the start."""
        return () if self._runner is None else self._runner.status()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None:
            self.wait()

    def __iter__(self) -> Iterator[FrameView]:
        """Run, and yield every frame with what was found on it; raises as `run` does."""
        return self._frames()

    def _frames(self) -> Generator[FrameView, None, None]:
        consumer: Link[Item] = Link(_FRAMES_AHEAD)
        runner = self._begin(Limits(), consumer=consumer)
        try:
            for batch in _batches(consumer):
                yield from batch
        finally:
            consumer.close()
            runner.stop()
            runner.wait()

    async def __aiter__(self) -> AsyncIterator[FrameView]:
        """Run, and yield every frame, without blocking the event loop; raises as `run` does."""
        frames = self._frames()
        try:
            while (frame := await asyncio.to_thread(next, frames, None)) is not None:
                yield frame
        finally:
            await asyncio.to_thread(frames.close)

    def _begin(self, limits: Limits, *, consumer: Link[Item] | None) -> Runner:
        with self._lock:
            self.check()
            runner = Runner(
                self.description,
                device=resolve_device(self.description.device),
                outputs=Outputs(self._outputs_root),
                clock=self._clock,
                post=self._tell,
                probes=self._probes,
                limits=limits,
                consumer=consumer,
            )
            runner.start()
            self._runner = runner
            return runner

    def _tell(self, message: Message) -> None:
        for listener in self._listeners:
            listener(message)


def _batches(consumer: Link[Item]) -> Iterator[Batch]:
    while True:
        try:
            item = consumer.receive()
        except EndOfLink:
            return
        if isinstance(item, Parcel):
            yield item.batch()
