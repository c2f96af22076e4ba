"""Turn FFmpeg's failures and log lines into errors that name what happened.

Lines belong to the thread in which FFmpeg writes them, hence to one stream. FFmpeg writes nowhere else: its lines are
not passed on to Python's logging, unless the application has asked for them (`av.logging.set_level`).
"""

from __future__ import annotations

import errno
import logging
import re
import socket
from collections.abc import Sequence
from threading import Lock

import av.error
import av.logging

from sightline.errors import StreamError, StreamLost, StreamRefused, StreamStalled, StreamUnreadable
from sightline.redaction import redact

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


_REFUSED: tuple[tuple[type[Exception], str], ...] = (
    (av.error.HTTPUnauthorizedError, "the server does not accept the credentials (401); check user and password"),
    (av.error.HTTPForbiddenError, "the server denies access (403); check user, password and rights"),
    (av.error.HTTPNotFoundError, "the server has nothing there (404); check the path"),
    (av.error.HTTPClientError, "the server refuses the request; check the URL"),
)
_CREDENTIALS = (av.error.HTTPUnauthorizedError, av.error.HTTPForbiddenError)
_UNREADABLE: tuple[tuple[type[Exception], str], ...] = (
    (av.error.FileNotFoundError, "there is no such file; check the path"),
    (av.error.PermissionError, "it may not be read; check its permissions"),
    (av.error.ProtocolNotFoundError, "FFmpeg here knows no such protocol; check the scheme"),
    (av.error.DecoderNotFoundError, "FFmpeg here has no decoder for it; convert it to H.264"),
    (av.error.ArgumentError, "it is of a kind that is not read: no video, or a script or list that names other inputs"),
    (
        av.error.InvalidDataError,
        (
            "it holds no video that can be read (cut off before its index, damaged, or no media at all); "
            "check that it plays, or convert it anew"
        ),
    ),
)
_SILENT_SECONDS = 2.0
"""Invalid data that took so long is no data at all."""
TIME_LIMITS = (av.error.TimeoutError, av.error.ExitError)
"""What PyAV raises when a wait took too long."""
_LOST: tuple[tuple[type[Exception], str], ...] = (
    (socket.gaierror, "no address is known for its host; check the name, and the name service"),
    (ConnectionRefusedError, "the connection was refused; check host and port, and that the server runs"),
    (TimeoutError, "nothing came within the time limit"),
    (av.error.ExitError, "nothing came within the time limit"),
    (av.error.EOFError, "the server closed the connection"),
    (av.error.HTTPServerError, "the server failed (5xx)"),
)


def unreadable(cause: str, *, stream: str, uri: str) -> StreamUnreadable:
    """The error for an input that another attempt would not make readable."""
    return StreamUnreadable(_sentence(cause, stream=stream, uri=uri))


def refused(cause: str, *, stream: str, uri: str) -> StreamRefused:
    """Return the error for an input whose server refuses, or may not be read from."""
    return StreamRefused(_sentence(cause, stream=stream, uri=uri))


def lost(cause: str, *, stream: str, uri: str) -> StreamLost:
    """The error for an input that broke off."""
    return StreamLost(_sentence(cause, stream=stream, uri=uri))


def stalled(cause: str, *, stream: str, uri: str) -> StreamStalled:
    """The error for an input whose connection stands, but that sends nothing."""
    return StreamStalled(_sentence(cause, stream=stream, uri=uri))


def failure(
    error: Exception,
    *,
    stream: str,
    uri: str,
    live: bool = False,
    took_seconds: float = 0.0,
    transport: str | None = None,
) -> StreamError:
    """Return our error for one of FFmpeg's.

    What a `live` input sends may be no video now and video at the next attempt: that is a loss. FFmpeg reports a server
    that does not answer as invalid data: `took_seconds` tells them apart. `transport` is that of RTSP packets.
    """
    if isinstance(error, OSError) and error.errno == errno.EPROTONOSUPPORT:
        other = "udp" if transport == "tcp" else "tcp"
        cause = f"the server does not offer that transport; try transport: {other}"
        return StreamRefused(_sentence(cause, stream=stream, uri=uri))
    for kind, cause in _REFUSED:
        if isinstance(error, kind):
            text = _sentence(cause, stream=stream, uri=uri)
            return StreamRefused(text, credentials=isinstance(error, _CREDENTIALS))
    if live and isinstance(error, av.error.InvalidDataError) and took_seconds >= _SILENT_SECONDS:
        return lost("its server accepts the connection and does not answer", stream=stream, uri=uri)
    if live and isinstance(error, av.error.InvalidDataError):
        return lost("what its server sends cannot be read", stream=stream, uri=uri)
    for kind, cause in _UNREADABLE:
        if isinstance(error, kind):
            return unreadable(cause, stream=stream, uri=uri)
    for kind, cause in _LOST:
        if isinstance(error, kind):
            return lost(cause, stream=stream, uri=uri)
    reason = getattr(error, "strerror", None) or error
    if isinstance(error, OSError):
        return lost(f"the connection failed ({reason}); check that the host can be reached", stream=stream, uri=uri)
    return (lost if live else unreadable)(f"FFmpeg says: {reason}", stream=stream, uri=uri)


def _sentence(cause: str, *, stream: str, uri: str) -> str:
    return redact(f"stream {stream!r} ({uri}): {cause}")
