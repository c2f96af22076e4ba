"""What text loses before a person or a log sees it: credentials, here and nowhere else, and the middle of what no one
would read.
"""

from __future__ import annotations

import re

_USERINFO = re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]*://)(?P<userinfo>[^\s/@]*(?:@[^\s/@]*)*)@")
_SECRET_QUERY = re.compile(
    r"(?P<key>(?:[?&;]|\b)(?:password|passwd|pwd|token|secret|api_?key|access_?key|auth|signature|sig)=)[^\s&;'\"]+",
    re.IGNORECASE,
)

_MOST_WORD, _MOST_TEXT = 200, 1500


def redact(text: object) -> str:
    """Return `text` as a string without passwords: user information and secret query values become `***`.

    >>> redact("rtsp://admin:pa@ss@10.0.0.7/main?token=abc")
    'rtsp://***@10.0.0.7/main?token=***'
    """
    cleaned = _USERINFO.sub(r"\g<scheme>***@", str(text))
    return _SECRET_QUERY.sub(r"\g<key>***", cleaned)


def shortened(text: str) -> str:
    """Return a message that people can read, whatever it quotes: what is too long loses its middle."""
    words = re.sub(rf"\S{{{_MOST_WORD + 1},}}", lambda found: _without_middle(found[0], keep=_MOST_WORD // 2), text)
    return words if len(words) <= _MOST_TEXT else _without_middle(words, keep=_MOST_TEXT // 2)


def _without_middle(text: str, *, keep: int) -> str:
    left_out = len(text) - 2 * keep
    return f"{text[:keep]} [... {left_out} characters ...] {text[-keep:]}" if left_out > 0 else text
