"""Steps that processes of a run import: faults that happen once, whatever process they happen in."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import ClassVar, Literal

from sightline.graph import Element, Site
from sightline.graph.operator import Operator
from sightline.media import Batch

_HELD: list[bytearray] = []


class Fault(Element):
    """Fails on one frame of one stream, the first time that it comes: `marker` is the file that says so."""

    name: ClassVar[str] = "fault"

    kind: Literal["crash", "hang", "leak", "raise"]
    stream: str
    at: int
    marker: str

    def build(self, site: Site) -> Faulting:
        del site
        return Faulting(self)


class Faulting(Operator):
    def __init__(self, element: Fault) -> None:
        self._element = element

    def process(self, batch: Batch) -> Batch:
        element = self._element
        for frame in batch.frames:
            if frame.stream.name == element.stream and frame.index == element.at and _is_first(Path(element.marker)):
                _fail(element.kind)
        return batch


def _is_first(marker: Path) -> bool:
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _fail(kind: str) -> None:
    if kind == "raise":
        raise ValueError("this frame is not to my liking")
    if kind == "crash":
        os.abort()
    if kind == "hang":
        os.kill(os.getpid(), signal.SIGSTOP)
    _HELD.append(bytearray(b"\1") * 500_000_000)
    time.sleep(300)


class Unbuildable(Element):
    """Cannot be built in the worker of a stream, and in no other."""

    name: ClassVar[str] = "unbuildable"

    stream: str

    def build(self, site: Site) -> Operator:
        if self.stream in site.streams:
            raise ValueError("there is nothing to build it from")
        return Faulting(Fault(kind="raise", stream="", at=0, marker=""))


class Broken(Element):
    """A sink of results that fails on a frame."""

    name: ClassVar[str] = "broken"
    sink: ClassVar[bool] = True
    results_only: ClassVar[bool] = True

    at: int

    def build(self, site: Site) -> BrokenSink:
        del site
        return BrokenSink(self.at)


class BrokenSink(Operator):
    def __init__(self, at: int) -> None:
        self._at = at

    def process(self, batch: Batch) -> Batch:
        if any(frame.index == self._at for frame in batch.frames):
            raise ValueError("there is no more room")
        return batch
