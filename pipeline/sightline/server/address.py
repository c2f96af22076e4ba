"""Addresses to listen at."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass

from sightline.errors import ConfigurationError

_FORM = re.compile(r"(?:(?P<host>\[[0-9a-fA-F:.]+\]|[^\[\]:/\s]*):)?(?P<port>\d{1,5})")
_LARGEST_PORT = 65535
_BACKLOG = 128
_UNSENT_BYTES = 256 << 10
"""Send buffer of a connection: small, so that a client that stalls is soon noticed."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port; port 0 is any free one. An empty host is every address of the machine."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """`HOST:PORT`, `[IPV6]:PORT`, `:PORT` (every address of the machine) or `PORT` (this machine only).

        Raises ConfigurationError.

        >>> Address.parse("127.0.0.1:8080"), Address.parse("8080")
        (Address(host='127.0.0.1', port=8080), Address(host='127.0.0.1', port=8080))
        """
        match = _FORM.fullmatch(text.strip())
        if match is None or int(match["port"]) > _LARGEST_PORT:
            raise ConfigurationError(f"{text!r} is no address to listen on: give HOST:PORT, such as 127.0.0.1:8080")
        host = "127.0.0.1" if match["host"] is None else match["host"].strip("[]")
        return cls(host, int(match["port"]))

    def resolve(self) -> tuple[socket.AddressFamily, tuple[str, int]]:
        """What to bind. Raises ConfigurationError when the host has no address."""
        try:
            found = socket.getaddrinfo(self.host or "0.0.0.0", self.port, type=socket.SOCK_STREAM)  # noqa: S104
        except OSError as error:
            raise ConfigurationError(f"{self}: the host has no address: {error.strerror}") from error
        family, _, _, _, place = found[0]
        return family, (str(place[0]), self.port)

    def bind(self) -> socket.socket:
        """Return a socket that listens here. Raises ConfigurationError when the port is taken."""
        family, place = self.resolve()
        listening = socket.socket(
            family, socket.SOCK_STREAM, socket.IPPROTO_TCP
        )  # asyncio: no delay for known TCP only
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT_BYTES)  # its connections inherit it
            listening.bind(place)
            listening.listen(_BACKLOG)
            listening.setblocking(False)
        except OSError as error:
            listening.close()
            raise ConfigurationError(f"cannot listen on {self}: {error.strerror}; choose another port") from error
        return listening

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback
