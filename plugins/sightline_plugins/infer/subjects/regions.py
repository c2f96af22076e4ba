"""Parts of the picture as subjects: the whole of it, or the regions that were named for the stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sightline.media import Batch, Frame, Stream
from sightline_plugins.infer.subjects.subject import Subject
from sightline_plugins.pixels.placement import Placement, Region
from sightline_plugins.pixels.preprocess import Preprocessing

PlacementsOf = Callable[[Frame], Sequence[Placement]]
"""The parts of a frame's picture, and where each lies in the network's input."""


class PartSubjects:
    """Every n-th frame of each stream, each part of its picture."""

    def __init__(self, placements_of: PlacementsOf, *, every: int = 1) -> None:
        self._placements_of = placements_of
        self._every = every
        self._seen: dict[Stream, int] = {}

    def of(self, batch: Batch) -> list[Subject]:
        """See `Subjects.of`."""
        return [
            Subject(row, placement)
            for row, frame in enumerate(batch.frames)
            if self._is_due(frame.stream)
            for placement in self._placements_of(frame)
        ]

    def end_stream(self, stream: Stream) -> None:
        """Forget how many frames the stream had."""
        self._seen.pop(stream, None)

    def _is_due(self, stream: Stream) -> bool:
        if self._every == 1:
            return True
        number = self._seen.get(stream, 0)
        self._seen[stream] = number + 1
        return number % self._every == 0


def region_placements(preprocessing: Preprocessing, *, regions_of: Callable[[str], Sequence[Region]]) -> PlacementsOf:
    """The regions (fractions of the picture) that `regions_of` names for a stream."""

    def placements_of(frame: Frame) -> list[Placement]:
        return [preprocessing.place_fractions(region, frame.surface) for region in regions_of(frame.stream.name)]

    return placements_of
