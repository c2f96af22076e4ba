"""What of a batch is sent: objects by label, events by rule, frames by rate."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from sightline.media import Batch, Event, Stream
from sightline.media.frame import NANOSECONDS
from sightline_plugins.rules.names import is_of_rule

_MOST_TRACKS = 4_096
"""Tracks of a stream whose labels are remembered; the one that was not seen for longest is forgotten."""


class Filter:
    """Leaves objects of other labels, and events of other rules or about such objects, out of batches.

    An event about a track that is not on its frame (one that has left) goes by the label that the track had.
    """

    def __init__(self, *, labels: Sequence[str] | None = None, rules: Sequence[str] | None = None) -> None:
        self._labels = None if labels is None else frozenset(labels)
        self._rules = rules
        self._left_out: dict[Stream, dict[int, None]] = {}

    def of(self, batch: Batch) -> Batch:
        """Return the part of a batch that is sent."""
        events = batch.events
        if self._rules is not None and events:
            events = tuple(event for event in events if any(is_of_rule(event, rule) for rule in self._rules))
        if self._labels is not None:
            wanted = [label in self._labels for label in batch.objects.labels()]
            if self._left_out or not all(wanted):
                events = tuple(self._events(batch, events, wanted=wanted))
                batch = batch.with_objects(batch.objects.select(np.array(wanted, np.bool_)))
        return batch if len(events) == len(batch.events) else dataclasses.replace(batch, events=events)

    def end(self, stream: Stream) -> None:
        """Forget the tracks of a stream."""
        self._left_out.pop(stream, None)

    def _events(self, batch: Batch, events: Sequence[Event], *, wanted: Sequence[bool]) -> Iterator[Event]:
        """Yield the events that are about wanted objects, or about none."""
        objects = batch.objects
        rows, tracks = objects.frame.tolist(), objects.track_id.tolist()
        streams = [frame.stream for frame in batch.frames]
        seen = 0
        for event in events:
            while seen < len(rows) and rows[seen] <= event.frame:
                self._see(streams[rows[seen]], tracks[seen], is_wanted=wanted[seen])
                seen += 1
            if event.data.get("track_id") not in self._left_out.get(streams[event.frame], ()):
                yield event
        for index in range(seen, len(rows)):
            self._see(streams[rows[index]], tracks[index], is_wanted=wanted[index])

    def _see(self, stream: Stream, track: int, *, is_wanted: bool) -> None:
        if is_wanted:
            if stream in self._left_out:
                self._left_out[stream].pop(track, None)
        elif track >= 0:
            tracks = self._left_out.setdefault(stream, {})
            tracks.pop(track, None)
            tracks[track] = None
            if len(tracks) > _MOST_TRACKS:
                del tracks[next(iter(tracks))]


class RateLimit:
    """Says which frames are sent so that no more than so many records a second of a stream are, by its own time."""

    def __init__(self, max_rate: float | None) -> None:
        self._gap_ns = None if max_rate is None else NANOSECONDS / max_rate
        self._streams: dict[Stream, tuple[int, float]] = {}

    def allows(self, stream: Stream, *, now_ns: int, records: int = 1) -> bool:
        """Return whether a frame with so many records is sent; if so they are counted."""
        if self._gap_ns is None:
            return True
        last_ns, due_ns = self._streams.get(stream, (now_ns, now_ns))
        if now_ns < last_ns:
            due_ns = now_ns  # the stream's time went back
        is_due = now_ns >= due_ns
        if is_due:
            # A frame that comes a little late does not move the ones after it.
            start_ns = due_ns if now_ns - due_ns < self._gap_ns else now_ns
            due_ns = start_ns + records * self._gap_ns
        self._streams[stream] = (now_ns, due_ns)
        return is_due

    def end(self, stream: Stream) -> None:
        """Forget a stream."""
        self._streams.pop(stream, None)
