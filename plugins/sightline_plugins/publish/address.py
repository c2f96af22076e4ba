"""Addresses that the servers of `publish` listen at."""

from __future__ import annotations

import os
import socket
from asyncio.trsock import TransportSocket
from contextlib import suppress

from sightline.errors import ConfigurationError, OutputError
from sightline.server.address import Address, is_loopback
from sightline.server.credentials import check_token

_UNSENT_BYTES = 256 << 10
"""Send buffer of a connection: small, so that a stalled viewer is soon noticed."""


def parse_address(text: str) -> Address:
    """Parse `HOST:PORT`; no host means all networks of the machine, a port alone means this machine only.

    Raises ValueError.
    """
    try:
        address = Address.parse(text)
    except ConfigurationError as error:
        raise ValueError(str(error)) from error
    if not address.port:
        raise ValueError(f"{text!r} has no port that viewers could know: name one")
    return address


def check_access(address: Address, *, token: str | None) -> None:
    """Raise ValueError when other machines can reach the address without a token."""
    is_local = address.host == "localhost"
    if address.host and not is_local:
        with suppress(ValueError):  # a host name
            is_local = is_loopback(address.host)
    if token is None:
        if is_local:
            return
        raise ValueError(
            f"{address} can be reached from other machines, so a token is needed: give `token`, such as from"
            " `openssl rand -hex 16`, or listen on 127.0.0.1"
        )
    try:
        check_token(token)
    except ConfigurationError as error:
        raise ValueError(str(error)) from error


def listening_error(address: Address, error: OSError) -> OutputError:
    """Make the error for an address that a server cannot listen at."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return OutputError(f"cannot listen at {address}: {reason}; name another port, or end the program that uses it")


def bound_unsent(connection: TransportSocket) -> None:
    """Limit what the system buffers for a viewer to a moment of video."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT_BYTES)
