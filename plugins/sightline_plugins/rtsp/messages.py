"""RTSP requests and answers, their authentication, and session descriptions (SDP, RFC 8866)."""

from __future__ import annotations

import hmac
import re
import secrets
from asyncio import IncompleteReadError, LimitOverrunError, StreamReader
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import md5
from typing import Literal
from urllib.parse import unquote, urlsplit

from sightline_plugins.rtsp.payloads import Codec

Scheme = Literal["digest", "basic"]

_FIELD = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s,]+))')


@dataclass(frozen=True, slots=True)
class Guard:
    """Asks for the user and password of a realm, and checks the reply."""

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
        parts = [_hash(f"{user}:{self.realm}:{password}"), self.nonce]
        if given.get("qop"):
            parts += [given.get("nc", ""), given.get("cnonce", ""), given["qop"]]
        wanted = _hash(":".join([*parts, _hash(f"{method}:{given.get('uri', '')}")]))
        return hmac.compare_digest(given.get("response", "").encode(), wanted.encode())


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
    """A client's request; names of headers are in lower case."""

    method: str
    url: str
    headers: Mapping[str, str]

    @property
    def path(self) -> str:
        """The path of the URL, without slashes at its ends."""
        return unquote(urlsplit(self.url).path).strip("/")


@dataclass(frozen=True, slots=True)
class Answer:
    """The server's answer to a request."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: str = ""

    def encoded(self, request: Request, *, server: str) -> bytes:
        """The bytes to send; `server` is the value of the header `Server`."""
        lines = [f"RTSP/1.0 {self.status} {_REASONS.get(self.status, 'Error')}"]
        lines += [f"CSeq: {request.headers.get('cseq', '0')}", f"Server: {server}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        if self.body:
            lines.append(f"Content-Length: {len(self.body.encode())}")
        return ("\r\n".join(lines) + "\r\n\r\n" + self.body).encode()


async def next_request(reader: StreamReader) -> Request | None:
    """Read the next request of a client, and skip its RTCP; None when it closed the connection.

    Raises ValueError for data that is not RTSP.
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


PAYLOAD_TYPES = {Codec.H264: 96, Codec.H265: 97, Codec.MJPEG: 26}
VIDEO, SOUND = "video", "sound"
"""The names under which the tracks of a session are set up."""

_ENCODINGS = {Codec.H264: "H264", Codec.H265: "H265", Codec.MJPEG: "JPEG"}


def describe(
    codec: Codec,
    *,
    parameter_sets: Sequence[bytes],
    name: str,
    host: str,
    fps: float | None = None,
    sound: bool = False,
) -> str:
    """The description of a session with one video track; `sound` promises a sound track before it.

    `parameter_sets` are NAL units without start codes.
    """
    number = PAYLOAD_TYPES[codec]
    family = "IP6" if ":" in host else "IP4"
    lines = ["v=0", f"o=- 0 0 IN {family} {host}", f"s={name}", "c=IN IP4 0.0.0.0", "t=0 0", "a=control:*"]
    if sound:
        lines += ["m=audio 0 RTP/AVP 0", f"a=control:{SOUND}"]
    lines += [f"m=video 0 RTP/AVP {number}", f"a=rtpmap:{number} {_ENCODINGS[codec]}/90000"]
    if parameters := _parameters(codec, parameter_sets):
        lines.append(f"a=fmtp:{number} {parameters}")
    lines += [f"a=framerate:{fps:.3f}"] if fps is not None else []
    return "\r\n".join([*lines, f"a=control:{VIDEO}"]) + "\r\n"


def _parameters(codec: Codec, sets: Sequence[bytes]) -> str:
    if codec is Codec.H264:
        profile = next((unit[1:4].hex() for unit in sets if unit[0] & 0x1F == 7), None)
        if profile is None:
            return "packetization-mode=1"
        return f"packetization-mode=1;profile-level-id={profile};sprop-parameter-sets={_sets(sets)}"
    if codec is Codec.H265:
        named = (("sprop-vps", 32), ("sprop-sps", 33), ("sprop-pps", 34))
        return ";".join(f"{name}={_sets([unit for unit in sets if unit[0] >> 1 == kind])}" for name, kind in named)
    return ""


def _sets(units: Sequence[bytes]) -> str:
    return ",".join(b64encode(unit).decode() for unit in units)
