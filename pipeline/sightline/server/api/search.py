"""Routes of the search for tracks: in words, by a track, by an image, and what else shows a track."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import Response

from sightline.api import EventClip, EventRecord, SearchAnswer, TrackDetails, TrackFound, Understood
from sightline.errors import ConfigurationError
from sightline.graph.track_search import FoundTrack, SearchResult, TrackQuery, TrackQuestion
from sightline.media.time import format_time
from sightline.server.answers import Threads
from sightline.server.api.events import Patterns
from sightline.server.api.recordings import info_of
from sightline.server.api.served import PIPELINE, Operator, Served
from sightline.server.api.turns import From, To, Turns, seconds_of
from sightline.server.feed_records import FeedFilter
from sightline.server.guard import Refused
from sightline.server.history_search import RecordQuery
from sightline.server.limits import MOST_BODY_BYTES
from sightline.server.track_search import SearchStep

SEARCH = f"{PIPELINE}/search"
TRACK = f"{SEARCH}/tracks/{{track}}"
MOST_FOUND = 200
LONGEST_TEXT = 300
_MOST_WAITING = 16
_MOST_EVENTS = 20
_MOST_CLIPS = 4
_SLACK_MS = 120_000
"""How far the time at which something was reported may be from that of a track."""
_SLACK_NS = 1_000_000_000
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/webp", "image/bmp")
_KEPT = {"Cache-Control": "private, max-age=60"}

StepId = Annotated[
    str | None,
    Query(max_length=128, description="The id of the step whose index is searched; the first one when not given."),
]
TrackRow = Annotated[int, Path(ge=1, le=2**53, description="The `id` of a track that was found.")]


def asked_tracks(
    text: Annotated[
        str,
        Query(
            max_length=LONGEST_TEXT,
            description="What is looked for, in words. Names of streams, labels, times and directions in it become"
            " filters.",
        ),
    ] = "",
    like: Annotated[
        int | None, Query(ge=1, le=2**53, description="The `id` of a track: others that look like it are found.")
    ] = None,
    stream: Annotated[Patterns, Query(description="Streams, by name; all when not given.")] = [],  # noqa: B006
    label: Annotated[Patterns, Query(description="Labels; all when not given.")] = [],  # noqa: B006
    start: From = None,
    to: To = None,
    timezone: Annotated[
        str | None,
        Query(max_length=64, description="Of times in the text, such as `Europe/Berlin`; else the server's."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MOST_FOUND, description="How many tracks at most.")] = 20,
    threshold: Annotated[
        float | None, Query(ge=-1, le=1, description="Tracks with a lower score are left out.")
    ] = None,
) -> TrackQuestion:
    """The question that the parameters of a request make. Raises Refused."""
    try:
        zone = None if timezone is None else ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        reason = "there is no such zone; write it like Europe/Berlin"
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, f"timezone: {reason}") from error
    return TrackQuestion(
        text=text,
        like_track=like,
        streams=tuple(stream) or None,
        labels=tuple(label) or None,
        since=_moment(start),
        until=_moment(to),
        zone=zone,
        count=limit,
        least_score=threshold,
    )


Asked = Annotated[TrackQuestion, Depends(asked_tracks)]


@dataclass(frozen=True, slots=True)
class _Routes:
    """What the routes do, in threads."""

    served: Served

    def step(self, name: str | None) -> SearchStep:
        """The step that is asked about. Raises Refused."""
        steps = self.served.tracks.steps()
        for step in steps:
            if name in (None, step.id):
                return step
        text = "no step of the pipeline keeps tracks to be found: add `search_index` (see the guide to searching)"
        if steps:
            text = f"there is no step {name!r} that keeps tracks; there is {', '.join(one.id for one in steps)}"
        raise Refused(HTTPStatus.NOT_FOUND, text)

    def search(self, name: str | None, question: TrackQuestion) -> SearchAnswer:
        """Return the tracks that fit best."""
        step = self.step(name)
        try:
            found = step.finder.find(question)
        except ConfigurationError as error:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        return self._answer(step, found)

    def found(self, name: str | None, row: int) -> tuple[SearchStep, FoundTrack]:
        """Return a track of the index. Raises Refused."""
        step = self.step(name)
        track = step.finder.track(row)
        if track is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is no track {row}: it may have been deleted")
        return step, track

    def image(self, name: str | None, row: int) -> bytes:
        """Return the image of a track as JPEG. Raises Refused."""
        step, track = self.found(name, row)
        if not step.shows_images:
            text = f"images of {step.id} are withheld: a step that hides something comes behind it or beside it"
            raise Refused(HTTPStatus.NOT_FOUND, text)
        if track.image is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no image of this track: `image_size` of the step is 0")
        return track.image

    def details(self, name: str | None, row: int) -> TrackDetails:
        """Return a track with its recordings and events."""
        step, track = self.found(name, row)
        span = _span_ms(track)
        return TrackDetails(
            track=self._track(step, track), clips=self._clips(track, span), events=self._events(track, span)
        )

    def _clips(self, track: FoundTrack, span_ms: tuple[int, int]) -> list[EventClip]:
        first_ns, last_ns = _span_ns(track)
        found = self.served.recordings.find(start_ms=span_ms[0], end_ms=span_ms[1])
        return [
            EventClip(recording=info_of(one), offset_seconds=max(0, first_ns - one.first_pts_ns) / 1e9)
            for one in found
            if one.stream == track.stream
            and one.first_pts_ns <= last_ns
            and (one.last_pts_ns is None or one.last_pts_ns >= first_ns)
        ][:_MOST_CLIPS]

    def _events(self, track: FoundTrack, span_ms: tuple[int, int]) -> list[EventRecord]:
        first_ns, last_ns = _span_ns(track)
        wanted = RecordQuery(FeedFilter(types=("event",)), attributes=(f"track_id={track.track_id}",))
        rows = self.served.history.store.records(
            wanted, start_ms=span_ms[0], end_ms=span_ms[1], after=0, limit=1000, newest_first=True
        )
        records = (msgspec.json.decode(body) for _, body in rows)
        return [
            EventRecord.model_validate(one)
            for one in records
            if one["stream"] == track.stream and first_ns - _SLACK_NS <= one["pts_ns"] <= last_ns + _SLACK_NS
        ][:_MOST_EVENTS]

    def _answer(self, step: SearchStep, found: SearchResult) -> SearchAnswer:
        return SearchAnswer(
            step=step.id,
            understood=_understood(found.query),
            fitting=found.fitting,
            without_time=found.without_time,
            images_withheld=not step.shows_images and any(one.image is not None for one in found.tracks),
            tracks=[self._track(step, one) for one in found.tracks],
        )

    def _track(self, step: SearchStep, track: FoundTrack) -> TrackFound:
        address = SEARCH.format(pipeline=quote(self.served.name, safe=""))
        shows = step.shows_images and track.image is not None
        return TrackFound(
            id=track.id,
            score=track.score,
            stream=track.stream,
            track_id=track.track_id,
            label=track.label,
            attributes=dict(track.attributes),
            confidence=round(track.confidence, 3),
            start=_time(track.start),
            end=_time(track.end),
            start_seconds=track.start_seconds,
            end_seconds=track.end_seconds,
            frame=track.frame,
            box=track.xyxy,
            direction=track.direction,
            image=f"{address}/tracks/{track.id}/image.jpg?step={quote(step.id, safe='')}" if shows else None,
        )


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["search"], dependencies=[Depends(served.known)])
    turns, threads, routes = Turns(most_waiting=_MOST_WAITING), Threads(), _Routes(served)

    @router.get(SEARCH, summary="Find tracks in words")
    async def search_tracks(question: Asked, step: StepId = None) -> SearchAnswer:
        """Return the tracks of the step `search_index` that fit a text best, or look like a track, within filters; the
        newest that fit the filters without either. A filter that is given goes before that of the text. Searches take
        turns, and a quarter of a core at most.
        """
        return await turns.ask(partial(routes.search, step, question))

    @router.post(
        SEARCH,
        summary="Find tracks that look like an image",
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {name: {"schema": {"type": "string", "format": "binary"}} for name in _IMAGE_TYPES},
            }
        },
    )
    async def search_tracks_by_image(
        request: Request, question: Asked, actor: Operator, step: StepId = None
    ) -> SearchAnswer:
        """Return the tracks that look like the image in the body (JPEG, PNG, WebP or BMP, of 1 MiB at most), which is
        not kept. With a text, both count.
        """
        del actor
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in _IMAGE_TYPES:
            text = f"send an image as {', '.join(_IMAGE_TYPES)}, of {MOST_BODY_BYTES >> 20} MiB at most"
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, text)
        body = await request.body()
        return await turns.ask(partial(routes.search, step, replace(question, like_image=body)))

    @router.get(TRACK, summary="Show a track that was found")
    async def show_found_track(track: TrackRow, step: StepId = None) -> TrackDetails:
        """Return a track with the recordings that have some of it, and the events that are about it."""
        return await turns.ask(partial(routes.details, step, track))

    @router.get(
        f"{TRACK}/image.jpg",
        summary="Show the image of a track",
        response_class=Response,
        responses={HTTPStatus.OK: {"content": {"image/jpeg": {}}}},
    )
    async def show_track_image(track: TrackRow, step: StepId = None) -> Response:
        """Return the best crop of a track as JPEG. Images that a later step would have changed to hide something
        (`privacy`) are withheld.
        """
        jpeg = await threads.run(partial(routes.image, step, track))
        assert jpeg is not None
        return Response(jpeg, media_type="image/jpeg", headers=_KEPT)

    return router


def _understood(query: TrackQuery) -> Understood:
    return Understood(
        words=query.words,
        streams=None if query.streams is None else list(query.streams),
        labels=None if query.labels is None else list(query.labels),
        since=None if query.since is None else query.since.isoformat(),
        until=None if query.until is None else query.until.isoformat(),
        daily=None if query.daily is None else [clock.isoformat("minutes") for clock in query.daily],
        direction=query.direction,
        text=query.told(),
    )


def _moment(given: datetime | None) -> datetime | None:
    seconds = seconds_of(given)
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(int(moment.timestamp() * 1000) * 1_000_000)


def _span_ns(track: FoundTrack) -> tuple[int, int]:
    return int(track.start_seconds * 1e9), int(track.end_seconds * 1e9)


def _span_ms(track: FoundTrack) -> tuple[int, int]:
    """Within which time of day what shows a track was reported."""
    added_ms = int(track.added.timestamp() * 1000)
    lasted_ms = int((track.end_seconds - track.start_seconds) * 1000)
    begin = added_ms - lasted_ms if track.start is None else min(int(track.start.timestamp() * 1000), added_ms)
    return begin - _SLACK_MS, added_ms + _SLACK_MS
