"""What FFmpeg says while it reads and decodes: the only place where it tells of lost packets and concealed errors.

Lines belong to the thread in which FFmpeg writes them, hence to one stream. FFmpeg writes nowhere else: its lines are
not passed on to Python's logging, unless the application has asked for them (`av.logging.set_level`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from threading import Lock

import av.logging

Line = tuple[int, str, str]
"""FFmpeg's level, who says it, and what."""

_MISSED = re.compile(r"RTP: missed (\d+) packets")
_TROUBLE = re.compile(
    r"conceal|error while decoding|corrupt|could not find ref|reference image missing|missing reference|invalid nal"
    r"|error constructing|overread|bad cseq|mjpeg_decode_dc|error count",
    re.IGNORECASE,
)
_LOCK = Lock()


def listen() -> None:
    """Let FFmpeg say what it has to say; harmless when called again."""
    with _LOCK:
        if av.logging.get_level() is None:
            quiet = logging.getLogger("libav")
            quiet.addHandler(logging.NullHandler())
            quiet.propagate = False
            av.logging.set_level(av.logging.WARNING)
        av.logging.set_skip_repeated(False)


def lost_packets(lines: Sequence[Line]) -> int:
    """How many RTP packets these lines say are lost."""
    return sum(int(match[1]) for _, _, text in lines if (match := _MISSED.search(text)))


def tells_of_damage(lines: Sequence[Line]) -> bool:
    """Whether these lines say that an image did not decode as it was meant to."""
    return any(_TROUBLE.search(text) for _, _, text in lines)
