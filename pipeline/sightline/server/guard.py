"""The guard: who is answered, before anything else looks at a request."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from collections.abc import Mapping
from http import HTTPStatus
from time import monotonic
from urllib.parse import parse_qs, quote, urlsplit

from anyio import to_thread
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from sightline.server.credentials import Credentials, Identity, Role
from sightline.server.pages import ask_for_token, file_of_login

API = "/api/"
LOGIN, LOGOUT = "/login", "/logout"
_HEALTH = "/healthz"
_MONITORING = frozenset({_HEALTH, "/readyz", "/metrics", "/status"})
_READING = frozenset({"GET", "HEAD"})
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_COOKIE_SECONDS = 30 * 24 * 3600
_MOST_LOGIN_BYTES = 4096
_SAFE = {
    "Content-Security-Policy": (
        "default-src 'self'; media-src 'self' blob:; img-src 'self' data: blob:; base-uri 'none'; form-action 'self';"
        " frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Refused(HTTPException):
    """The answer to a request is an error: its status, one sentence, and headers that go with it."""

    def __init__(self, status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, text, dict(headers or {}))

    def response(self, path: str) -> Response:
        """The answer: problem details (RFC 9457) below `/api/`, else a line of text."""
        return refusal(path, self.status_code, self.detail, self.headers)


def refusal(path: str, status: int, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Make the answer to a request on that path which is refused."""
    if path.startswith(API):
        problem = {"title": HTTPStatus(status).phrase, "status": int(status), "detail": text}
        return JSONResponse(problem, status, dict(headers or {}), media_type="application/problem+json")
    return PlainTextResponse(f"{text}\n", status, dict(headers or {}))


class Rates:
    """Counts what addresses do: each may do `most` things at once, and gets one back every `seconds`/`most`.

    It remembers the last thousands of addresses; used in one thread.
    """

    _MOST_ADDRESSES = 4096

    def __init__(self, most: int, *, seconds: float) -> None:
        self._most = most
        self._per_second = most / seconds
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """How long an address has to wait before it may do one more; 0 when it may now."""
        left = self._now(address)
        return 0.0 if left >= 1 else (1 - left) / self._per_second

    def note(self, address: str) -> None:
        """Count something that an address did."""
        self._left[address] = self._now(address) - 1, monotonic()
        self._left.move_to_end(address)
        if len(self._left) > self._MOST_ADDRESSES:
            self._left.popitem(last=False)

    def _now(self, address: str) -> float:
        left, at = self._left.get(address, (float(self._most), 0.0))
        return min(self._most, left + (monotonic() - at) * self._per_second)


