"""What a destination refuses: which record it is, and the answer as it may be shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from sightline.errors import DeliveryError, RecordRefused
from sightline.graph.transport import Record
from sightline.redaction import redact

_MOST_CHARACTERS = 200
_SHORT = 4
"""A secret shorter than this is hidden where it stands alone, and not within words."""


def deliver_in_parts(records: Sequence[Record], send: Callable[[Sequence[Record]], None], *, size: int) -> None:
    """Send the records in parts of at most `size`. `send` delivers a part whole or not at all.

    A part that is refused is halved until the record is found that the destination refuses, so that this record does
    not take its neighbours along. Raises what `send` raises, with `delivered` counted from the first record.
    """
    start = 0
    while start < len(records):
        part = records[start : start + size]
        try:
            send(part)
        except RecordRefused as error:
            if len(part) == 1:
                error.delivered = start
                raise
            size = len(part) // 2
        except DeliveryError as error:
            error.delivered = start
            raise
        else:
            start += len(part)


def excerpt(text: str, *, secrets: Iterable[str] = ()) -> str:
    r"""Return the first 200 characters of an answer, without passwords, with control characters written as codes.

    >>> excerpt("no such key: s3cr3t\x1b[31m", secrets=["s3cr3t"])
    'no such key: ***\\x1b[31m'
    """
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        exact = re.escape(secret)
        text = re.sub(rf"(?<!\w){exact}(?!\w)" if len(secret) < _SHORT else exact, "***", text)
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in redact(" ".join(text.split()))
    )
    return shown[:_MOST_CHARACTERS]
