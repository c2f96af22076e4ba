"""What travels through links: parcels of work, and the marks of streams that ended, in order."""

from __future__ import annotations

from dataclasses import dataclass

from sightline.graph import Pending
from sightline.media import Batch, Frame, Stream


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
    """All frames of the stream are in front of this mark."""

    stream: Stream


Item = Parcel | StreamEnd
