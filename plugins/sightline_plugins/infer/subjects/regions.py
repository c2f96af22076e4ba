"""Regions of the picture as subjects: the whole of it, or the parts that were named for the stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sightline.media import Batch, Stream
from sightline_plugins.infer.pixels.placement import Region
from sightline_plugins.infer.pixels.preprocess import Preprocessing
from sightline_plugins.infer.subjects.subject import Subject

RegionsOf = Callable[[str], Sequence[Region]]


class RegionSubjects:
    """Every n-th frame of each stream, each of its regions (fractions of the picture, by the stream's name)."""

    def __init__(self, preprocessing: Preprocessing, *, regions_of: RegionsOf, every: int = 1) -> None:
        self._preprocessing = preprocessing
        self._regions_of = regions_of
        self._every = every
        self._seen: dict[Stream, int] = {}

    def of(self, batch: Batch) -> list[Subject]:
        """See `Subjects.of`."""
        return [
            Subject(row, self._preprocessing.place_fractions(region, frame.surface))
            for row, frame in enumerate(batch.frames)
            if self._is_due(frame.stream)
            for region in self._regions_of(frame.stream.name)
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
