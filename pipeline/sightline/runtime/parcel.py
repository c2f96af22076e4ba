"""What travels through links: parcels of work, and the marks between them, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sightline.graph import Pending
from sightline.media import Batch, Frame, Stream

if TYPE_CHECKING:
    from sightline.runtime.node import Node


@dataclass(slots=True, eq=False)
class Parcel:
    """A batch, or one still being worked on, with the monotonic times at which its frames arrived."""

    frames: tuple[Frame, ...]
    arrivals_ns: tuple[int, ...]
    work: Batch | Pending

    def batch(self) -> Batch:
        """The batch; waits for it when it is pending."""
        if not isinstance(self.work, Batch):
            self.work = self.work.result()
        return self.work


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """All frames of the stream are in front of this mark; those behind it are of another one with its name. No two
    marks of a run have a number in common.
    """

    stream: Stream
    number: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class Handover:
    """The stages end here, and others go on behind this mark. The operators of `kept` nodes go on in those, as if
    nothing had been; all others have come to their end.
    """

    kept: frozenset[Node]


Item = Parcel | StreamEnd | Handover
