"""Basic (RFC 7617) and digest (RFC 7616, MD5 and qop=auth) authentication, as RTSP servers ask for it."""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import md5
from typing import Literal

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
