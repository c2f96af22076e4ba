"""An ASGI application that is served by an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp
from uvicorn import Config, Server

from sightline.errors import ConfigurationError
from sightline.runtime.threads import LoopThread
from sightline.server.limits import MOST_HEAD_BYTES, Doorkeeper, connections_of

_LEAVE_SECONDS = 1
_MOST_SAID_BYTES = 1024
"""Of a message that comes by WebSocket."""
_START_SECONDS = 30.0
for _name in ("uvicorn.error", "websockets.server"):
    logging.getLogger(_name).setLevel(logging.ERROR)  # what clients do wrong is no news


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files of a certificate and its key, both PEM, for HTTPS."""

    certificate: Path
    key: Path


class ServerThread:
    """Serves an application on a socket from the moment it is made until it is closed."""

    def __init__(
        self,
        application: ASGIApp,
        listening: socket.socket,
        *,
        certificate: Certificate | None,
        on_stop: Callable[[], None],
    ) -> None:
        """Takes the socket over. `on_stop` is called in the event loop before answers under way are cut off.

        Raises ConfigurationError when the certificate cannot be used.
        """
        self._on_stop = on_stop
        self.doorkeeper = Doorkeeper()
        self._socket = listening
        self._thread = LoopThread("server")
        config = Config(
            application,
            http=connections_of(self.doorkeeper),
            ws="websockets-sansio",
            ws_max_size=_MOST_SAID_BYTES,
            ws_per_message_deflate=False,
            h11_max_incomplete_event_size=MOST_HEAD_BYTES,
            timeout_graceful_shutdown=_LEAVE_SECONDS,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            ssl_certfile=None if certificate is None else str(certificate.certificate),
            ssl_keyfile=None if certificate is None else str(certificate.key),
        )
        try:
            config.load()
        except (OSError, ValueError) as error:
            listening.close()
            raise ConfigurationError(f"the certificate cannot be used: {error}") from error
        self._server = Server(config)
        self._thread.start()
        try:
            self._thread.call(self._start(), timeout_seconds=_START_SECONDS)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Stop listening; answers under way are given a second. Harmless when called again."""
        if self._thread.running:
            with suppress(TimeoutError):
                self._thread.call(self._stop())
            self._thread.stop()
        self._socket.close()

    async def _start(self) -> None:
        self._serving = asyncio.ensure_future(self._server.serve([self._socket]))
        self._watching = asyncio.ensure_future(self.doorkeeper.watch())
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0.005)
        if self._serving.done():
            self._serving.result()

    async def _stop(self) -> None:
        self._on_stop()
        self._server.should_exit = True
        await self._serving
        self._watching.cancel()
        with suppress(asyncio.CancelledError):
            await self._watching
