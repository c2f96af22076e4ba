"""Routes of the feed: events and messages as they come, and the last ones."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, WebSocket
from pydantic import Field
from starlette.exceptions import WebSocketException
from starlette.responses import Response, StreamingResponse
from starlette.status import WS_1001_GOING_AWAY, WS_1003_UNSUPPORTED_DATA, WS_1008_POLICY_VIOLATION

from sightline.api import RecentRecords
from sightline.server.api.served import PIPELINE, Served
from sightline.server.feed import FeedClosed, Subscription
from sightline.server.feed_records import (
    JSON_ARRAYS,
    LONGEST_PATTERN,
    MOST_PATTERNS,
    SERVER_SENT_EVENTS,
    FeedFilter,
)
from sightline.server.guard import Refused

EVENTS = f"{PIPELINE}/events"
_RETRY = b"retry: 2000\n\n"
"""What a browser waits before it connects again, in milliseconds; it also shows that the connection stands."""
Pattern = Annotated[str, Field(max_length=LONGEST_PATTERN)]
Patterns = Annotated[list[Pattern], Query(max_length=MOST_PATTERNS)]
Types = Annotated[
    list[Literal["event", "message"]],
    Query(alias="type", max_length=2, description="Events of rules, or messages of the run; both when not given."),
]


def wanted_records(
    type: Types = [],  # noqa: A002, B006  the name of the parameter; it is not changed
    stream: Annotated[Patterns, Query(description="Streams.")] = [],  # noqa: B006
    kind: Annotated[Patterns, Query(description="Kinds of events (`line`) and of messages (`stream_lost`).")] = [],  # noqa: B006
    rule: Annotated[Patterns, Query(description="Rules of events.")] = [],  # noqa: B006
    label: Annotated[Patterns, Query(description="Labels of the objects that events are about.")] = [],  # noqa: B006
    element: Annotated[Patterns, Query(description="Steps, by their ids.")] = [],  # noqa: B006
) -> FeedFilter:
    """The filter that the parameters of a request make. Each may be given several times, as a name or a glob."""
    return FeedFilter(tuple(type), tuple(stream), tuple(kind), tuple(rule), tuple(label), tuple(element))


Wanted = Annotated[FeedFilter, Depends(wanted_records)]
After = Annotated[
    str | None, Query(max_length=LONGEST_PATTERN, description="The id of a record: those behind it are sent first.")
]


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["events"])
    feed, known = served.feed, [Depends(served.known)]

    @router.get(
        EVENTS,
        summary="Stream events",
        response_class=StreamingResponse,
        responses={HTTPStatus.OK: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
        dependencies=known,
    )
    async def stream_events(
        wanted: Wanted, after: After = None, last_event_id: Annotated[str | None, Header()] = None
    ) -> StreamingResponse:
        """Stream events and messages as server-sent events, as they come.

        The type of an event is `event` or `message`, and its data the record as JSON. A client that comes again with
        `Last-Event-ID`, as browsers do by themselves, goes on where it was; the last 4,096 records are kept. An event
        `lost` says how many records the client has missed (`{"record": "lost", "count": 12}`) because it was too slow
        or too long away. A comment comes every 15 seconds.
        """
        try:
            subscription = feed.subscribe(wanted, SERVER_SENT_EVENTS, after=last_event_id or after)
        except ValueError as error:
            raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, str(error)) from error
        except FeedClosed as error:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "the server stops") from error
        headers = {"X-Accel-Buffering": "no"}
        return _SubscriptionResponse(subscription, media_type="text/event-stream", headers=headers)

    @router.get(f"{EVENTS}/recent", summary="Show the last events", response_model=RecentRecords, dependencies=known)
    async def show_recent_events(
        wanted: Wanted, limit: Annotated[int, Query(ge=1, le=1_000, description="How many at most.")] = 100
    ) -> Response:
        """Return the last events and messages, oldest first."""
        records, newest = feed.recent(wanted, limit=limit)
        joined = JSON_ARRAYS.join(records, epoch=feed.epoch, lost=0)
        return Response(b'{"records":%b,"newest":"%b"}' % (joined, newest.encode()), media_type="application/json")

    @router.websocket(f"{EVENTS}/socket")
    async def serve_events(socket: WebSocket, pipeline: str, wanted: Wanted, after: After = None) -> None:
        """Send arrays of records as they come; what a client has missed stands in them as in the stream. A client that
        says anything is hung up on.
        """
        try:
            served.known(pipeline)
            subscription = feed.subscribe(wanted, JSON_ARRAYS, after=after)
        except (Refused, ValueError) as error:
            raise WebSocketException(WS_1008_POLICY_VIOLATION, str(error)) from error
        except FeedClosed as error:
            raise WebSocketException(WS_1001_GOING_AWAY, "the server stops") from error
        try:
            await _serve(socket, subscription)
        finally:
            subscription.close()

    return router


async def _serve(socket: WebSocket, subscription: Subscription) -> None:
    """Send until the client leaves or says something, or the server stops."""
    await socket.accept()
    heard = asyncio.ensure_future(socket.receive())
    sending = asyncio.ensure_future(_send(socket, subscription))
    try:
        await asyncio.wait((heard, sending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        heard.cancel()
        sending.cancel()
        await asyncio.gather(heard, sending, return_exceptions=True)
    if not heard.cancelled() and heard.exception() is None and heard.result()["type"] == "websocket.receive":
        await socket.close(WS_1003_UNSUPPORTED_DATA, "nothing is expected here")


class _SubscriptionResponse(StreamingResponse):
    """Sends what a subscription reads, and closes it however the connection ends."""

    def __init__(self, subscription: Subscription, **options: Any) -> None:
        super().__init__(_chunks(subscription), **options)
        self._subscription = subscription

    async def __call__(self, *connection: Any) -> None:
        """Send until the client or the server goes."""
        try:
            await super().__call__(*connection)
        finally:
            self._subscription.close()


async def _chunks(subscription: Subscription) -> AsyncIterator[bytes]:
    yield _RETRY
    while True:
        try:
            chunk = await subscription.next()
        except FeedClosed:
            return
        yield chunk


async def _send(socket: WebSocket, subscription: Subscription) -> None:
    """Send until the server stops."""
    while True:
        try:
            data = await subscription.next()
        except FeedClosed:
            await socket.close(WS_1001_GOING_AWAY, "the server stops")
            return
        await socket.send_text(data.decode())
