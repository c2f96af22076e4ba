"""Access: who may see a pipeline."""

from __future__ import annotations

import hashlib
import hmac
from http import HTTPStatus
from urllib.parse import urlsplit

from sightline.errors import ConfigurationError
from sightline.serve.messages import Refused, Request, Response

SHORTEST_TOKEN = 16
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_COOKIE_SECONDS = 30 * 24 * 3600


class Access:
    """Decides on every request.

    With a token, each request needs it: `Authorization: Bearer TOKEN`, `?token=TOKEN`, or the cookie that the page
    gets. Without one the server listens on the loopback only, and answers only requests that name it by a loopback
    name: else a web page from elsewhere could read it by pointing its own name to 127.0.0.1. Requests that say that
    they come from a page of another origin are refused in any case.
    """

    def __init__(self, *, token: str | None, port: int) -> None:
        self._token = token
        self._cookie = f"sightline-{port}"
        self._pass = "" if token is None else hmac.new(token.encode(), b"sightline page", hashlib.sha256).hexdigest()

    def check(self, request: Request) -> None:
        """Raises Refused: 403 for the wrong host or origin, 401 without the token."""
        host = request.headers.get("host", "")
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            raise Refused(HTTPStatus.FORBIDDEN, "pages of other sites may not ask")
        if self._token is None:
            if _host_name(host) not in _LOOPBACK_NAMES:
                raise Refused(HTTPStatus.FORBIDDEN, "without a token only localhost is answered")
        elif not self._has_token(request):
            headers = {"WWW-Authenticate": 'Bearer realm="sightline"'}
            raise Refused(HTTPStatus.UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN", headers)

    def welcome(self, request: Request) -> Response | None:
        """The way from `/?token=TOKEN` to the page: the token becomes a cookie and leaves the address bar."""
        if self._token is None or "token" not in request.query:
            return None
        cookie = f"{self._cookie}={self._pass}; HttpOnly; SameSite=Strict; Path=/; Max-Age={_COOKIE_SECONDS}"
        headers = {"Set-Cookie": cookie, "Location": "/"}
        return Response.text("see /", status=HTTPStatus.SEE_OTHER, headers=headers)

    def _has_token(self, request: Request) -> bool:
        kind, _, bearer = request.headers.get("authorization", "").partition(" ")
        shown = [bearer.strip()] if kind.lower() == "bearer" else []
        shown += request.query.get("token", [])
        is_token = [_same(one, self._token or "") for one in shown]
        return any([*is_token, _same(request.cookies.get(self._cookie, ""), self._pass)])


def check_token(token: str | None, *, is_loopback: bool, address: str) -> None:
    """Raises ConfigurationError when a token is needed and there is none, or it is too short to keep anybody out."""
    if token is None:
        if not is_loopback:
            raise ConfigurationError(
                f"{address} can be reached from other machines, so a token is needed: set SIGHTLINE_TOKEN (or --token),"
                " such as from `openssl rand -hex 16`, or listen on 127.0.0.1"
            )
    elif len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise ConfigurationError(
            f"a token has {SHORTEST_TOKEN} characters or more, letters and digits: `openssl rand -hex 16` makes one"
        )


def _same(shown: str, wanted: str) -> bool:
    return hmac.compare_digest(shown.encode(), wanted.encode())


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
