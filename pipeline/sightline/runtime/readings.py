"""Readings: what the readers of one stream count, summed up while they count it."""

from __future__ import annotations

from sightline.graph import SourceReader
from sightline.runtime.statistics import StreamStatistics


class Readings:
    """Adds the counters of one attempt's reader to the statistics of its stream, as often as it is asked to."""

    def __init__(self, reader: SourceReader, statistics: StreamStatistics) -> None:
        self._reader = reader
        self._statistics = statistics
        self._damaged_packets = statistics.damaged_packets
        self._skipped_frames = statistics.skipped_frames
        self._lost_packets = statistics.lost_packets
        self._repaired_timestamps = statistics.repaired_timestamps

    def take(self) -> None:
        """Bring the statistics up to date."""
        reader, statistics = self._reader, self._statistics
        statistics.damaged_packets = self._damaged_packets + reader.damaged_packets
        statistics.skipped_frames = self._skipped_frames + reader.skipped_frames
        statistics.lost_packets = self._lost_packets + reader.lost_packets
        statistics.repaired_timestamps = self._repaired_timestamps + reader.repaired_timestamps
        statistics.codec = reader.codec
        if reader.decoder is not None:
            statistics.decoder, statistics.decoder_reason = reader.decoder, reader.decoder_reason
