"""Networks that connections may lead to, as a description names them, and which of them an address belongs to."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Annotated

from pydantic import AfterValidator

Address = IPv4Address | IPv6Address
Range = IPv4Network | IPv6Network

PRIVATE = "private"
PUBLIC = "public"

_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "the metadata service of a cloud",
        (
            *("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
            *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),
        ),
    ),
    ("loopback", ("127.0.0.0/8", "::1")),
    ("link-local", ("169.254.0.0/16", "fe80::/10", "fec0::/10")),
    ("multicast", ("224.0.0.0/4", "ff00::/8")),
    (PRIVATE, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")),
    (
        "reserved",  # RFC 6890 and the registries it names; with them ways to write an IPv4 address as IPv6
        (
            *("0.0.0.0/8", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24"),
            *("203.0.113.0/24", "240.0.0.0/4", "::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"),
            *("100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16"),
        ),
    ),
)
"""What addresses are, the first that fits; all others are public."""
_RANGES = tuple((kind, tuple(map(ip_network, ranges))) for kind, ranges in _KINDS)


def kind_of(address: Address) -> str:
    """Return what an address is: `public`, `private`, `loopback`, `link-local` and so on.

    >>> kind_of(ip_address("192.168.1.20")), kind_of(ip_address("::ffff:127.0.0.1"))
    ('private', 'loopback')
    """
    address = _plain(address)
    return next((kind for kind, ranges in _RANGES if any(address in one for one in ranges)), PUBLIC)


def _plain(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for when a connection is made (`::ffff:10.0.0.7`)."""
    return getattr(address, "ipv4_mapped", None) or address


def checked_network(text: str) -> str:
    """Return a network as it is written best: `private`, `public`, or a range. Raises ValueError."""
    word = text.strip().lower()
    if word in (PRIVATE, PUBLIC):
        return word
    try:
        return str(ip_network(word))
    except ValueError:
        pass
    try:
        near = f"; did you mean {ip_network(word, strict=False)}?"
    except ValueError:
        near = ""
    raise ValueError(f"{text!r} is no network: write private, public, or a range such as 10.20.0.0/16{near}")


Network = Annotated[str, AfterValidator(checked_network)]
"""A network that may be connected to: `private` (RFC 1918, 6598 and 4193), `public`, or a range in CIDR notation."""


class Networks:
    """The networks that connections may lead to; each is a `Network`.

    `private` and `public` hold no address of this machine alone (loopback), of the link (169.254.0.0/16), of a group or
    of the metadata service of a cloud. Such addresses are allowed by their range only.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(dict.fromkeys(map(checked_network, names)))
        self._ranges = tuple(ip_network(name) for name in self.names if name not in (PRIVATE, PUBLIC))

    def __str__(self) -> str:
        return ", ".join(self.names) or "no network"

    def refusal(self, address: Address) -> str:
        """Return what an address is that may not be connected to (`loopback`), empty for one that may."""
        plain, kind = _plain(address), kind_of(address)
        is_named = any(plain.version == one.version and plain in one for one in self._ranges)
        return "" if is_named or kind in self.names else kind


def resolve(host: str, port: int) -> list[Address]:
    """Return the addresses of a host, in the order in which to try them; the name service may take seconds.

    A number is read as the system reads it when it connects: `2130706433` and `0x7f.1` are 127.0.0.1. Raises OSError
    when there is no such host.
    """
    try:
        found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label of more than 63 characters, or an empty one
        raise OSError("it is no name of a host") from error
    return list(dict.fromkeys(ip_address(str(place[0]).partition("%")[0]) for *_, place in found))
