"""What the content type of a record says about its body."""

from __future__ import annotations

import re

_JSON = re.compile(r"application/([a-z0-9.+-]+\+)?json", re.IGNORECASE)


def is_json(content_type: str) -> bool:
    """Whether a body of this type is one JSON value.

    >>> is_json("application/cloudevents+json; charset=utf-8"), is_json("application/json-seq")
    (True, False)
    """
    return _JSON.fullmatch(content_type.partition(";")[0].strip()) is not None
