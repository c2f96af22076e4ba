"""Options that all live sources share."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from sightline.graph import SourceElement
from sightline.media.time import Duration

Damaged = Literal["keep", "skip"]
STALL_NS = 5_000_000_000
_SHORTEST_STALL_NS = 200_000_000


class LiveOptions(SourceElement):
    """Options of sources that can be live: limits of silence and of reconnecting, and the fate of damaged frames."""

    # The published YAML format also writes `stall`; no other option has a second spelling (decision 25).
    stall_timeout: Annotated[
        Duration, Field(ge=_SHORTEST_STALL_NS, validation_alias=AliasChoices("stall_timeout", "stall"))
    ] = STALL_NS
    """Reconnect when a live stream delivers no data for this long; never less than three of its own frame intervals, so
    slow cameras need no other value."""
    max_reconnect_time: Annotated[Duration, Field(gt=0)] | None = None
    """Let a live stream fail when it delivers no frame for this long; by default it reconnects without end."""
    damaged: Damaged = "keep"
    """Frames of a live stream decoded from incomplete data, from a loss to the next intact key frame: `keep` passes
    them on, marked and counted as `damaged`; `skip` drops and counts them."""

    @property
    def stall_ns(self) -> int | None:
        """`stall_timeout` where it is live."""
        return self.stall_timeout if self.live else None

    @property
    def gives_up_ns(self) -> int | None:
        """`max_reconnect_time`."""
        return self.max_reconnect_time

    @property
    def skips_damaged(self) -> bool:
        """Whether `damaged` is `skip` and it is live."""
        return self.live and self.damaged == "skip"
