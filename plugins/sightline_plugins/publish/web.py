"""What `publish` serves to browsers: a page with all streams, a WebSocket for each player, and HLS."""

from __future__ import annotations

import asyncio
import json
import re
import stat
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from sightline.server.pages import page_file
from sightline_plugins.publish.broadcast import Format, Hub, Image, TooManyViewers, Viewer
from sightline_plugins.publish.fragments import codec_string, fragment, start_of_file
from sightline_plugins.rtsp.payloads import Codec

_FILES = {"/": "page.html", "/player.js": "player.js", "/page.css": "page.css"}
_HLS_KINDS = {".m3u8": "application/vnd.apple.mpegurl", ".m4s": "video/iso.segment", ".mp4": "video/mp4"}
_HLS_NAME = re.compile(r"(?P<stem>.+?)(?:-\d+\.m4s|-start-\d+\.mp4|\.m3u8)")
_DECLARED_NS = 500_000_000
"""Declared duration of every image, because the next one's time is not known yet. Players that see a gap of twice as
much wait for a key frame."""
_GOING_AWAY, _UNSUPPORTED, _TRY_LATER = 1001, 1003, 1013

Playlist = Callable[[str], Path | None]
"""Returns the playlist that is written for a stream; None when there is none."""


def application_of(hub: Hub, *, playlist: Playlist) -> Starlette:
    """Make the application that shows the streams of a hub; to be called in one event loop, behind access control."""
    pages = [Route(path, partial(_answer_file, name)) for path, name in _FILES.items()]
    return Starlette(
        routes=[
            *pages,
            Route("/streams.json", partial(_answer_names, hub)),
            Route("/hls/{stream}/{name}", partial(_answer_hls, playlist)),
            WebSocketRoute("/live/{stream}", partial(_watch, hub)),
        ]
    )


async def _answer_file(name: str, request: Request) -> Response:
    del request
    return page_file(name, package=__package__)


async def _answer_names(hub: Hub, request: Request) -> Response:
    del request
    return JSONResponse(hub.names())


async def _answer_hls(playlist: Playlist, request: Request) -> Response:
    """Answer with the playlist of a stream, or a file that it names."""
    path, name = playlist(request.path_params["stream"]), request.path_params["name"]
    match = _HLS_NAME.fullmatch(name)
    if path is not None and match is not None and match["stem"] == path.stem and _is_file(path.with_name(name)):
        return FileResponse(path.with_name(name), media_type=_HLS_KINDS[Path(name).suffix])
    return PlainTextResponse("nothing here\n", HTTPStatus.NOT_FOUND)


def _is_file(path: Path) -> bool:
    """Whether a plain file lies at a path, and no link."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:  # also of a name that no file can have
        return False


async def _watch(hub: Hub, socket: WebSocket) -> None:
    """Play a stream to one player until either goes away."""
    broadcast = hub.get(socket.path_params["stream"])
    if broadcast is None:
        await socket.send_denial_response(PlainTextResponse("no such stream\n", HTTPStatus.NOT_FOUND))
        return
    await socket.accept()
    try:
        async with Viewer(broadcast) as viewer:
            await until_gone(socket, _play(viewer, socket))
    except TooManyViewers:
        await socket.close(_TRY_LATER, "too many viewers")


async def until_gone(
    socket: WebSocket, play: Coroutine[Any, Any, None], *, hear: Callable[[str], None] = lambda _: None
) -> None:
    """Play until that ends, or the player goes away; `hear` gets what it says."""
    playing = asyncio.ensure_future(play)
    listening = asyncio.ensure_future(_listen(socket, hear))
    try:
        await asyncio.wait((playing, listening), return_when=asyncio.FIRST_COMPLETED)
        if playing.done():
            with suppress(WebSocketDisconnect):
                playing.result()
    finally:
        for task in (playing, listening):
            task.cancel()
        await asyncio.gather(playing, listening, return_exceptions=True)


async def _listen(socket: WebSocket, hear: Callable[[str], None]) -> None:
    """Hear what the player says until it goes away."""
    while (message := await socket.receive())["type"] != "websocket.disconnect":
        hear(message.get("text") or "")


async def _play(viewer: Viewer[Image], socket: WebSocket) -> None:
    current: Format | None = None
    number = 0
    while (image := await viewer.next()) is not None:
        if image.format is not current:
            if image.format.codec is not Codec.H264:
                await socket.close(_UNSUPPORTED, f"browsers do not play {image.format.codec}")
                return
            current = image.format
            await socket.send_text(_announcement(current))
            await socket.send_bytes(start_of_file(current))
        number += 1
        await socket.send_bytes(fragment([image], number=number, durations_ns=[_DECLARED_NS]))
    await socket.close(_GOING_AWAY, "the stream has ended")


def _announcement(image_format: Format) -> str:
    """The message that a player needs before the first byte of video."""
    width, height = image_format.size_wh
    return json.dumps(
        {
            "type": f'video/mp4; codecs="{codec_string(image_format)}"',
            "width": width,
            "height": height,
            "declared_seconds": _DECLARED_NS / 1e9,
        }
    )
