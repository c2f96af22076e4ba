"""URLs that can be taken apart."""

from __future__ import annotations

from urllib.parse import urlsplit

from sightline.graph.fields import checked_url


def readable_url(url: str) -> str:
    """Return the URL. Raises ValueError when it cannot be taken apart; the message holds no part of it but the scheme.

    >>> readable_url("https://example.com/hooks")
    'https://example.com/hooks'
    """
    checked_url(url)
    try:
        urlsplit(url)
    except ValueError as error:
        raise ValueError("brackets are for IPv6 addresses; in a password [ is written %5B and ] %5D") from error
    return url
