"""What all kinds of source share that can be live."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sightline.graph import SourceElement
from sightline.media.time import Duration

Damaged = Literal["keep", "skip"]
STALL_NS = 5_000_000_000
_SHORTEST_STALL_NS = 200_000_000


class LiveOptions(SourceElement):
    """What all sources share that can be live: how long they may be silent, and what becomes of damaged images."""

    stall: Annotated[Duration, Field(ge=_SHORTEST_STALL_NS)] = STALL_NS
    """A live stream that is silent for this long counts as stalled, and is connected to anew; never less than three of
    its own frame intervals, so slow cameras need nothing here."""
    give_up: Annotated[Duration, Field(gt=0)] | None = None
    """A live stream that showed nothing for this long is given up; by default it is tried again for ever."""
    damaged: Damaged = "keep"
    """What becomes of frames of a live stream that are not whole, from a loss to the next whole key frame: `keep`
    hands them on, marked and counted as `damaged`; `skip` drops them, counted."""

    @property
    def stall_ns(self) -> int | None:
        """`stall` where it is live."""
        return self.stall if self.live else None

    @property
    def gives_up_ns(self) -> int | None:
        """`give_up`."""
        return self.give_up

    @property
    def skips_damaged(self) -> bool:
        """Whether `damaged` is `skip` and it is live."""
        return self.live and self.damaged == "skip"
