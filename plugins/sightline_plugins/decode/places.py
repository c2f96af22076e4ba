"""Where FFmpeg connects to for a source that may be read from some networks only.

A name is looked up once, its address is checked, and FFmpeg gets the address instead of the name: a name service that
answers differently the next time is not asked. FFmpeg is also given no protocol and no format in which a server could
lead it elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from sightline.graph.networks import Networks, resolve
from sightline_plugins.decode.failures import failure, refused
from sightline_plugins.decode.kinds import CONFINED

_WEB: Mapping[str, str] = {"max_redirects": "0", "http_proxy": ""}


@dataclass(frozen=True, slots=True)
class CheckedPlace:
    """The URL with an address instead of the host, and what FFmpeg may do with it."""

    address: str
    protocols: tuple[str, ...]
    options: Mapping[str, str]


def checked_place(uri: str, *, networks: Networks, stream: str) -> CheckedPlace:
    """Look the host of a URL up and check its address; the name service may take seconds.

    Raises StreamRefused when it is in none of the networks, and StreamLost when no address is known.
    """
    scheme, _, rest = uri.partition("://")
    scheme = scheme.lower()
    if scheme not in CONFINED:
        raise refused(f"it cannot be confined to networks ({networks})", stream=stream, uri=uri)
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, named = authority.rpartition("@")
    host, port = re.fullmatch(r"(.*?)((?::\d*)?)", named, re.DOTALL).groups()  # type: ignore[union-attr]
    try:
        addresses = resolve(host, 0)
    except OSError as error:
        raise failure(error, stream=stream, uri=uri, live=True) from None
    kinds = {address: networks.refusal(address) for address in addresses}
    allowed = next((address for address, kind in kinds.items() if not kind), None)
    if allowed is None:
        found = ", ".join(f"{address} ({kind})" for address, kind in kinds.items())
        raise refused(f"its address {found} is in none of its networks ({networks})", stream=stream, uri=uri)
    shown = f"[{allowed}]" if allowed.version == 6 else str(allowed)
    is_web = scheme.startswith("http")
    return CheckedPlace(
        f"{scheme}://{user}{at}{shown}{port}{rest[len(authority) :]}",
        CONFINED[scheme],
        {**_WEB, "headers": f"Host: {named}\r\n"} if is_web else {"rtsp_transport": "tcp"},
    )
