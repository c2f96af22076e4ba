"""The operator of `search_index`: what is kept of an open track, when its vector is computed, and writing it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from sightline.errors import OutputError
from sightline.graph import Site
from sightline.graph.operator import Sink
from sightline.graph.ownership import is_foreign
from sightline.media import Batch, Frame, Stream
from sightline_plugins.delivery.tracks import vote, winner
from sightline_plugins.encode.images import encode_rgb
from sightline_plugins.search.best_crop import BestCrop, worth_of
from sightline_plugins.search.database import EncoderMark, IndexFile, TrackEntry
from sightline_plugins.search.encoders import EncoderFolder, ImageEncoder
from sightline_plugins.search.index import SearchIndex
from sightline_plugins.search.motion import Motion
from sightline_plugins.sinks.files import Degradation
from sightline_plugins.sinks.records import Attribute, attributes_of, frame_bounds

MOST_TRACKS = 512
"""With more open tracks of a stream than this, the one that was not seen for longest is ended."""
_MOST_WAITING = 1000
_LARGEST_SIDE = 256
_WRITE_NS = 1_000_000_000
_RETAIN_NS = 30_000_000_000
_JPEG_QUALITY = 85
_LATER = 4
"""After its first vector a track waits so many times as long for each further one."""


class _OpenTrack:
    """What is kept of an open track; its size does not grow with its length."""

    __slots__ = (
        "attributes",
        "computed",
        "crop",
        "due_ns",
        "first",
        "image",
        "labels",
        "last",
        "motion",
        "row",
        "updates",
        "vector",
        "wait_ns",
    )

    def __init__(self, frame: Frame, settle_ns: int) -> None:
        self.first = self.last = (frame.pts_ns, frame.capture_ns)
        self.labels: dict[str, int] = {}
        self.attributes: dict[str, dict[Attribute, int]] = {}
        self.crop = BestCrop()
        self.motion = Motion()
        self.computed = 0
        """The version of the crop that the last vector is of."""
        self.vector: npt.NDArray[np.float32] | None = None
        self.image: bytes | None = None
        self.updates = 0
        self.wait_ns = max(settle_ns, 1)
        self.due_ns = frame.pts_ns + settle_ns
        self.row: int | None = None


class Indexer(Sink):
    """Keeps the best crop of each track, encodes it, and writes it to the file of the index."""

    def __init__(self, element: SearchIndex, site: Site) -> None:
        """Raises ModelError for an encoder that cannot be opened."""
        self._element = element
        self._site = site
        files = EncoderFolder.at(element.encoder)
        self._encoder = ImageEncoder(files, warn=site.warn)
        self._folder, self._digest = str(files.folder), files.digest()
        self._path = site.outputs.path(element.path)
        self._file: IndexFile | None = None
        self._tracks: dict[Stream, dict[int, _OpenTrack]] = {}
        self._waiting: list[tuple[_OpenTrack, TrackEntry]] = []
        self._degradation = Degradation(site)
        self._written_ns = self._retained_ns = -_RETAIN_NS
        self._counts: dict[str, Counter[str]] = {}

    def consume(self, batch: Batch) -> None:
        """Follow the tracks of the batch; encode those that are due, and write what waits."""
        objects = batch.objects
        ids, labels = objects.track_id.tolist(), objects.labels()
        boxes, confidences = objects.xyxy.tolist(), objects.confidence.tolist()
        worth = worth_of(objects, min_size=self._element.min_size)
        attributes = attributes_of(objects) if objects.attributes else list(repeat(None, len(objects)))
        bounds, classes = frame_bounds(batch), self._element.classes
        for row, frame in enumerate(batch.frames):
            tracks = self._tracks.setdefault(frame.stream, {})
            first, last = bounds[row], bounds[row + 1]
            pts_ns, size_wh = frame.pts_ns, frame.size_wh
            when = (pts_ns, frame.capture_ns)
            for number in range(first, last):
                if ids[number] < 0 or (classes is not None and labels[number] not in classes):
                    continue
                track = tracks.pop(ids[number], None)
                if track is None or not 0 <= pts_ns - track.last[0] <= self._element.timeout:
                    track = self._begun(track, ids[number], frame)
                tracks[ids[number]] = track  # behind the others: in the order in which they were last seen
                track.last = when
                vote(track.labels, labels[number])
                if own := attributes[number]:
                    for name, value in own.items():
                        vote(track.attributes.setdefault(name, {}), value)
                track.motion.add(boxes[number], size_wh=size_wh, pts_ns=pts_ns)
                if track.crop.is_promising(worth[number], pts_ns=pts_ns):
                    track.crop.consider(
                        frame,
                        boxes[number],
                        confidences[number],
                        others=objects.xyxy[first:last],
                        largest_side=max(self._element.image_size, _LARGEST_SIDE),
                    )
                if pts_ns >= track.due_ns:
                    self._refresh(track, ids[number], frame.stream)
            self._end_overdue(tracks, frame)
        self._write_if_due()

    def end_stream(self, stream: Stream) -> None:
        """Encode and write the open tracks of a stream."""
        for track_id, track in self._tracks.pop(stream, {}).items():
            self._finish(track, track_id, stream)
        self._write()

    def close(self) -> None:
        """Write what waits, and close file and encoder."""
        self._write()
        if self._file is not None:
            self._file.close()
            self._file = None
        self._encoder.close()

    def totals(self) -> Mapping[str, Any]:
        """By stream: `tracks` that were written, `encoded` crops, and `lost_tracks` where there are any."""
        return {stream: dict(counts) for stream, counts in self._counts.items()}

    def _begun(self, former: _OpenTrack | None, track_id: int, frame: Frame) -> _OpenTrack:
        """Return a new track, after the one that had its id and was not seen for too long."""
        if former is not None:
            self._finish(former, track_id, frame.stream)
        return _OpenTrack(frame, self._element.settle)

    def _end_overdue(self, tracks: dict[int, _OpenTrack], frame: Frame) -> None:
        while tracks:
            track_id, track = next(iter(tracks.items()))
            if 0 <= frame.pts_ns - track.last[0] <= self._element.timeout and len(tracks) <= MOST_TRACKS:
                return
            self._finish(tracks.pop(track_id), track_id, frame.stream)

    def _refresh(self, track: _OpenTrack, track_id: int, stream: Stream) -> None:
        """Write a track that goes on, with another vector if it was seen better since."""
        track.wait_ns *= _LATER
        track.due_ns += track.wait_ns
        if track.crop.version:
            self._put(track, track_id, stream)

    def _finish(self, track: _OpenTrack, track_id: int, stream: Stream) -> None:
        """Write a track that has ended, with the vector of its best crop."""
        lasted_ns = track.last[0] - track.first[0]
        if track.crop.version and lasted_ns >= self._element.least:
            self._put(track, track_id, stream)

    def _put(self, track: _OpenTrack, track_id: int, stream: Stream) -> None:
        """Let a track wait to be written."""
        crop, element = track.crop, self._element
        counts = self._counts.setdefault(stream.name, Counter())
        self._waiting = [waiting for waiting in self._waiting if waiting[0] is not track]
        if track.vector is None or (crop.version > track.computed and track.updates < element.updates):
            self.runs += 1
            counts["encoded"] += 1
            track.updates += 1
            image = crop.image
            assert image is not None, "a track without a crop is not written"
            track.computed, track.vector = crop.version, self._encoder.encode(image)
            track.image = encode_rgb(image, suffix=".jpg", quality=_JPEG_QUALITY) if element.image_size else None
        (start_pts_ns, start_ns), (end_pts_ns, end_ns) = track.first, track.last
        entry = TrackEntry(
            pipeline=self._site.pipeline,
            stream=stream.name,
            track_id=track_id,
            label=winner(track.labels),
            confidence=crop.confidence,
            frame=crop.frame,
            start_pts_ns=start_pts_ns,
            end_pts_ns=end_pts_ns,
            start_ns=start_ns,
            end_ns=end_ns,
            xyxy=crop.xyxy,
            direction=track.motion.direction(),
            attributes={name: winner(values) for name, values in track.attributes.items()} or None,
            added_ns=self._site.clock.epoch_ns(),
            vector=track.vector,
            image=track.image,
        )
        self._waiting.append((track, entry))

    def _write_if_due(self) -> None:
        now_ns = self._site.clock.monotonic_ns()
        if now_ns - self._written_ns >= _WRITE_NS and not self._degradation.is_waiting:
            self._written_ns = now_ns
            self._write()

    def _write(self) -> None:
        """Write what waits, and keep to the limits; what cannot be written waits on, up to a limit."""
        if not self._waiting and self._file is None:
            return
        stream = self._waiting[0][1].stream if self._waiting else ""
        try:
            file = self._opened()
            if self._waiting:
                ids = file.put((track.row, entry) for track, entry in self._waiting)
                for (track, entry), row in zip(self._waiting, ids, strict=True):
                    self._counts[entry.stream]["tracks"] += track.row is None
                    track.row = row
                self._waiting = []
            self._retain(file)
        except OutputError as error:
            self._failed(error, stream)
        except sqlite3.Error as error:
            self._failed(OutputError(f"cannot write {self._path}: {error}", reason=str(error)), stream)
        else:
            self._degradation.succeeded(stream=stream)

    def _failed(self, error: OutputError, stream: str) -> None:
        self._degradation.failed(error, stream=stream)
        for _, entry in self._waiting[:-_MOST_WAITING]:
            self._counts[entry.stream]["lost_tracks"] += 1
        self._waiting = self._waiting[-_MOST_WAITING:]

    def _retain(self, file: IndexFile) -> None:
        keep, now_ns = self._element.keep, self._site.clock.monotonic_ns()
        if keep is None or now_ns - self._retained_ns < _RETAIN_NS:
            return
        self._retained_ns = now_ns
        before_ns = None if keep.age is None else self._site.clock.epoch_ns() - keep.age
        file.retain(before_ns=before_ns, size_bytes=keep.size, count=keep.count)

    def _opened(self) -> IndexFile:
        if self._file is None:
            outputs = self._site.outputs
            if outputs.may_overwrite and is_foreign(self._path):
                outputs.remove(self._path)
            outputs.prepare(self._path)
            dimensions = len(self._waiting[0][1].vector)
            self._file = IndexFile(self._path, mark=EncoderMark(self._folder, self._digest, dimensions))
            outputs.mark(self._path)
        return self._file
