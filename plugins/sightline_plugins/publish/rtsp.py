"""Publish over RTSP."""

from __future__ import annotations

import asyncio
import random
import secrets
import socket
import time
from collections.abc import Callable
from functools import lru_cache

from sightline.server.address import Address
from sightline_plugins.encode.settings import ticks_from_ns
from sightline_plugins.publish.address import bound_unsent, listening_error
from sightline_plugins.publish.broadcast import Broadcast, Format, Hub, Image, TooManyViewers, Viewer, format_of
from sightline_plugins.rtsp.messages import PAYLOAD_TYPES, VIDEO, Answer, Guard, Request, describe, next_request
from sightline_plugins.rtsp.payloads import RtpStream, payloads
from sightline_plugins.rtsp.transport import Channel, Connection, Listener, open_channel

_REPORT_EVERY_NS = 1_000_000_000
_CACHED_IMAGES = 32
"""Images whose payloads are kept: clients are mostly at the same one."""
USER = "viewer"
"""User name of clients when a token is required; the token is the password."""

_METHODS = ("OPTIONS", "DESCRIBE", "SETUP", "PLAY", "GET_PARAMETER", "SET_PARAMETER", "TEARDOWN")
_NAME = "sightline"
_SESSION_SECONDS = 60
_TRANSPORTS = ("tcp", "udp")
_MOST_CONNECTIONS = 128
_EVERYWHERE = "0.0.0.0"  # noqa: S104  asked for by an address without host
_QUIET_SECONDS, _PROBE_SECONDS, _PROBES = 30, 10, 3

Payloads = Callable[[Image], tuple[bytes, ...]]


class Delivery:
    """Sends a broadcast to one client until it ends or its codec changes.

    Timestamps follow the stream's own. Reports tie them to the capture time of the images or, where that is not known,
    to the time of sending.
    """

    def __init__(
        self, broadcast: Broadcast[Image], channel: Channel, *, described: Format, payloads_of: Payloads
    ) -> None:
        self._broadcast, self._channel, self._payloads_of = broadcast, channel, payloads_of
        self._codec = described.codec
        number = PAYLOAD_TYPES[described.codec]
        self._rtp = RtpStream(number, ssrc=random.getrandbits(32), sequence=random.getrandbits(16))
        self._base = random.getrandbits(31)
        self._reported_ns: int | None = None

    def rtp_info(self, url: str) -> str:
        """The value of `RTP-Info`: the first sequence number."""
        return f"url={url};seq={self._rtp.sequence}"

    async def run(self) -> None:
        """Send. Raises OSError when the client is gone, and TooManyViewers."""
        async with Viewer(self._broadcast) as viewer:
            while (image := await viewer.next()) is not None and image.format.codec is self._codec:
                await self._send(image)
        await self._channel.send_control(self._rtp.goodbye())

    async def _send(self, image: Image) -> None:
        timestamp = self._base + ticks_from_ns(image.pts_ns)
        if self._reported_ns is None or abs(image.dts_ns - self._reported_ns) >= _REPORT_EVERY_NS:
            self._reported_ns = image.dts_ns
            epoch_ns = time.time_ns() if image.capture_ns is None else image.capture_ns
            await self._channel.send_control(self._rtp.report(epoch_ns=epoch_ns, timestamp=timestamp))
        parts = self._payloads_of(image)
        last = len(parts) - 1
        packets = [
            self._rtp.packet(part, timestamp=timestamp, marker=number == last) for number, part in enumerate(parts)
        ]
        await self._channel.send_media(packets)


class RtspServer:
    """Serves the streams of a hub over TCP and UDP; made and used inside one event loop.

    `path` is the path of a stream, with `{stream}` for its name. Clients need the `token`, if there is one.
    """

    def __init__(self, address: Address, *, path: str, hub: Hub, token: str | None) -> None:
        self.host = address.host or _EVERYWHERE
        self.guard = Guard("digest", realm=_NAME)
        self.payloads_of: Payloads = lru_cache(_CACHED_IMAGES)(_payloads)
        self._address, self._path, self._hub, self._token = address, path.strip("/"), hub, token
        self._listener = Listener(self._converse, most=_MOST_CONNECTIONS)

    async def start(self) -> None:
        """Listen. Raises OutputError when the port is taken."""
        address = self._address
        try:
            await self._listener.open(address.host or None, address.port)
        except OSError as error:
            raise listening_error(address, error) from error

    async def stop(self) -> None:
        """Disconnect all clients and stop listening."""
        await self._listener.close()

    def broadcast(self, path: str) -> Broadcast[Image] | None:
        """Find the stream at a path, which may name its track."""
        wanted = path.removesuffix(f"/{VIDEO}")
        names = (name for name in self._hub.names() if self._path.replace("{stream}", name) == wanted)
        return self._hub.get(next(names, ""))

    def admits(self, request: Request) -> bool:
        """Whether the client may watch."""
        if self._token is None:
            return True
        given = request.headers.get("authorization", "")
        return self.guard.admits(given, method=request.method, credentials=f"{USER}:{self._token}")

    async def _converse(self, reader: asyncio.StreamReader, connection: Connection) -> None:
        _prepare(connection)
        await RtspSession(self, connection).run(reader)


