"""Carrying out a script: each step at its time, and back when it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from sightline.testing.camera.mount import Mount
from sightline.testing.camera.script import Script, Step


class Stage(Protocol):
    """What steps act on; used in its own event loop."""

    mounts: dict[str, Mount]

    async def up(self) -> None:
        """Listen."""

    async def down(self) -> None:
        """Close everything at once."""


async def perform(script: Script, stage: Stage, *, say: Callable[[str], None]) -> None:
    """Carry out a script; over when its last step is, unless it repeats."""
    loop = asyncio.get_running_loop()
    begin = loop.time()
    await _once(script.steps, stage, begin=begin, say=say)
    while script.repeat_seconds is not None:
        begin += script.repeat_seconds
        await _once(script.steps, stage, begin=begin, say=say)


async def _once(steps: Sequence[Step], stage: Stage, *, begin: float, say: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    undoing: set[asyncio.Task[None]] = set()
    try:
        for step in steps:
            await asyncio.sleep(begin + step.at - loop.time())
            undo = await _apply(step, stage)
            say(f"{step.at:g} s: {step.text()}" + (f" for {step.lasts:g} s" if step.lasts is not None else ""))
            if step.lasts is not None:
                undoing.add(asyncio.create_task(_undo_later(undo, step, say=say)))
        if undoing:
            await asyncio.wait(undoing)
    finally:
        for task in undoing:
            task.cancel()


async def _apply(step: Step, stage: Stage) -> Callable[[], Awaitable[None]]:
    """Let a step happen; what is returned takes it back."""
    mounts = _mounts(step, stage.mounts)
    before = [(mount, mount.clip, {name: getattr(mount.faults, name) for name, _ in step.faults()}) for mount in mounts]
    for mount in mounts:
        for name, value in step.faults():
            setattr(mount.faults, name, value)
        if step.swap is not None:
            mount.swap(step.swap)
        if step.fps is not None:
            mount.swap(mount.clip.at_fps(step.fps))
    if step.kill:
        await stage.down()

    async def undo() -> None:
        for mount, clip, faults in before:
            for name, value in faults.items():
                setattr(mount.faults, name, value)
            if mount.clip is not clip:
                mount.swap(clip)
        if step.kill:
            await stage.up()

    return undo


async def _undo_later(undo: Callable[[], Awaitable[None]], step: Step, *, say: Callable[[str], None]) -> None:
    assert step.lasts is not None
    await asyncio.sleep(step.lasts)
    await undo()
    say(f"{step.at + step.lasts:g} s: over: {step.text()}")


def _mounts(step: Step, mounts: Mapping[str, Mount]) -> list[Mount]:
    return list(mounts.values()) if step.camera is None else [mounts[step.camera]]
