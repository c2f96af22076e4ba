"""The server behind the page: static files, the list of streams, and a WebSocket for each player."""

from __future__ import annotations

import json
import logging
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType
from urllib.parse import parse_qs, unquote, urlsplit

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from sightline.server.http import Access, Address, Refused
from sightline.server.http import Request as PlainRequest
from sightline.server.http import Response as PlainResponse
from sightline_plugins.publish.address import bound_unsent, listening_error
from sightline_plugins.publish.broadcast import Format, Hub, TooManyViewers, Viewer
from sightline_plugins.publish.fragments import codec_string, fragment, start_of_file
from sightline_plugins.rtsp.payloads import Codec

_FILES = MappingProxyType(
    {
        "/": ("page.html", "text/html; charset=utf-8"),
        "/player.js": ("player.js", "text/javascript; charset=utf-8"),
        "/page.css": ("page.css", "text/css; charset=utf-8"),
    }
)
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; media-src blob:; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_LIVE = "/live/"
_OPEN_TO_ALL = ("/player.js", "/page.css")
_SILENT = logging.getLogger("sightline.publish.web")
_SILENT.setLevel(logging.CRITICAL)
_DECLARED_NS = 500_000_000
"""Declared duration of every image, because the next one's time is not known yet. Players that see a gap of twice as
much wait for a key frame."""
_CLOSE_SECONDS = 0.5
_GOING_AWAY, _UNSUPPORTED, _TRY_LATER = 1001, 1003, 1013


class WebServer:
    """Serves the page and the images of a hub; made and used inside one event loop."""

    def __init__(self, address: Address, *, hub: Hub, token: str | None) -> None:
        self._address = address
        self._hub = hub
        self._access = Access(token=token, port=address.port)
        self._server: Server | None = None

    async def start(self) -> None:
        """Listen. Raises OutputError when the port is taken."""
        address = self._address
        try:
            self._server = await serve(
                self._watch,
                address.host or None,
                address.port,
                process_request=self._answer,
                compression=None,
                max_size=1024,
                max_queue=4,
                close_timeout=_CLOSE_SECONDS,
                server_header=None,
                logger=_SILENT,
            )
        except OSError as error:
            raise listening_error(address, error) from error

    async def stop(self) -> None:
        """Disconnect all clients and stop listening."""
        server, self._server = self._server, None
        if server is not None:
            server.close(code=_GOING_AWAY, reason="the pipeline has ended")
            await server.wait_closed()

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a plain request; None accepts a WebSocket."""
        del connection
        path = urlsplit(request.path).path
        try:
            plain = _plain(request)
            if plain.path not in _OPEN_TO_ALL:
                self._access.check(plain)
            if plain.path == "/" and (welcome := self._access.welcome(plain)) is not None:
                return _response(welcome)
        except Refused as refused:
            return _response(refused.response)
        if path.startswith(_LIVE):
            is_known = self._hub.get(unquote(path.removeprefix(_LIVE))) is not None
            return None if is_known else _response(PlainResponse.text("no such stream", status=HTTPStatus.NOT_FOUND))
        if path == "/streams.json":
            return _response(PlainResponse(json.dumps(self._hub.names()).encode(), "application/json"))
        if path in _FILES:
            name, kind = _FILES[path]
            return _response(PlainResponse(files(__package__).joinpath("page", name).read_bytes(), kind))
        return _response(PlainResponse.text("nothing here", status=HTTPStatus.NOT_FOUND))

    async def _watch(self, connection: ServerConnection) -> None:
        bound_unsent(connection.transport.get_extra_info("socket"))
        request = connection.request
        path = urlsplit(request.path).path if request is not None else ""
        broadcast = self._hub.get(unquote(path.removeprefix(_LIVE)))
        try:
            if broadcast is None:
                await connection.close(_TRY_LATER, "the stream has ended")
                return
            async with Viewer(broadcast) as viewer:
                await _play(viewer, connection)
        except TooManyViewers:
            await connection.close(_TRY_LATER, "too many viewers")
        except ConnectionClosed:
            return


async def _play(viewer: Viewer, connection: ServerConnection) -> None:
    current: Format | None = None
    number = 0
    while (image := await viewer.next()) is not None:
        if image.format is not current:
            if image.format.codec is not Codec.H264:
                await connection.close(_UNSUPPORTED, f"browsers do not play {image.format.codec}")
                return
            current = image.format
            await connection.send(_announcement(current))
            await connection.send(start_of_file(current))
        number += 1
        await connection.send(fragment([image], number=number, durations_ns=[_DECLARED_NS]))
    await connection.close(_GOING_AWAY, "the stream has ended")


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


def _plain(request: Request) -> PlainRequest:
    """Convert a request for the access check. Raises Refused."""
    try:
        target = urlsplit(f"//host{request.path}")
        query = parse_qs(target.query, max_num_fields=32)
    except ValueError as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "the request cannot be read") from error
    return PlainRequest("GET", target.path, query, {name.lower(): value for name, value in request.headers.raw_items()})


def _response(plain: PlainResponse) -> Response:
    headers = Headers(
        {
            "Content-Type": plain.content_type,
            "Content-Length": str(len(plain.body)),
            "Content-Security-Policy": _POLICY,
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            "Connection": "close",
            **plain.headers,
        }
    )
    return Response(plain.status.value, plain.status.phrase, headers, plain.body)
