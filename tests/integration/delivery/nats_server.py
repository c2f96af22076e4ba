"""A real NATS server with JetStream."""

from __future__ import annotations

from pathlib import Path

from tests.integration.delivery.servers import Server, program
from tests.ports import free_port


def new_server(folder: Path, *, config: str = "") -> Server:
    """Return a server with JetStream that has not been started."""
    port = free_port()
    file = folder / "nats.conf"
    file.write_text(f'listen: "127.0.0.1:{port}"\njetstream: {{store_dir: "{folder / "store"}"}}\n{config}')
    return Server([program("nats-server", package="nats-server"), "-c", file], port=port, folder=folder)