class Guard:
    """Middleware around the whole application.

    Whoever asks shows a token (`Authorization: Bearer TOKEN`, or `?token=TOKEN` where headers cannot be set), or the
    session cookie that a browser gets for it. Reading needs the role `viewer`, everything else `operator`; a route may
    ask for more (`check_role`). Where monitoring `is_open_here`, its routes need no token, but are only for who calls
    this machine by a loopback name: else a web page from elsewhere could read them by pointing its own name to
    127.0.0.1. Pages of other origins are refused in any case. An address that shows wrong tokens waits: five a minute.

    The identity is in `scope["state"]["identity"]`.
    """

    def __init__(self, app: ASGIApp, *, credentials: Credentials, is_open_here: bool, port: int) -> None:
        self._app = app
        self._credentials = credentials
        self._is_open_here = is_open_here
        self._cookie = f"sightline-{port}"
        self._failures = Rates(5, seconds=60)
        self._requests = Rates(400, seconds=2)
        self._health = Rates(100, seconds=1)  # its own: who floods the server must not make it look dead

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or let the application do it."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "http":
            send = with_safe_headers(send)
        connection = HTTPConnection(scope)
        try:
            answer = await self._admit(connection, receive)
        except Refused as refused:
            answer = refused.response(connection.url.path)
        if answer is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await answer(scope, receive, send)
        else:
            await WebSocket(scope, receive, send).send_denial_response(answer)

    async def _admit(self, connection: HTTPConnection, receive: Receive) -> Response | None:
        """Return the answer of the guard itself; None when the application answers. Raises Refused."""
        scope, path = connection.scope, connection.url.path
        _check_origin(connection)
        address = _address(scope)
        rates = self._health if path == _HEALTH else self._requests
        if (seconds := rates.wait_seconds(address)) > 0:
            raise _too_many("requests", seconds)
        rates.note(address)
        if path == LOGIN:
            return await self._login(Request(scope, receive))
        if path == LOGOUT:
            return self._log_out(Request(scope))
        if "token" in connection.query_params and _is_for_a_page(connection):
            shown, place = connection.query_params["token"], f"/{path.lstrip('/')}"
            return await self._welcome(shown, address, is_secure=_is_secure(scope), place=place)
        identity = await self._identify(connection, address)
        if identity is None:
            if self._is_open_here and _host_name(connection) not in _LOOPBACK_NAMES:
                raise Refused(HTTPStatus.FORBIDDEN, "without a token only localhost is answered")
            if self._is_open_here and path in _MONITORING:
                return None
            if path == "/":
                return ask_for_token(connection)
            if scope["type"] == "http" and scope["method"] in _READING and (file := file_of_login(connection)):
                return file
            raise Refused(
                HTTPStatus.UNAUTHORIZED,
                "a token is needed: Authorization: Bearer TOKEN (`sightline token add NAME` makes one)",
                {"WWW-Authenticate": 'Bearer realm="sightline"'},
            )
        scope.setdefault("state", {})["identity"] = identity
        _remove_token(scope)
        if scope["type"] == "http" and scope["method"] not in _READING:
            check_role(identity, Role.OPERATOR)
        return None

    async def _identify(self, connection: HTTPConnection, address: str) -> Identity | None:
        """Return who asks; None when nothing was shown. Raises Refused for what is wrong."""
        cookie = connection.cookies.get(self._cookie)
        if cookie and (identity := self._credentials.identify_session(cookie)) is not None:
            return identity
        kind, _, bearer = connection.headers.get("authorization", "").partition(" ")
        shown = bearer.strip() if kind.lower() == "bearer" else connection.query_params.get("token", "")
        return await self._identify_token(shown, address) if shown else None

    async def _identify_token(self, token: str, address: str) -> Identity:
        known = self._credentials.identify_quickly(token)
        if known is not None:
            return known
        if (seconds := self._failures.wait_seconds(address)) > 0:
            raise _too_many("wrong tokens", seconds)
        identity = await to_thread.run_sync(self._credentials.identify, token)
        if identity is None:
            self._failures.note(address)
            raise Refused(HTTPStatus.UNAUTHORIZED, "the token is wrong", {"WWW-Authenticate": "Bearer"})
        return identity

    async def _login(self, request: Request) -> Response:
        """Answer the form of the page, or JSON: `{"token": ...}`."""
        if request.method != "POST":
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "POST a token here", {"Allow": "POST"})
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > _MOST_LOGIN_BYTES:
                raise Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "that is no token")
        try:
            fields = parse_qs(body.decode(), max_num_fields=4)
        except ValueError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, "the form cannot be read") from error
        token = fields.get("token", [""])[0].strip()
        return await self._welcome(token, _address(request.scope), is_secure=_is_secure(request.scope), place="/")

    def _log_out(self, request: Request) -> Response:
        """Make the browser forget its session."""
        if request.method != "POST":
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "POST here to log out", {"Allow": "POST"})
        answer = PlainTextResponse("see /\n", HTTPStatus.SEE_OTHER, {"Location": "/"})
        answer.delete_cookie(self._cookie, httponly=True, samesite="strict", secure=_is_secure(request.scope))
        return answer

    async def _welcome(self, token: str, address: str, *, is_secure: bool, place: str) -> Response:
        """Exchange a token for a session, and lead to a page without the token in its address."""
        if not token:
            raise Refused(HTTPStatus.UNAUTHORIZED, "a token is needed")
        await self._identify_token(token, address)
        session = await to_thread.run_sync(self._credentials.session, token)
        answer = PlainTextResponse(f"see {place}\n", HTTPStatus.SEE_OTHER, {"Location": quote(place)})
        answer.set_cookie(
            self._cookie, session or "", max_age=_COOKIE_SECONDS, httponly=True, samesite="strict", secure=is_secure
        )
        return answer


def check_role(identity: Identity | None, needed: Role) -> None:
    """Raises Refused when somebody may not do what needs that role."""
    if identity is None or not identity.role.covers(needed):
        who = "nobody" if identity is None else f"{identity.name!r} is {identity.role}"
        raise Refused(HTTPStatus.FORBIDDEN, f"this needs the role {needed}; {who}")


def identity_of(scope: Scope) -> Identity | None:
    """Who asks; None on routes that are open."""
    identity = scope.get("state", {}).get("identity")
    return identity if isinstance(identity, Identity) else None


def _is_for_a_page(connection: HTTPConnection) -> bool:
    """Whether somebody opens a page: what it loads then shows the session."""
    if connection.scope["type"] != "http" or connection.scope["method"] not in _READING:
        return False
    return connection.url.path == "/" or "text/html" in connection.headers.get("accept", "")


def _remove_token(scope: Scope) -> None:
    """Take the token out of the address, so that whatever notes addresses does not note it."""
    parts = [one for one in scope["query_string"].split(b"&") if not one.startswith(b"token=")]
    scope["query_string"] = b"&".join(parts)


def _check_origin(connection: HTTPConnection) -> None:
    """Raises Refused for a request that a page of another site makes a browser send."""
    origin = connection.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != connection.headers.get("host", ""):
        raise Refused(HTTPStatus.FORBIDDEN, "pages of other sites may not ask")


def _too_many(what: str, seconds: float) -> Refused:
    headers = {"Retry-After": str(max(1, round(seconds)))}
    return Refused(HTTPStatus.TOO_MANY_REQUESTS, f"too many {what}: wait {seconds:.0f} s", headers)


def _address(scope: Scope) -> str:
    """Who counts as one client: an address; for IPv6 the network that one household has."""
    client = scope.get("client")
    host = client[0] if client else ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return host if address.version == 4 else str(ipaddress.ip_network((address, 64), strict=False))


def _host_name(connection: HTTPConnection) -> str:
    try:
        return urlsplit(f"//{connection.headers.get('host', '')}").hostname or ""
    except ValueError:
        return ""


def _is_secure(scope: Scope) -> bool:
    return bool(scope["scheme"] in ("https", "wss"))


def with_safe_headers(send: Send) -> Send:
    """Add the headers that keep browsers from mischief, unless an answer has its own."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            own = {name.lower() for name, _ in headers}
            headers += [
                (name.lower().encode(), value.encode())
                for name, value in _SAFE.items()
                if name.lower().encode() not in own
            ]
            message = {**message, "headers": headers}
        await send(message)

    return sending
