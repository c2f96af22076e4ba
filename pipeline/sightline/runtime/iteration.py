"""Iterate over the frames of a running pipeline, and end the run in every case."""

from __future__ import annotations

import asyncio
import atexit
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from sightline.errors import SightlineError
from sightline.media import FrameView
from sightline.runtime.call_scope import CallScope
from sightline.runtime.run import Run
from sightline.runtime.scheduling.batcher import AsyncBatchIterator, BatchIterator
from sightline.runtime.scheduling.link import Item, Link
from sightline.runtime.stats.report import Report

_LOG = logging.getLogger(__name__)


def end(runner: Run) -> Report:
    """Stop and wait for the end; when that is interrupted (Ctrl-C), drop what is under way."""
    runner.stop()
    return wait(runner)


def wait(runner: Run) -> Report:
    """Wait for the end; when that is interrupted (Ctrl-C), drop what is under way."""
    try:
        return runner.wait()
    except KeyboardInterrupt as interrupt:
        runner.abort()
        with _noting(interrupt):
            runner.wait()
        raise


def end_because_of(error: BaseException, runner: Run) -> None:
    """Stop and wait for the end while `error` is on its way; what goes wrong besides is noted on it, or logged when a
    loop was left (GeneratorExit) and nobody can read a note.
    """
    with _noting(error):
        end(runner)


@contextmanager
def _noting(error: BaseException) -> Iterator[None]:
    try:
        yield
    except SightlineError as failure:
        if isinstance(error, GeneratorExit):
            _LOG.error("the pipeline failed after its loop was left: %s", failure)
        elif failure is not error:
            error.add_note(f"the pipeline failed as well: {failure}")


Begin = Callable[[Link[Item]], Run]
"""Starts a run that sends what is finished into the link."""


def each_frame(begin: Begin, scope: CallScope) -> Generator[FrameView, None, None]:
    """Run, and yield every frame; a loop that is left ends the run.

    One that is left standing when the program ends is closed before Python stops its threads: a generator that Python
    itself closes after that would wait for them without end.
    """
    iterator = BatchIterator()
    runner = begin(iterator.link)

    def leave() -> None:
        iterator.link.receiver.close()
        end_because_of(GeneratorExit(), runner)

    atexit.register(leave)
    try:
        for batch in iterator.batches():
            for frame in batch:
                scope.yields()
                yield frame
            scope.resumes()
    except BaseException as error:
        scope.resumes()
        iterator.link.receiver.close()
        end_because_of(error, runner)
        raise
    finally:
        atexit.unregister(leave)
    wait(runner)


async def each_frame_in_event_loop(begin: Begin, scope: CallScope) -> AsyncGenerator[FrameView, None]:
    """Run, and yield every frame, without blocking the event loop. Cancelling ends the run, and waits for that."""
    loop, iterator = asyncio.get_running_loop(), AsyncBatchIterator()
    begun: Future[Run] = Future()
    begun.set_running_or_notify_cancel()
    loop.run_in_executor(None, _fulfil, begun, lambda: begin(iterator.link))
    try:
        runner = await asyncio.wrap_future(begun)
        async for batch in iterator.batches():
            for frame in batch:
                scope.yields()
                yield frame
            scope.resumes()
        await asyncio.shield(loop.run_in_executor(None, wait, runner))
    except BaseException as error:
        scope.resumes()
        iterator.link.receiver.close()
        await asyncio.shield(loop.run_in_executor(None, _end_begun, error, begun))
        raise


def _fulfil(promise: Future[Run], begin: Callable[[], Run]) -> None:
    try:
        promise.set_result(begin())
    except BaseException as error:  # noqa: BLE001  raised where the promise is waited for
        promise.set_exception(error)


def _end_begun(error: BaseException, begun: Future[Run]) -> None:
    if begun.exception() is None:
        end_because_of(error, begun.result())
