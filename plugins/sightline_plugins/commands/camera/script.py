"""Scripts of a fake camera: which fault happens when."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, model_validator

from sightline.config.load import read_document
from sightline_plugins.commands.camera.clip import Clip, Faults, Mount, Seconds
from sightline_plugins.commands.camera.packets import load_clip

_OWN = frozenset({"at", "lasts", "camera"})


class Step(Faults):
    """Changes that happen at once: any attribute of `Faults`, and the options below.

    `Step(at=10, stall=True, lasts=8)` stalls after ten seconds for eight. Without `lasts` the change is permanent.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    at: Seconds
    """Time since the start of the camera."""
    lasts: Seconds | None = None
    """After this long the changes are undone."""
    camera: str | None = None
    """Which camera of several; default: all."""
    kill: bool = False
    """The server is gone as if killed, with all its cameras; after `lasts` it listens again on the same port."""
    swap: InstanceOf[Clip] | None = None
    """Another clip: other size, rate or codec."""
    fps: float | None = Field(default=None, gt=0, le=10_000)
    """The same clip at another rate."""

    @model_validator(mode="after")
    def _does_something(self) -> Step:
        if not self.model_fields_set - _OWN:
            raise ValueError("nothing happens in this step: name a fault, kill, swap or fps")
        return self

    def faults(self) -> Iterator[tuple[str, object]]:
        """The faults that it sets, and their values."""
        for name in sorted(self.model_fields_set & Faults.model_fields.keys()):
            yield name, getattr(self, name)

    def text(self) -> str:
        """A description of the changes."""
        parts = [f"{name} {value}" for name, value in self.faults()]
        parts += ["killed"] if self.kill else []
        parts += [f"another clip ({self.swap.codec}, {self.swap.fps:.3g} fps)"] if self.swap is not None else []
        parts += [f"{self.fps:g} fps"] if self.fps is not None else []
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Script:
    """Steps in the order of their times; they repeat after `repeat_seconds`."""

    steps: tuple[Step, ...]
    repeat_seconds: float | None

    @classmethod
    def of(cls, steps: Sequence[Step], *, repeat_seconds: float | None, cameras: Collection[str]) -> Script:
        """Make a script of steps in any order. Raises ValueError for unknown cameras, or if it repeats too soon."""
        for step in steps:
            if step.camera is not None and step.camera not in cameras:
                raise ValueError(f"the script names a camera {step.camera!r}; cameras: {', '.join(cameras)}")
        last = max((step.at + (step.lasts or 0) for step in steps), default=0.0)
        if repeat_seconds is not None and repeat_seconds < max(last, 0.1):
            raise ValueError(f"the script takes {last:g} s and cannot begin again after {repeat_seconds:g} s")
        return cls(tuple(sorted(steps, key=lambda step: step.at)), repeat_seconds)


class Stage(Protocol):
    """The cameras that steps change; used in its own event loop."""

    mounts: dict[str, Mount]

    async def up(self) -> None:
        """Listen."""

    async def down(self) -> None:
        """Close everything at once."""


async def perform(script: Script, stage: Stage, *, say: Callable[[str], None]) -> None:
    """Run a script until its last step is over, or without end if it repeats."""
    begin = asyncio.get_running_loop().time()
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
                undoing.add(asyncio.create_task(_undo_later(undo, step, lasts=step.lasts, say=say)))
        if undoing:
            await asyncio.wait(undoing)
    finally:
        for task in undoing:
            task.cancel()


async def _apply(step: Step, stage: Stage) -> Callable[[], Awaitable[None]]:
    """Apply a step; the function that is returned undoes it."""
    mounts = list(stage.mounts.values()) if step.camera is None else [stage.mounts[step.camera]]
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


async def _undo_later(
    undo: Callable[[], Awaitable[None]], step: Step, *, lasts: float, say: Callable[[str], None]
) -> None:
    await asyncio.sleep(lasts)
    await undo()
    say(f"{step.at + lasts:g} s: over: {step.text()}")


class FileStep(Step):
    """A step that names another clip by its file."""

    clip: str | None = None
    """Another clip: a video file, relative to the folder of the script."""


class ScriptFile(BaseModel):
    """A script as a YAML file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    steps: tuple[FileStep, ...]
    """Steps, in any order."""
    repeat: Seconds | None = None
    """Repeat everything after this long."""


def read_script(path: Path) -> tuple[list[Step], float | None]:
    """Read the steps of a script file and load their clips; returns also after how many seconds they repeat.

    Raises InvalidConfiguration with all mistakes, and StreamUnreadable when a clip cannot be used.
    """
    script = read_document(ScriptFile, path)
    steps: list[Step] = [
        step if step.clip is None else step.model_copy(update={"swap": load_clip(str(path.parent / step.clip))})
        for step in script.steps
    ]
    return steps, script.repeat
