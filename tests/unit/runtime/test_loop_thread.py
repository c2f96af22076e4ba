"""An event loop in a thread of its own: what is in it when it ends."""

from __future__ import annotations

import asyncio

import pytest

from sightline.runtime.threads import LoopThread


def test_tasks_that_are_left_are_cancelled_and_end_before_the_loop() -> None:
    said = list[str]()

    async def hold_on() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            said.append("closed")

    async def begin() -> asyncio.Task[None]:
        task = asyncio.create_task(hold_on())
        await asyncio.sleep(0)
        return task

    thread = LoopThread("test")
    thread.start()
    task = thread.call(begin())

    assert thread.stop()
    assert said == ["closed"]
    assert task.cancelled()


def test_nothing_is_called_after_the_end() -> None:
    thread = LoopThread("test")
    thread.start()
    assert thread.stop()

    thread.post(pytest.fail)
