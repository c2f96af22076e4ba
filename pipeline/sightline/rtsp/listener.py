"""Where an RTSP server's clients come in."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from typing import Any

from sightline.rtsp.channels import Connection

Converse = Callable[[asyncio.StreamReader, Connection], Coroutine[Any, Any, None]]


class Listener:
    """Gives every client that connects a task of its own, in which `converse` answers it until it returns.

    Of more than `most` clients at a time the last are sent away. Made and used inside one event loop.
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
        """Listen no more, and send everybody away at once; harmless when called again, and it may be opened again."""
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
