"""Readings: what the readers of one stream count, summed up while they count it."""

from __future__ import annotations

from sightline.graph import SourceReader
from sightline.runtime.statistics import StreamStatistics

_COUNTERS = ("damaged_packets", "skipped_frames", "lost_packets", "repaired_timestamps")


class Readings:
    """Adds the counters of one attempt's reader to the statistics of its stream, as often as it is asked to.

    A reader that begins again at the front (`again`, what read it before) counts once what was counted already.
    """

    def __init__(self, reader: SourceReader, statistics: StreamStatistics, *, again: Readings | None = None) -> None:
        self._reader = reader
        self._statistics = statistics
        self.before: dict[str, int] = (
            {name: getattr(statistics, name) for name in _COUNTERS} if again is None else again.before
        )
        """What had been counted before."""

    def take(self) -> None:
        """Bring the statistics up to date."""
        reader, statistics = self._reader, self._statistics
        for name in _COUNTERS:
            counted = self.before[name] + getattr(reader, name)
            setattr(statistics, name, max(getattr(statistics, name), counted))
        statistics.codec = reader.codec
        if reader.decoder is not None:
            statistics.decoder, statistics.decoder_reason = reader.decoder, reader.decoder_reason
