"""A real Redis server, and `redis-cli` to look into it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.integration.delivery.servers import Server, program
from tests.ports import free_port


class RedisServer(Server):
    """A Redis that writes all to its disk, with `redis-cli` to look into it."""

    def __init__(self, folder: Path, *options: str | Path, cli: tuple[str | Path, ...] = ()) -> None:
        port = free_port()
        place: tuple[str | Path, ...] = ("--port", str(port))
        if "--tls-port" in options:
            place = ("--port", "0", "--tls-port", str(port))
            options = tuple(option for option in options if option != "--tls-port")
        self.socket = folder / "redis.sock"
        command = (program("redis-server", package="redis-server"), *place, "--bind", "127.0.0.1", "--dir", folder)
        rest = ("--unixsocket", self.socket, "--appendonly", "yes", *options)
        self._cli = (program("redis-cli", package="redis-tools"), "-p", str(port), "--no-auth-warning", *cli)
        super().__init__((*command, *rest), port=port, folder=folder, ready=lambda: self.ask("PING") == "PONG")

    def ask(self, *command: str) -> str:
        """Return what `redis-cli` prints for a command."""
        done = subprocess.run([*map(str, self._cli), *command], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def entries(self, key: str) -> list[dict[str, str]]:
        """Return the fields of all entries of a stream, as `redis-cli --json` reads them."""
        found = json.loads(self.ask("--json", "XRANGE", key, "-", "+"))
        return [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in found]

    def seen(self, key: str) -> list[tuple[str, int]]:
        """Return stream and seq of all entries of a stream."""
        return [(entry["stream"], int(entry["seq"])) for entry in self.entries(key)]
