"""A described fleet of machines: how many streams it has room for, and how many machines are needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from sightline.graph.described import Described
from sightline.graph.fields import Size
from sightline_plugins.commands.plan.capacity import Figures


class Machine(Described):
    """One kind of machine."""

    cores: Annotated[int, Field(ge=1, le=4096)]
    """Cores that the pipeline may use, counted as this machine counts its own."""
    memory: Annotated[Size, Field(gt=0)]
    """Memory that is free for it."""
    count: Annotated[int, Field(ge=0)] | None = None
    """How many there are; as many as are needed when not given."""
    speed: Annotated[float, Field(gt=0, le=100)] = 1.0
    """What one of its cores does in the time in which one of this machine's does 1."""

    def streams(self, figures: Figures, *, headroom: float) -> int:
        """How many streams fit on one of them."""
        return figures.streams(headroom=headroom, cores=self.cores * self.speed, memory_bytes=self.memory)


class Fleet(Described):
    """The file of `--fleet`: machines by name, and how many streams there are.

    ```yaml
    streams: 300
    machines:
      server: {cores: 32, memory: 60GB, count: 2}
      edge: {cores: 4, memory: 6GB, speed: 0.6}
    ```
    """

    streams: Annotated[int, Field(ge=1)]
    """How many streams are to run."""
    machines: Annotated[Mapping[str, Machine], Field(min_length=1)]
    """Kinds of machines by name, those that are filled first first."""


@dataclass(frozen=True, slots=True)
class Share:
    """How many machines of a kind are used, for how many streams; `each` is how many fit on one."""

    name: str
    each: int
    machines: int
    streams: int


def shares(fleet: Fleet, figures: Figures, *, headroom: float) -> tuple[list[Share], int]:
    """Fill machines kind by kind; the number of streams for which there is no place is returned as well."""
    left, filled = fleet.streams, []
    for name, machine in fleet.machines.items():
        each = machine.streams(figures, headroom=headroom)
        needed = math.ceil(left / each) if each else 0
        used = needed if machine.count is None else min(needed, machine.count)
        taken = min(left, used * each)
        filled.append(Share(name, each, used, taken))
        left -= taken
    return filled, left
