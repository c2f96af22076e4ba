"""Where a server of `publish` listens, as it is written in YAML."""

from __future__ import annotations

import os
import socket
from asyncio.trsock import TransportSocket

from sightline.errors import ConfigurationError, OutputError
from sightline.server.http import Address, check_token, is_loopback

_UNSENT_BYTES = 256 << 10
"""What the system holds of a connection: little, so that a viewer who takes nothing is soon noticed."""


def parse_address(text: str) -> Address:
    """Read `HOST:PORT`; no host is every network of the machine, and a port alone this machine only.

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
    """Raises ValueError when other machines can reach the address and nothing keeps them out."""
    try:
        check_token(token, is_loopback=is_local(address), address=str(address))
    except ConfigurationError as error:
        raise ValueError(str(error).replace("set SIGHTLINE_TOKEN (or --token)", "give `token`")) from error


def is_local(address: Address) -> bool:
    """Whether only this machine can reach it."""
    if address.host in ("", "localhost"):
        return bool(address.host)
    try:
        return is_loopback(address.host)
    except ValueError:
        return False


def listening_error(address: Address, error: OSError) -> OutputError:
    """The error to raise when nobody can be served at an address."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return OutputError(f"cannot listen at {address}: {reason}; name another port, or end the program that uses it")


def bound_unsent(connection: TransportSocket) -> None:
    """Have the system take no more than a moment of video for a viewer who takes none."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNSENT_BYTES)
