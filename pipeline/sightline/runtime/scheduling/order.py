"""The order in which the frames of a recorded run entered its first step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from sightline.media import Frame, Stream


class _Arrived(Protocol):
    @property
    def frame(self) -> Frame: ...


_Arrival = TypeVar("_Arrival", bound=_Arrived)
_Arrival_co = TypeVar("_Arrival_co", bound=_Arrived, covariant=True)


class _Waiting(Protocol[_Arrival_co]):
    """The end of a link at which frames of one stream arrive."""

    @property
    def is_exhausted(self) -> bool: ...

    def oldest(self) -> _Arrival_co | None: ...

    def take(self) -> _Arrival_co: ...


class BatchOrder:
    """Forms the batches of a recording again, frame by frame as they arrive. For one thread.

    `batches` names the frames of each, by stream and index. What does not arrive, because the stream has ended or is
    further on, is left out of its batch.
    """

    def __init__(self, batches: Sequence[Sequence[tuple[str, int]]]) -> None:
        self._batches = [list(batch) for batch in batches if batch]
        self._batch = self._row = 0

    @property
    def is_over(self) -> bool:
        """Whether all batches have been formed."""
        return self._batch >= len(self._batches)

    def fill(self, taken: list[_Arrival], links: Mapping[Stream, _Waiting[_Arrival]]) -> bool:
        """Move frames from the links to a batch; return whether that is complete and leaves. The next call begins the
        next one.
        """
        by_name = {stream.name: link for stream, link in links.items()}
        while not self.is_over:
            rows = self._batches[self._batch]
            while self._row < len(rows):
                name, index = rows[self._row]
                link = by_name.get(name)
                if link is not None and not link.is_exhausted:
                    oldest = link.oldest()
                    if oldest is None:
                        return False
                    if oldest.frame.index <= index:
                        taken.append(link.take())
                    if oldest.frame.index < index:
                        continue
                self._row += 1
            self._batch, self._row = self._batch + 1, 0
            if taken:
                return True
        return False
