"""Search the tracks of an index: in words, by an image, within streams, labels and times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, time, tzinfo
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from sightline.errors import ConfigurationError, ModelError
from sightline.graph.track_search import FoundTrack, SearchResult, TrackQuery
from sightline_plugins.search.database import EncoderMark, forget, names, open_index, read_mark
from sightline_plugins.search.encoders import EncoderFolder, ImageEncoder, TextEncoder, encoder_folder
from sightline_plugins.search.query import understand
from sightline_plugins.search.vectors import UNKNOWN_TIME, Mask, TrackVectors

_DETAILS = (
    "pipeline", "stream", "track_id", "label", "confidence", "frame", "start_pts_ns", "end_pts_ns", "start_ns",
    "end_ns", "x1", "y1", "x2", "y2", "direction", "attributes", "added_ns", "image",
)  # fmt: skip
_SECOND = 1_000_000_000
_DAY_SECONDS = 86_400


def search(path: str | Path, text: str = "", **options: Any) -> SearchResult:
    """Search an index once; see `TrackSearch.search` for the options beside `encoder`."""
    with TrackSearch(path, encoder=options.pop("encoder", None)) as opened:
        return opened.search(text, **options)


class TrackSearch:
    """An index that is open for searching. One thread uses it.

    `encoder` is the folder of its encoder, or its name in the store; None where it lies where the pipeline had it.
    Models are opened when they are needed first. `load` keeps all vectors in memory, for many searches; else each reads
    those that fit its filters.

    ```python
    with TrackSearch("out/tracks.db") as index:
        for track in index.search("red car leaving", count=3).tracks:
            print(track.stream, track.start_seconds, track.score)
    ```
    """

    def __init__(self, path: str | Path, *, encoder: str | Path | None = None) -> None:
        """Raises ConfigurationError for a file that is missing or no index, and for a name that is not in the store."""
        self.path = Path(path)
        self._connection = open_index(self.path)
        self._mark = read_mark(self._connection, self.path)
        self._folder = None if encoder is None else encoder_folder(encoder)
        self._files: EncoderFolder | None = None
        self._text_encoder: TextEncoder | None = None
        self._image_encoder: ImageEncoder | None = None
        self._loaded: TrackVectors | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def encoder(self) -> EncoderMark:
        """Which encoder made the vectors."""
        return self._mark

    def load(self) -> int:
        """Read all vectors into memory, anew; return how many there are."""
        self._loaded = TrackVectors.load(self._connection, dimensions=self._mark.dimensions)
        return len(self._loaded.ids)

    def understand(self, text: str, *, now: datetime | None = None, zone: tzinfo | None = None) -> TrackQuery:
        """Return what a text asks for. Raises ConfigurationError for a time that there is not."""
        connection = self._connection
        has_times = connection.execute("SELECT 1 FROM tracks WHERE start_ns IS NOT NULL LIMIT 1").fetchone() is not None
        moment = (datetime.now(UTC) if now is None else now).astimezone(zone)
        streams, labels = ([*names(connection, column)] for column in ("stream", "label"))
        try:
            return understand(text, streams=streams, labels=labels, now=moment, has_times=has_times)
        except ValueError as error:
            raise ConfigurationError(str(error)) from error

    def search(
        self,
        text: str = "",
        *,
        count: int = 10,
        like: npt.NDArray[np.uint8] | None = None,
        like_track: int | None = None,
        least_score: float | None = None,
        streams: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        now: datetime | None = None,
        zone: tzinfo | None = None,
    ) -> SearchResult:
        """Return the tracks that fit best.

        Filters are those of the text, and those given beside it, which go before. `like` is an image (height, width,
        3), RGB: tracks that look like it; `like_track` the `id` of a track: others that look like that one. With words
        and an image or a track, the mean counts. Without any, the newest tracks that fit. Tracks with a lower score
        than `least_score` are left out. `zone` is that of times in the text (default: this machine's).

        Raises ConfigurationError, ModelError for an encoder that is not there or another one, and MissingExtra.
        """
        query = self.understand(text, now=now, zone=zone)
        query = TrackQuery(
            query.words,
            query.streams if streams is None else tuple(streams),
            query.labels if labels is None else tuple(labels),
            query.since if since is None else since,
            query.until if until is None else until,
            query.daily,
            query.zone_of,
            query.direction,
        )
        vector = self._vector(query.words, like, like_track)
        if vector is None and query.daily is None:
            return self._newest(query, count=count, zone=zone)
        tracks, mask, without_time = self._fitting(query)
        if like_track is not None:
            mask &= tracks.ids != like_track
        if vector is None:
            rows = np.flatnonzero(mask)[::-1][:count]
            scores: list[float | None] = [None] * len(rows)
        else:
            rows, cosines = tracks.nearest(vector, count=count, mask=mask)
            reported = [round(float(cosine), 4) for cosine in cosines]
            if least_score is not None:
                reported = [score for score in reported if score >= least_score]
            rows, scores = rows[: len(reported)], list(reported)
        ids = map(int, tracks.ids[rows])
        found = (self.track(row, score=score, zone=zone) for row, score in zip(ids, scores, strict=True))
        known = tuple(track for track in found if track is not None)
        return SearchResult(query, int(mask.sum()), without_time, known)

    def close(self) -> None:
        """Close the file and the encoders; harmless when called again."""
        self._connection.close()
        for encoder in (self._text_encoder, self._image_encoder):
            if encoder is not None:
                encoder.close()

    def _vector(
        self, words: str, like: npt.NDArray[np.uint8] | None, like_track: int | None
    ) -> npt.NDArray[np.float32] | None:
        """The vector (D,) that is searched for; None where only filters are."""
        parts = []
        if words:
            if self._text_encoder is None:
                self._text_encoder = TextEncoder(self._encoder_files())
            parts.append(self._text_encoder.encode(words))
        if like is not None:
            if self._image_encoder is None:
                self._image_encoder = ImageEncoder(self._encoder_files())
            parts.append(self._image_encoder.encode(like))
        if like_track is not None:
            found = self._connection.execute("SELECT factor, vector FROM tracks WHERE id = ?", (like_track,)).fetchone()
            if found is None:
                raise ConfigurationError(f"there is no track with the id {like_track}: it may have been deleted")
            parts.append(np.frombuffer(found[1], np.int8).astype(np.float32) * np.float32(found[0]))
        if not parts:
            return None
        mean = np.mean(parts, axis=0)
        length = float(np.linalg.norm(mean))
        if len(mean) != self._mark.dimensions or length == 0:
            raise ModelError(f"the encoder gives vectors of {len(mean)} numbers, the index has {self._mark.dimensions}")
        return np.asarray(mean / length, np.float32)

    def _encoder_files(self) -> EncoderFolder:
        if self._files is None:
            folder = Path(self._mark.folder) if self._folder is None else self._folder
            try:
                files = EncoderFolder.at(folder)
            except ModelError as error:
                raise ModelError(
                    f"{error}; name the folder of the encoder that made {self.path} (--encoder)"
                ) from error
            if files.digest() != self._mark.digest:
                raise ModelError(
                    f"{folder} is another encoder than the one that made {self.path} ({self._mark.folder}): "
                    "their vectors cannot be compared; name the folder of that one (--encoder)"
                )
            self._files = files
        return self._files

    def _fitting(self, query: TrackQuery) -> tuple[TrackVectors, Mask, int]:
        """The tracks in memory, which of them fit (N,), and how many were left out for want of a time of day."""
        where, values = condition(query)
        tracks = self._loaded
        if tracks is None:
            tracks = TrackVectors.load(self._connection, dimensions=self._mark.dimensions, where=where, values=values)
            mask = np.ones(len(tracks.ids), np.bool_)
        else:
            mask = tracks.chosen(
                streams=query.streams,
                labels=query.labels,
                since_ns=_ns(query.since),
                until_ns=_ns(query.until),
                direction=query.direction,
            )
        if query.daily is not None and query.zone_of is not None:
            mask &= _in_part_of_day(tracks, query.daily, query.zone_of.tzinfo)
        return tracks, mask, self._without_time(query)

    def _newest(self, query: TrackQuery, *, count: int, zone: tzinfo | None) -> SearchResult:
        """The newest tracks that fit, without reading a vector."""
        where, values = condition(query)
        (fitting,) = self._connection.execute(f"SELECT count(*) FROM tracks WHERE {where}", values).fetchone()  # noqa: S608 - ours
        text = f"SELECT id FROM tracks WHERE {where} ORDER BY id DESC LIMIT ?"  # noqa: S608 - ours
        rows = self._connection.execute(text, (*values, count)).fetchall()
        found = (self.track(row, zone=zone) for (row,) in rows)
        known = tuple(track for track in found if track is not None)
        return SearchResult(query, fitting, self._without_time(query), known)

    def _without_time(self, query: TrackQuery) -> int:
        """How many tracks are left out for want of a time of day."""
        if not query.has_time:
            return 0
        text = "SELECT count(*) FROM tracks WHERE start_ns IS NULL"
        return int(self._connection.execute(text).fetchone()[0])

    def track(self, row: int, *, score: float | None = None, zone: tzinfo | None = None) -> FoundTrack | None:
        """Return what is known of the track with an `id`; None if there is none (any more)."""
        text = f"SELECT {', '.join(_DETAILS)} FROM tracks WHERE id = ?"  # noqa: S608 - our own names
        found = self._connection.execute(text, (row,)).fetchone()
        if found is None:
            return None
        known = dict(zip(_DETAILS, found, strict=True))
        return FoundTrack(
            id=row,
            score=score,
            pipeline=known["pipeline"],
            stream=known["stream"],
            track_id=known["track_id"],
            label=known["label"],
            confidence=known["confidence"],
            frame=known["frame"],
            start_seconds=known["start_pts_ns"] / _SECOND,
            end_seconds=known["end_pts_ns"] / _SECOND,
            start=_moment(known["start_ns"], zone),
            end=_moment(known["end_ns"], zone),
            added=datetime.fromtimestamp(known["added_ns"] / _SECOND, UTC).astimezone(zone),
            xyxy=(known["x1"], known["y1"], known["x2"], known["y2"]),
            direction=known["direction"],
            attributes=json.loads(known["attributes"]) if known["attributes"] else {},
            image=known["image"],
        )


def condition(query: TrackQuery) -> tuple[str, tuple[Any, ...]]:
    """Return the filters of a query, but for parts of the day, as a condition of SQL and its values."""
    parts, values = ["1"], list[Any]()
    for column, chosen in (("stream", query.streams), ("label", query.labels)):
        if chosen is not None:
            parts.append(f"{column} IN ({', '.join('?' * len(chosen))})")
            values += chosen
    if query.direction is not None:
        parts.append("(direction IS NULL OR direction = ?)")
        values.append(query.direction)
    if query.since is not None:
        parts.append("end_ns >= ?")
        values.append(_ns(query.since))
    if query.until is not None:
        parts.append("start_ns <= ?")
        values.append(_ns(query.until))
    return " AND ".join(parts), tuple(values)


def forget_tracks(path: str | Path, query: TrackQuery, *, ids: Sequence[int] | None = None) -> int:
    """Delete the tracks that fit the filters of a query, or those with these ids, for good; return how many.

    Words and directions do not choose what is deleted: they are no certainty. Raises ConfigurationError for a query
    without a filter, and OutputError.
    """
    if ids is not None:
        return forget(Path(path), where=f"id IN ({', '.join('?' * len(ids))})", values=tuple(ids))
    where, values = condition(query)
    if where == "1" or query.words or query.daily is not None or query.direction is not None:
        raise ConfigurationError("say what to forget by stream, label and day alone, or by the ids of tracks")
    return forget(Path(path), where=where, values=values)


def _in_part_of_day(tracks: TrackVectors, daily: tuple[time, time], zone: tzinfo | None) -> Mask:
    """Which tracks (N,) began within a part of the day. The offset of the zone is looked up for each hour."""
    known = tracks.start_ns != UNKNOWN_TIME
    seconds = np.where(known, tracks.start_ns, 0) // _SECOND
    hours, inverse = np.unique(seconds // 3600, return_inverse=True)
    offsets = [_offset(int(hour) * 3600, zone) for hour in hours]
    local = (seconds + np.array(offsets, np.int64)[inverse]) % _DAY_SECONDS if len(hours) else seconds
    begins, ends = (clock.hour * 3600 + clock.minute * 60 for clock in daily)
    inside = (local >= begins) & (local < ends) if begins < ends else (local >= begins) | (local < ends)
    return np.asarray(known & inside)


def _offset(seconds: int, zone: tzinfo | None) -> int:
    offset = datetime.fromtimestamp(seconds, UTC).astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _ns(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.timestamp()) * _SECOND + moment.microsecond * 1000


def _moment(nanoseconds: int | None, zone: tzinfo | None) -> datetime | None:
    return None if nanoseconds is None else datetime.fromtimestamp(nanoseconds / _SECOND, UTC).astimezone(zone)
