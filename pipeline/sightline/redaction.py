"""The one place that takes credentials out of text before a person or a log sees it."""

from __future__ import annotations

import re

_USERINFO = re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]*://)(?P<userinfo>[^\s/@]*(?:@[^\s/@]*)*)@")
_SECRET_QUERY = re.compile(
    r"(?P<key>(?:[?&;]|\b)(?:password|passwd|pwd|token|secret|api_?key|access_?key|auth|signature|sig)=)[^\s&;'\"]+",
    re.IGNORECASE,
)


def redact(text: object) -> str:
    """Return `text` as a string without passwords: user information and secret query values become `***`.

    >>> redact("rtsp://admin:pa@ss@10.0.0.7/main?token=abc")
    'rtsp://***@10.0.0.7/main?token=***'
    """
    cleaned = _USERINFO.sub(r"\g<scheme>***@", str(text))
    return _SECRET_QUERY.sub(r"\g<key>***", cleaned)
