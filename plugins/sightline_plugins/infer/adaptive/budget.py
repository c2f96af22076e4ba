"""The options of `every: auto`: what may be lost, and how much may be spent."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from sightline.graph.described import Described
from sightline.media.time import Duration

SECOND_NS = 1_000_000_000
_LONGEST_NS = 60 * SECOND_NS


class Budget(Described):
    """What `every: auto` may lose and spend."""

    max_loss: Annotated[float, Field(gt=0, le=0.5)] = 0.01
    """How much overlap (intersection over union) predicted boxes may lose against detected ones, in the mean of all
    frames: 0.01 costs about a point of HOTA. It is measured while the pipeline runs, and sets the interval while
    objects move."""
    max_interval: Annotated[Duration, Field(gt=0, le=_LONGEST_NS)] = SECOND_NS
    """The network runs at least this often on each stream, also when nothing moves; at most a minute."""
    sampling: Annotated[float, Field(ge=0.001, le=1)] = 0.02
    """The share of frames on which the network runs in any case, to compare what was predicted with what is found: two
    frames one after the other, evenly spread."""
    max_rate: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """Runs a second of all streams together, in the time of the streams. Those that need it most go first; each gets
    one in `max_interval` whatever the others need. Default: no limit."""
