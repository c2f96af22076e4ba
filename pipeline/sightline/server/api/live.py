"""The route of live video."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, WebSocket
from starlette.exceptions import WebSocketException
from starlette.status import WS_1008_POLICY_VIOLATION

from sightline.server.api.served import Served
from sightline.server.api.streams import STREAM, check_stream
from sightline.server.guard import Refused

Plays = Annotated[
    list[Literal["h264", "h265"]],
    Query(max_length=2, description="Codecs that the client decodes; without any it gets JPEG."),
]


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["streams"])

    @router.websocket(f"{STREAM}/live")
    async def watch_stream(socket: WebSocket, pipeline: str, stream: str, plays: Plays = []) -> None:  # noqa: B006
        """Send live video with what was found on each frame."""
        try:
            served.known(pipeline)
            check_stream(served, stream)
        except Refused as error:
            raise WebSocketException(WS_1008_POLICY_VIOLATION, error.detail) from error
        if served.live is None:
            raise WebSocketException(WS_1008_POLICY_VIOLATION, "no installed package offers live video")
        await served.live.watch(socket, stream, plays)

    return router
