"""What the front tells a worker with each request: who asks, and from where."""

from __future__ import annotations

import json
from collections.abc import Iterable
from urllib.parse import quote

from starlette.types import ASGIApp, Receive, Scope, Send

from sightline.server.credentials import Identity, Role
from sightline.server.guard import identity_of

PAGES = "/pipelines/"
PIPELINES = "/api/v1/pipelines"
HEADER = b"x-sightline-identity"
_FOR_THE_FRONT = frozenset({b"authorization", b"cookie", HEADER})

Headers = list[tuple[bytes, bytes]]


def forwarded(scope: Scope, *, without: Iterable[bytes] = ()) -> Headers:
    """Return the headers of a request as a worker gets them: without the credentials, which are the front's business,
    with the identity that the front has found. What a client sends in its place is dropped.
    """
    dropped = {*_FOR_THE_FRONT, *without}
    identity, client = identity_of(scope), scope.get("client")
    known = None if identity is None else [identity.name, str(identity.role)]
    told = json.dumps({"identity": known, "address": client[0] if client else "", "scheme": scope["scheme"]})
    return [*((name, value) for name, value in scope["headers"] if name not in dropped), (HEADER, told.encode())]


def target_of(scope: Scope) -> bytes:
    """Return the path and query of a request as a worker gets them: without a token."""
    path = scope.get("raw_path") or quote(scope["path"]).encode()
    query = b"&".join(one for one in scope["query_string"].split(b"&") if one and not one.startswith(b"token="))
    return bytes(path + b"?" + query if query else path)


class BehindFront:
    """Middleware of a worker: takes the word of the front about who asks.

    It is to be reached by the front alone: by a socket in a folder that only its owner may enter. Below
    `/pipelines/NAME/` is what the worker serves.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the application answer."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        told = json.loads(headers.get(HEADER, b"{}"))
        scope = dict(scope)
        scope["state"] = dict(scope.get("state", {}))
        scope["client"] = (told.get("address", ""), 0)
        scope["scheme"] = told.get("scheme", scope["scheme"])
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != HEADER]
        if (known := told.get("identity")) is not None:
            scope["state"]["identity"] = Identity(known[0], Role(known[1]))
        if scope["path"].startswith(PAGES):
            name, _, _ = scope["path"].removeprefix(PAGES).partition("/")
            scope["root_path"] = PAGES + name
        await self._app(scope, receive, send)
