"""What FFmpeg says, in words: which stream, which file, what is wrong, what to do; never a password."""

from __future__ import annotations

import errno

import av.error

from sightline.errors import StreamError, StreamLost, StreamUnreadable
from sightline.redaction import redact

_UNREADABLE: tuple[tuple[type[Exception], str], ...] = (
    (av.error.FileNotFoundError, "there is no such file; check the path"),
    (av.error.PermissionError, "it may not be read; check its permissions"),
    (av.error.HTTPUnauthorizedError, "the server does not accept the credentials (401); check user and password"),
    (av.error.HTTPForbiddenError, "the server denies access (403); check user, password and rights"),
    (av.error.HTTPNotFoundError, "the server has nothing there (404); check the path"),
    (av.error.HTTPClientError, "the server refuses the request; check the URL"),
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
_LOST: tuple[tuple[type[Exception], str], ...] = (
    (av.error.ConnectionRefusedError, "the connection was refused; check host and port, and that the server runs"),
    (av.error.TimeoutError, "nothing came within the time limit"),
    (av.error.ExitError, "nothing came within the time limit"),
    (av.error.EOFError, "the server closed the connection"),
    (av.error.HTTPServerError, "the server failed (5xx)"),
)


def unreadable(cause: str, *, stream: str, uri: str) -> StreamUnreadable:
    """The error for an input that another attempt would not make readable."""
    return StreamUnreadable(_sentence(cause, stream=stream, uri=uri))


def lost(cause: str, *, stream: str, uri: str) -> StreamLost:
    """The error for an input that broke off."""
    return StreamLost(_sentence(cause, stream=stream, uri=uri))


def failure(error: Exception, *, stream: str, uri: str) -> StreamError:
    """The error of ours that says what this error of FFmpeg's means for a stream."""
    if isinstance(error, OSError) and error.errno == errno.EPROTONOSUPPORT:
        return unreadable("the server does not offer that transport; try transport: tcp", stream=stream, uri=uri)
    for kind, cause in _UNREADABLE:
        if isinstance(error, kind):
            return unreadable(cause, stream=stream, uri=uri)
    for kind, cause in _LOST:
        if isinstance(error, kind):
            return lost(cause, stream=stream, uri=uri)
    reason = getattr(error, "strerror", None) or error
    if isinstance(error, OSError):
        return lost(f"the connection failed ({reason}); check that the host can be reached", stream=stream, uri=uri)
    return unreadable(f"FFmpeg says: {reason}", stream=stream, uri=uri)


def _sentence(cause: str, *, stream: str, uri: str) -> str:
    return redact(f"stream {stream!r} ({uri}): {cause}")
