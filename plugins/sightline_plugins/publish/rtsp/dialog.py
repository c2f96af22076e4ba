"""The RTSP dialog with one client (RFC 2326)."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, field

from sightline.rtsp.authentication import Guard
from sightline.rtsp.channels import Channel, Connection, open_channel
from sightline.rtsp.messages import Answer, Request, next_request
from sightline.rtsp.sdp import VIDEO, describe
from sightline_plugins.publish.broadcast import Broadcast
from sightline_plugins.publish.hub import Hub
from sightline_plugins.publish.image import Format
from sightline_plugins.publish.rtsp.delivery import Cutter, Delivery
from sightline_plugins.publish.viewer import TooManyViewers, format_of

USER = "viewer"
"""The user that clients log in as, where a token is asked for; the token is the password."""

_METHODS = ("OPTIONS", "DESCRIBE", "SETUP", "PLAY", "GET_PARAMETER", "SET_PARAMETER", "TEARDOWN")
_NAME = "sightline"
_SESSION_SECONDS = 60
_TRANSPORTS = ("tcp", "udp")


@dataclass(frozen=True, slots=True)
class House:
    """What all dialogs of a server share. `path` is where streams are, `{stream}` in it their names."""

    hub: Hub
    host: str
    path: str
    token: str | None
    guard: Guard = field(default_factory=lambda: Guard("digest", realm=_NAME))
    cutter: Cutter = field(default_factory=Cutter)

    def broadcast(self, path: str) -> Broadcast | None:
        """The stream at a path, which may name its track."""
        wanted = path.removesuffix(f"/{VIDEO}")
        names = (name for name in self.hub.names() if self.path.replace("{stream}", name) == wanted)
        return self.hub.get(next(names, ""))

    def admits(self, request: Request) -> bool:
        """Whether the client has shown what it needs to."""
        if self.token is None:
            return True
        given = request.headers.get("authorization", "")
        return self.guard.admits(given, method=request.method, credentials=f"{USER}:{self.token}")


class Dialog:
    """One connection, from its first request to its end; used by the task that runs it."""

    def __init__(self, house: House, connection: Connection) -> None:
        self._house, self._connection = house, connection
        self._session = secrets.token_hex(8)
        self._channel: Channel | None = None
        self._format: Format | None = None
        self._delivery: Delivery | None = None
        self._task: asyncio.Task[None] | None = None

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Answer until the client leaves, or says nothing without watching."""
        try:
            while (request := await self._next_request(reader)) is not None:
                answer = await self._answer(request)
                await self._connection.send(answer.encoded(request, server=_NAME))
                if request.method == "TEARDOWN":
                    break
                if self._delivery is not None and self._task is None:
                    self._task = asyncio.create_task(self._deliver(self._delivery))
        except (ValueError, OSError):
            pass  # no RTSP, gone in the middle of an answer, or silent: either way the connection is of no use
        finally:
            await self._end()

    async def _next_request(self, reader: asyncio.StreamReader) -> Request | None:
        async with asyncio.timeout(None if self._task is not None else _SESSION_SECONDS):
            return await next_request(reader)

    async def _answer(self, request: Request) -> Answer:
        if request.method == "OPTIONS":
            return Answer(headers=(("Public", ", ".join(_METHODS)),))
        if not self._house.admits(request):
            return Answer(401, (("WWW-Authenticate", self._house.guard.challenge()),))
        broadcast = self._house.broadcast(request.path)
        if broadcast is None:
            return Answer(404)
        if request.method == "DESCRIBE":
            return await self._describe(request, broadcast)
        if request.method == "SETUP":
            return await self._set_up(request, broadcast)
        if request.method == "PLAY":
            return self._play(request, broadcast)
        return Answer(headers=self._session_header) if request.method in _METHODS else Answer(405)

    @property
    def _session_header(self) -> tuple[tuple[str, str], ...]:
        return (("Session", f"{self._session};timeout={_SESSION_SECONDS}"),) if self._channel is not None else ()

    async def _describe(self, request: Request, broadcast: Broadcast) -> Answer:
        self._format = await format_of(broadcast)
        if self._format is None:
            return Answer(503)
        sets = self._format.parameter_sets
        body = describe(self._format.codec, parameter_sets=sets, name=broadcast.name, host=self._house.host)
        head = (("Content-Type", "application/sdp"), ("Content-Base", request.url.rstrip("/") + "/"))
        return Answer(200, head, body)

    async def _set_up(self, request: Request, broadcast: Broadcast) -> Answer:
        if self._task is not None:
            return Answer(455)
        if self._format is None and (await self._describe(request, broadcast)).status != 200:
            return Answer(503)
        wishes = request.headers.get("transport", "")
        channel = await open_channel(wishes, self._connection, host=self._house.host, transports=_TRANSPORTS, track=0)
        if channel is None:
            return Answer(461)
        if self._channel is not None:
            self._channel.close()
        self._channel = channel
        return Answer(200, (("Transport", channel.transport), *self._session_header))

    def _play(self, request: Request, broadcast: Broadcast) -> Answer:
        if self._channel is None or self._format is None:
            return Answer(455)
        if self._delivery is None:
            cutter = self._house.cutter
            self._delivery = Delivery(broadcast, self._channel, described=self._format, cutter=cutter)
        info = self._delivery.rtp_info(f"{request.url.rstrip('/')}/{VIDEO}")
        return Answer(200, (("Range", "npt=0.000-"), ("RTP-Info", info), *self._session_header))

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            await delivery.run()
        except (OSError, TooManyViewers):
            return  # the client is gone, or has to go
        finally:
            self._connection.close()

    async def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._connection.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