def _payloads(image: Image) -> tuple[bytes, ...]:
    return payloads(image.all_units, codec=image.format.codec)


class RtspSession:
    """One connection, from its first request to its end; used by the task that runs it."""

    def __init__(self, server: RtspServer, connection: Connection) -> None:
        self._server, self._connection = server, connection
        self._session = secrets.token_hex(8)
        self._channel: Channel | None = None
        self._format: Format | None = None
        self._delivery: Delivery | None = None
        self._task: asyncio.Task[None] | None = None

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Answer until the client leaves, or is silent without watching."""
        try:
            while (request := await self._next_request(reader)) is not None:
                answer = await self._answer(request)
                await self._connection.send(answer.encoded(request, server=_NAME))
                if request.method == "TEARDOWN":
                    break
                if self._delivery is not None and self._task is None:
                    self._task = asyncio.create_task(self._deliver(self._delivery))
        except (ValueError, OSError):
            pass  # not RTSP, disconnected, or silent: the session is over
        finally:
            await self._end()

    async def _next_request(self, reader: asyncio.StreamReader) -> Request | None:
        async with asyncio.timeout(None if self._task is not None else _SESSION_SECONDS):
            return await next_request(reader)

    async def _answer(self, request: Request) -> Answer:
        if request.method == "OPTIONS":
            return Answer(headers=(("Public", ", ".join(_METHODS)),))
        if not self._server.admits(request):
            return Answer(401, (("WWW-Authenticate", self._server.guard.challenge()),))
        broadcast = self._server.broadcast(request.path)
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

    async def _describe(self, request: Request, broadcast: Broadcast[Image]) -> Answer:
        self._format = await format_of(broadcast)
        if self._format is None:
            return Answer(503)
        sets = self._format.parameter_sets
        body = describe(self._format.codec, parameter_sets=sets, name=broadcast.name, host=self._server.host)
        head = (("Content-Type", "application/sdp"), ("Content-Base", request.url.rstrip("/") + "/"))
        return Answer(200, head, body)

    async def _set_up(self, request: Request, broadcast: Broadcast[Image]) -> Answer:
        if self._task is not None:
            return Answer(455)
        if self._format is None and (await self._describe(request, broadcast)).status != 200:
            return Answer(503)
        asked = request.headers.get("transport", "")
        channel = await open_channel(asked, self._connection, host=self._server.host, transports=_TRANSPORTS, track=0)
        if channel is None:
            return Answer(461)
        if self._channel is not None:
            self._channel.close()
        self._channel = channel
        return Answer(200, (("Transport", channel.transport), *self._session_header))

    def _play(self, request: Request, broadcast: Broadcast[Image]) -> Answer:
        if self._channel is None or self._format is None:
            return Answer(455)
        if self._delivery is None:
            payloads_of = self._server.payloads_of
            self._delivery = Delivery(broadcast, self._channel, described=self._format, payloads_of=payloads_of)
        info = self._delivery.rtp_info(f"{request.url.rstrip('/')}/{VIDEO}")
        return Answer(200, (("Range", "npt=0.000-"), ("RTP-Info", info), *self._session_header))

    async def _deliver(self, delivery: Delivery) -> None:
        try:
            await delivery.run()
        except (OSError, TooManyViewers):
            return  # the client is gone or refused
        finally:
            self._connection.close()

    async def _end(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._connection.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


def _prepare(connection: Connection) -> None:
    """Let TCP keepalive detect that a silent client, which gets datagrams, is gone."""
    client = connection.socket
    bound_unsent(client)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _QUIET_SECONDS)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
