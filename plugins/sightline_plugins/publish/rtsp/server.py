"""The RTSP server: connections, each with a dialog of its own."""

from __future__ import annotations

import asyncio
import socket

from sightline.rtsp.channels import Connection
from sightline.rtsp.listener import Listener
from sightline.server.http import Address
from sightline_plugins.publish.address import bound_unsent, listening_error
from sightline_plugins.publish.hub import Hub
from sightline_plugins.publish.rtsp.dialog import Dialog, House

_MOST_CONNECTIONS = 128
_EVERYWHERE = "0.0.0.0"  # noqa: S104  asked for by an address without host
_QUIET_SECONDS, _PROBE_SECONDS, _PROBES = 30, 10, 3


class RtspServer:
    """Serves the streams of a hub over TCP and UDP; made, begun and ended inside one event loop."""

    def __init__(self, address: Address, *, path: str, hub: Hub, token: str | None) -> None:
        self._address = address
        self._house = House(hub, address.host or _EVERYWHERE, path.strip("/"), token)
        self._listener = Listener(self._converse, most=_MOST_CONNECTIONS)

    async def start(self) -> None:
        """Listen. Raises OutputError when the port is taken."""
        address = self._address
        try:
            await self._listener.open(address.host or None, address.port)
        except OSError as error:
            raise listening_error(address, error) from error

    async def stop(self) -> None:
        """Send everybody away and listen no more."""
        await self._listener.close()

    async def _converse(self, reader: asyncio.StreamReader, connection: Connection) -> None:
        _prepare(connection)
        await Dialog(self._house, connection).run(reader)


def _prepare(connection: Connection) -> None:
    """Have the system find out when a client that gets datagrams, and says nothing, is no longer there."""
    client = connection.socket
    bound_unsent(client)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _QUIET_SECONDS)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
