"""RTSP requests and answers, and their authentication."""

from __future__ import annotations

import hmac
import re
import secrets
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import md5
from typing import Literal
from urllib.parse import unquote, urlsplit

Scheme = Literal["digest", "basic"]

_FIELD = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s,]+))')


@dataclass(frozen=True, slots=True)
class Guard:
    """Asks for a user and a password of a realm, and checks what comes back."""

    scheme: Scheme
    realm: str
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))

    def challenge(self) -> str:
        """The value of `WWW-Authenticate`."""
        if self.scheme == "basic":
            return f'Basic realm="{self.realm}"'
        return f'Digest realm="{self.realm}", nonce="{self.nonce}", algorithm=MD5'

    def admits(self, authorization: str, *, method: str, credentials: str) -> bool:
        """Whether the value of `Authorization` proves that the client knows `credentials` (`user:password`)."""
        scheme, _, rest = authorization.partition(" ")
        if scheme.lower() != self.scheme:
            return False
        if self.scheme == "basic":
            return hmac.compare_digest(rest.strip().encode(), b64encode(credentials.encode()))
        given = {name: quoted or bare for name, quoted, bare in _FIELD.findall(rest)}
        user, _, password = credentials.partition(":")
        if given.get("nonce") != self.nonce or given.get("username") != user:
            return False
        wanted = self._response(given, method=method, user=user, password=password)
        return hmac.compare_digest(given.get("response", "").encode(), wanted.encode())

    def _response(self, given: Mapping[str, str], *, method: str, user: str, password: str) -> str:
        parts = [_hash(f"{user}:{self.realm}:{password}"), given["nonce"]]
        if given.get("qop"):
            parts += [given.get("nc", ""), given.get("cnonce", ""), given["qop"]]
        return _hash(":".join([*parts, _hash(f"{method}:{given.get('uri', '')}")]))


def _hash(text: str) -> str:
    return md5(text.encode(), usedforsecurity=False).hexdigest()


_INTERLEAVED = b"$"
_MOST_BODY = 65_536
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    453: "Not Enough Bandwidth",
    454: "Session Not Found",
    455: "Method Not Valid in This State",
    461: "Unsupported Transport",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asks for; names of headers are in lower case."""

    method: str
    url: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        """The path of the URL, without slashes at its ends."""
        return unquote(urlsplit(self.url).path).strip("/")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server says to it."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""

    def encoded(self, request: Request, *, server: str) -> bytes:
        """The bytes to send; `server` is the name that the server goes by."""
        lines = [f"RTSP/1.0 {self.status} {_REASONS.get(self.status, 'Error')}"]
        lines += [f"CSeq: {request.headers.get('cseq', '0')}", f"Server: {server}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.body:
            lines.append(f"Content-Length: {len(self.body.encode())}")
        return ("\r\n".join(lines) + "\r\n\r\n" + self.body).encode()


async def next_request(reader: StreamReader) -> Request | None:
    """The next request of a client, whose RTCP is passed over; None when it closed the connection.

    Raises ValueError when what comes is not RTSP.
    """
    try:
        while (first := await reader.readexactly(1)) == _INTERLEAVED:
            head = await reader.readexactly(3)
            await reader.readexactly(int.from_bytes(head[1:], "big"))
        lines = (first + await reader.readuntil(b"\r\n\r\n")).decode(errors="replace").strip().split("\r\n")
        headers = {
            name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
        }
        await reader.readexactly(_body_size(headers))
    except (IncompleteReadError, OSError):
        return None
    except LimitOverrunError as error:
        raise ValueError("the head of a request is too long") from error
    parts = lines[0].split(" ")
    if len(parts) != 3 or not parts[2].startswith("RTSP/"):
        raise ValueError("the request line is not RTSP")
    return Request(parts[0].upper(), parts[1], headers)


def _body_size(headers: Mapping[str, str]) -> int:
    size = int(headers.get("content-length", "0"))
    if not 0 <= size <= _MOST_BODY:
        raise ValueError("the body of a request is too long")
    return size
