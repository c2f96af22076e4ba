"""A transport of your own: JSON lines over TCP, each of which the server answers with `ok` or `no REASON`."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import urlsplit

from sightline.errors import DestinationLost, RecordRefused
from sightline.graph import Site
from sightline.graph.transport import Record, Transport
from sightline_plugins.delivery.element import Delivery


class Tcp(Delivery):
    """Send records as lines to a server of your own.

    ```yaml
    - tcp: {url: "tcp://10.0.0.5:7000", send: [events]}
    ```
    """

    name: ClassVar[str] = "tcp"
    schemes: ClassVar[tuple[str, ...]] = ("tcp",)

    def transport(self, site: Site) -> Transport:
        """Make the transport."""
        del site
        address = urlsplit(self.url)
        return TcpTransport((address.hostname or "", address.port or 7000), self.timeout / 1e9)


class TcpTransport(Transport):
    """Sends a line and waits for its answer, so that nothing is sent behind a record that is refused."""

    def __init__(self, address: tuple[str, int], timeout_seconds: float) -> None:
        self.address, self.timeout_seconds = address, timeout_seconds
        self.connection: socket.socket | None = None

    def connect(self) -> None:
        """Connect."""
        try:
            self.connection = socket.create_connection(self.address, timeout=self.timeout_seconds)
        except OSError as error:
            raise DestinationLost(f"tcp: cannot connect to {self.address[0]}: {error}") from error

    def deliver(self, records: Sequence[Record]) -> None:
        """Send the records, and return when the server has taken all of them."""
        assert self.connection is not None
        for delivered, record in enumerate(records):
            try:
                self.connection.sendall(record.body + b"\n")
                answer = self.connection.recv(200)
            except OSError as error:
                raise DestinationLost(f"tcp: {error}", delivered=delivered) from error
            if not answer:
                raise DestinationLost("tcp: the server has closed the connection", delivered=delivered)
            if answer.startswith(b"no"):
                raise RecordRefused(f"tcp: {answer.decode().strip()}", delivered=delivered)

    def close(self) -> None:
        """Close the connection."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
