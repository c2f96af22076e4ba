"""A process that writes frames without end, for tests that kill it: `endless.py FOLDER FIRST_FRAME COUNT STEP`.

It prints the number of each frame when the step has had it. Its clock goes on by 40 ms a frame, so that files rotate
however slow the machine is. With COUNT frames instead of none it ends by itself.
"""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import replace
from pathlib import Path

from tests.unit.sinks.images import batches

from sightline.config import parse_steps
from sightline.devices import Device
from sightline.graph import Element, Outputs, Site
from sightline.media import Stream

FRAME_NS = 40_000_000
OBJECTS = 20
DAY_NS = 1_795_564_800_000_000_000
"""Midnight of November 25, 2026."""


class FrameClock:
    """The time of the latest frame."""

    def __init__(self, number: int) -> None:
        self.number = number

    def monotonic_ns(self) -> int:
        return self.number * FRAME_NS

    def epoch_ns(self) -> int:
        return DAY_NS + self.number * FRAME_NS


def main(folder: Path, first: int, count: int | None, step: dict[str, object]) -> None:
    (element,) = parse_steps([step])
    assert isinstance(element, Element)
    clock = FrameClock(first)
    operator = element.build(Site(device=Device(), element_id="sink", outputs=Outputs(folder), clock=clock))
    (given,) = batches(1, track_ids=tuple(range(OBJECTS)))
    for number in itertools.count(first) if count is None else range(first, first + count):
        clock.number = number
        frame = replace(given.frames[0], index=number, pts_ns=clock.monotonic_ns())
        operator.process(replace(given, frames=(frame,)))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    operator.end_stream(Stream("cam"))
    operator.close()


if __name__ == "__main__":
    _, folder, first, count, step = sys.argv
    main(Path(folder), int(first), int(count) or None, json.loads(step))
