"""Headers of HTTP requests as options give them."""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e\xa0-\xff]([\t\x20-\x7e\xa0-\xff]*[\x21-\x7e\xa0-\xff])?")


def check_headers(headers: Mapping[str, str], *, own: re.Pattern[str], by: str) -> None:
    """Raises ValueError when a header cannot be sent, is there twice, or is one of those (`own`, in lower case) that
    `by` sets itself. The message holds no value.
    """
    known: set[str] = set()
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a header")
        if own.fullmatch(name.lower()):
            raise ValueError(f"the header {name} is set by `{by}` itself")
        if name.lower() in known:
            raise ValueError(f"the header {name} is there twice")
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the value of the header {name} is empty, or holds characters that no header may hold")
        known.add(name.lower())
