"""The RTSP server: connections, each with a dialog of its own."""

from __future__ import annotations

import asyncio
import socket

from sightline.rtsp.channels import Connection
from sightline.serve.address import Address
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
        self._server: asyncio.Server | None = None
        self._dialogs: dict[asyncio.Task[None], Connection] = {}

    async def start(self) -> None:
        """Listen. Raises OutputError when the port is taken."""
        address = self._address
        try:
            self._server = await asyncio.start_server(self._welcome, address.host or None, address.port)
        except OSError as error:
            raise listening_error(address, error) from error

    async def stop(self) -> None:
        """Send everybody away and listen no more."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        dialogs, self._dialogs = self._dialogs, {}
        for task, connection in dialogs.items():
            connection.abort()
            task.cancel()
        if dialogs:
            await asyncio.wait(dialogs)

    def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._server is None or len(self._dialogs) >= _MOST_CONNECTIONS:
            writer.transport.abort()
            return
        _prepare(writer)
        connection = Connection(writer)
        task = asyncio.get_running_loop().create_task(Dialog(self._house, connection).run(reader))
        self._dialogs[task] = connection
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._dialogs.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error  # a mistake of ours: the loop reports it


def _prepare(writer: asyncio.StreamWriter) -> None:
    """Have the system find out when a client that gets datagrams, and says nothing, is no longer there."""
    client = writer.get_extra_info("socket")
    bound_unsent(client)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _QUIET_SECONDS)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)
