"""Connections and channels of an RTSP server: interleaved TCP and UDP."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from asyncio.trsock import TransportSocket
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
from typing import Any

_PORTS = re.compile(r"client_port=(\d+)-(\d+)")
_CHANNELS = re.compile(r"interleaved=(\d+)-(\d+)")
_BURST_PACKETS = 24
_BURST_PAUSE_SECONDS = 0.001
_ATTEMPTS_AT_PORTS = 50


class Connection:
    """The sending side of a client's RTSP connection; several tasks may send, each message stays whole.

    `rate` is called before each byte and limits sending to that many bytes per second; None is no limit.
    """

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.rate: Callable[[], float | None] = lambda: None
        self._writer = writer
        self._lock = asyncio.Lock()
        host, port = writer.get_extra_info("peername")[:2]
        self.peer_host = host
        self.peer = f"{host}:{port}"
        self.socket: TransportSocket = writer.get_extra_info("socket")
        """The connection's socket, to set options."""

    async def send(self, data: bytes) -> None:
        """Send a message; waits for a slow client. Raises OSError when it is gone."""
        async with self._lock:
            at = 0
            while at < len(data) and (bytes_per_second := self.rate()) is not None:
                self._writer.write(data[at : at + 1])
                await self._writer.drain()
                at += 1
                await asyncio.sleep(1 / bytes_per_second)
            self._writer.write(data[at:])
            await self._writer.drain()

    def close(self) -> None:
        """Flush, then close."""
        self._writer.close()

    def abort(self) -> None:
        """Close at once, as a killed process does."""
        self._writer.transport.abort()


class Interleaved:
    """The RTP and RTCP packets of a track in the RTSP connection (RFC 2326, 10.12)."""

    linger_seconds = 0.0
    """Time the client needs to read the last packets before the goodbye."""

    def __init__(self, connection: Connection, numbers: tuple[int, int]) -> None:
        self._connection = connection
        self._media, self._control = numbers
        self.transport = f"RTP/AVP/TCP;unicast;interleaved={numbers[0]}-{numbers[1]}"

    async def send_media(self, packets: Sequence[bytes]) -> None:
        """Send the RTP packets of an image in one go."""
        await self._connection.send(b"".join(_framed(self._media, packet) for packet in packets))

    async def send_control(self, packet: bytes) -> None:
        """Send an RTCP packet."""
        await self._connection.send(_framed(self._control, packet))

    def close(self) -> None:
        """Do nothing: the connection closes itself."""


class Datagrams:
    """The RTP and RTCP packets of a track as UDP datagrams from a pair of ports to a pair of ports."""

    linger_seconds = 0.3

    def __init__(
        self,
        media: asyncio.DatagramTransport,
        control: asyncio.DatagramTransport,
        *,
        connection: Connection,
        ports: tuple[int, int],
    ) -> None:
        self._media, self._control = media, control
        self._client, self._ports, self._rate = connection.peer_host, ports, connection.rate
        own = [transport.get_extra_info("sockname")[1] for transport in (media, control)]
        self.transport = f"RTP/AVP;unicast;client_port={ports[0]}-{ports[1]};server_port={own[0]}-{own[1]}"

    async def send_media(self, packets: Sequence[bytes]) -> None:
        """Send the RTP packets of an image, with short pauses, so that no buffer on the way overflows."""
        for number, packet in enumerate(packets, start=1):
            self._media.sendto(packet, (self._client, self._ports[0]))
            if (bytes_per_second := self._rate()) is not None:
                await asyncio.sleep(len(packet) / bytes_per_second)
            elif number % _BURST_PACKETS == 0:
                await asyncio.sleep(_BURST_PAUSE_SECONDS)

    async def send_control(self, packet: bytes) -> None:
        """Send an RTCP packet."""
        self._control.sendto(packet, (self._client, self._ports[1]))

    def close(self) -> None:
        """Close both ports."""
        self._media.abort()
        self._control.abort()


Channel = Interleaved | Datagrams
"""Carries the packets of a track; `transport` is the answer's `Transport` header."""


async def open_channel(
    transport: str, connection: Connection, *, host: str, transports: Sequence[str], track: int
) -> Channel | None:
    """Open a channel for the first transport of a client's `Transport` header that is offered; None when none is."""
    for wish in transport.split(","):
        if "RTP/AVP/TCP" in wish and "tcp" in transports:
            asked = _CHANNELS.search(wish)
            numbers = (int(asked[1]), int(asked[2])) if asked else (2 * track, 2 * track + 1)
            if max(numbers) < 256:
                return Interleaved(connection, numbers)
        ports = _PORTS.search(wish)
        if "TCP" not in wish and "multicast" not in wish and ports and "udp" in transports:
            media, control = await _open_ports(host)
            client_ports = int(ports[1]), int(ports[2])
            return Datagrams(media, control, connection=connection, ports=client_ports)
    return None


async def _open_ports(host: str) -> tuple[asyncio.DatagramTransport, asyncio.DatagramTransport]:
    """Open an even port and the next; neither stays open when the caller is cancelled."""
    for _ in range(_ATTEMPTS_AT_PORTS):
        with suppress(OSError), ExitStack() as opened:
            media = await _open_port(host, 0)
            opened.callback(media.abort)
            number = media.get_extra_info("sockname")[1]
            if number % 2 == 0:
                control = await _open_port(host, number + 1)
                opened.pop_all()
                return media, control
    raise OSError("no two free UDP ports in a row")


async def _open_port(host: str, number: int) -> asyncio.DatagramTransport:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=(host, number), family=socket.AF_INET
    )
    return transport


def _framed(number: int, packet: bytes) -> bytes:
    return b"$" + bytes([number]) + len(packet).to_bytes(2, "big") + packet


Converse = Callable[[asyncio.StreamReader, Connection], Coroutine[Any, Any, None]]


class Listener:
    """Runs `converse` for every client that connects, each in a task of its own.

    Clients beyond `most` at a time are disconnected. Made and used inside one event loop.
    """

    def __init__(self, converse: Converse, *, most: int | None = None) -> None:
        self._converse = converse
        self._most = most
        self._server: asyncio.Server | None = None
        self._tasks: dict[asyncio.Task[None], Connection] = {}

    @property
    def is_open(self) -> bool:
        """Whether it listens."""
        return self._server is not None

    async def open(self, host: str | None, port: int, *, tls: ssl.SSLContext | None = None) -> None:
        """Listen; None is every address of the machine. Raises OSError when the port is taken."""
        self._server = await asyncio.start_server(self._welcome, host, port, ssl=tls)

    async def close(self) -> None:
        """Stop listening and disconnect all clients at once; harmless when called again. It may be opened again."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        tasks, self._tasks = self._tasks, {}
        for task, connection in tasks.items():
            connection.abort()
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.is_open or len(self._tasks) == self._most:
            writer.transport.abort()
            return
        connection = Connection(writer)
        task = asyncio.get_running_loop().create_task(self._converse(reader, connection))
        self._tasks[task] = connection
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error  # a mistake of ours: the loop reports it
