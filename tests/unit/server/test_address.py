"""Where to listen."""

from __future__ import annotations

import asyncio
import socket

import pytest

from sightline.errors import ConfigurationError
from sightline.server.address import Address, is_loopback


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("8080", "127.0.0.1", 8080),
        (":8080", "", 8080),
        ("[::1]:80", "::1", 80),
        ("cameras.example:0", "cameras.example", 0),
    ],
)
def test_an_address_is_read(text: str, host: str, port: int) -> None:
    assert Address.parse(text) == Address(host, port)


@pytest.mark.parametrize(
    "text", ["", "here", "localhost:", "localhost:http", "1.2.3.4:65536", "::1:80", "a b:80", "-1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="HOST:PORT"):
        Address.parse(text)


def test_addresses_are_written_as_they_are_read() -> None:
    assert str(Address("::1", 80)) == "[::1]:80"


def test_loopback_is_told_from_the_rest() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "::1")] == [True] * 3
    assert not any(is_loopback(host) for host in ("0.0.0.0", "10.0.0.7", "::", "fe80::1%eth0"))


def test_answers_are_sent_at_once() -> None:
    """On a connection that is kept, the second part of an answer would wait 40 ms for the receipt of the first."""
    with Address("127.0.0.1", 0).bind() as listening, socket.create_connection(listening.getsockname()):

        async def is_without_delay() -> int:
            loop, accepted = asyncio.get_running_loop(), asyncio.Event()
            made: list[asyncio.BaseTransport] = []

            class Noting(asyncio.Protocol):
                def connection_made(self, transport: asyncio.BaseTransport) -> None:
                    made.append(transport)
                    accepted.set()

            server = await loop.create_server(Noting, sock=listening)
            await accepted.wait()
            option: int = made[0].get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            made[0].close()
            server.close()
            return option

        assert asyncio.run(is_without_delay()) != 0
