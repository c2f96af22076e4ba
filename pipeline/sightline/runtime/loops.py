"""Loops: runs whose frames Python code takes one by one, in a thread or in an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from concurrent.futures import Future

from sightline.media import FrameView
from sightline.runtime.ending import end, end_because_of
from sightline.runtime.feed import Feed, LoopFeed
from sightline.runtime.link import Link
from sightline.runtime.parcel import Item
from sightline.runtime.runner import Runner

Begin = Callable[[Link[Item]], Runner]
"""Starts a run that sends what is finished into the link."""


def each_frame(begin: Begin) -> Generator[FrameView, None, None]:
    """Run, and yield every frame; a loop that is left ends the run."""
    feed = Feed()
    runner = begin(feed.link)
    try:
        for batch in feed.batches():
            yield from batch
    except BaseException as error:
        feed.link.close()
        end_because_of(error, runner)
        raise
    end(runner)


async def each_frame_in_event_loop(begin: Begin) -> AsyncGenerator[FrameView, None]:
    """Run, and yield every frame, without blocking the event loop. Cancelling ends the run, and waits for that."""
    loop, feed = asyncio.get_running_loop(), LoopFeed()
    begun: Future[Runner] = Future()
    begun.set_running_or_notify_cancel()
    loop.run_in_executor(None, _fulfil, begun, lambda: begin(feed.link))
    try:
        runner = await asyncio.wrap_future(begun)
        async for batch in feed.batches():
            for frame in batch:
                yield frame
        await asyncio.shield(loop.run_in_executor(None, end, runner))
    except BaseException as error:
        feed.link.close()
        await asyncio.shield(loop.run_in_executor(None, _end_begun, error, begun))
        raise


def _fulfil(promise: Future[Runner], begin: Callable[[], Runner]) -> None:
    try:
        promise.set_result(begin())
    except BaseException as error:  # noqa: BLE001  raised where the promise is waited for
        promise.set_exception(error)


def _end_begun(error: BaseException, begun: Future[Runner]) -> None:
    if begun.exception() is None:
        end_because_of(error, begun.result())
