"""Where to listen."""

from __future__ import annotations

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
