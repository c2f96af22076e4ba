"""Packets that are in a decoder: each image that comes out is paired with its packet, by the timestamp it carries."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from av.packet import Packet
from av.video.stream import VideoStream

_FIRST_MARK = -(2**63) + 1
"""Packets without a timestamp carry marks that no timestamp is."""
LONGEST_STAY = 64
"""A packet whose image has not come out when so many others have gone in gives none; no codec waits for more."""


@dataclass(frozen=True, slots=True)
class Submission:
    """What a packet says of its image; `number` is its own where encoded images are kept."""

    pts: int | None
    dts: int | None
    is_discard: bool
    number: int | None

    @classmethod
    def of(cls, packet: Packet[VideoStream]) -> Submission:
        """What this packet says."""
        number = packet.opaque if isinstance(packet.opaque, int) else None
        return cls(packet.pts, packet.dts, packet.is_discard, number)


class Submitted:
    """The packets that are in one decoder.

    `reorder_depth` is by how many packets FFmpeg's decoder is behind: images without a presentation time are timed by
    the decoding time of the packet that went in when FFmpeg's comes out, so that both decoders time them alike.
    """

    def __init__(self, *, reorder_depth: int) -> None:
        self._depth = reorder_depth
        self._inside: dict[int, deque[tuple[int, Submission]]] = {}
        self._decoding_times: deque[int | None] = deque(maxlen=2 * LONGEST_STAY)
        self._put = 0
        self._highest: int | None = None
        self.is_reordered = False
        """Whether a packet came with a lower presentation time than one before it: there are B-frames."""
        self.without_image = 0
        """How many packets in a row gave no image."""

    def put(self, submission: Submission) -> int:
        """A packet goes in; returns the timestamp that it is to carry."""
        pts = submission.pts
        mark = _FIRST_MARK + self._put if pts is None else pts
        self._inside.setdefault(mark, deque()).append((self._put, submission))
        self._decoding_times.append(submission.dts)
        self._put += 1
        self.without_image += 1
        if pts is not None:
            self.is_reordered |= self._highest is not None and pts < self._highest
            self._highest = pts if self._highest is None else max(pts, self._highest)
        return mark

    def take(self, timestamp: int) -> Submission:
        """An image came out with that timestamp; one that no packet carried says nothing of its packet."""
        self.without_image = 0
        dts = self._decoding_times[self._depth] if self._depth < len(self._decoding_times) else None
        if self._decoding_times:
            self._decoding_times.popleft()
        known = self._inside.get(timestamp)
        if known is None:
            return Submission(None, dts, is_discard=False, number=None)
        _, found = known.popleft()
        if not known:
            del self._inside[timestamp]
        return replace(found, dts=dts) if found.pts is None else found

    def overdue(self) -> int:
        """How many packets have given no image although so many others went in after them; they are forgotten."""
        if self._put % LONGEST_STAY:
            return 0
        late = [mark for mark, waiting in self._inside.items() if waiting[0][0] < self._put - LONGEST_STAY]
        return sum(len(self._inside.pop(mark)) for mark in late)

    def left(self) -> int:
        """How many packets have given no image, when all images are out."""
        return sum(len(waiting) for waiting in self._inside.values())
