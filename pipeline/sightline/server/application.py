"""Serve health, metrics, status and the page of a running pipeline."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from sightline.graph import Message, PipelineDescription
from sightline.media import Batch
from sightline.redaction import redact
from sightline.runtime.stats.snapshot import RunView
from sightline.server.http import Access, Address, Refused, Request, Response, Server, check_token, is_loopback
from sightline.server.images import Images, encoder, viewpoint
from sightline.server.metrics import CONTENT_TYPE, metrics_text
from sightline.server.status import not_ready, status_json

if TYPE_CHECKING:
    from typing import Self

_MOST = 50


@dataclass(slots=True, eq=False)
class _Entry:
    message: Message
    at_seconds: float
    count: int = 1


@dataclass(slots=True, eq=False)
class Journal:
    """Takes messages from any thread."""

    _entries: deque[_Entry] = field(default_factory=lambda: deque(maxlen=_MOST))
    _lock: Lock = field(default_factory=Lock)

    def note(self, message: Message) -> None:
        """Take down a message; the same one again is counted and becomes the newest."""
        with self._lock:
            entry = next((one for one in self._entries if one.message == message), None)
            if entry is None:
                self._entries.append(_Entry(message, time.time()))
                return
            self._entries.remove(entry)
            entry.count += 1
            entry.at_seconds = time.time()
            self._entries.append(entry)

    def to_json(self) -> list[dict[str, Any]]:
        """The messages, newest first."""
        with self._lock:
            entries = list(self._entries)
        return [
            {
                "time": round(one.at_seconds, 3),
                "kind": str(one.message.kind),
                "stream": one.message.stream,
                "element": one.message.element,
                "text": redact(one.message.text),
                "count": one.count,
            }
            for one in reversed(entries)
        ]


_PAGE = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
_ASK_FOR_TOKEN = "token.html"  # noqa: S105  the name of a file
_IMAGES, _IMAGE = "/streams/", "/image.jpg"


class Routes:
    """Answers requests about one pipeline; from any thread."""

    def __init__(
        self, view: Callable[[], RunView | None], *, access: Access, journal: Journal, images: Images | None
    ) -> None:
        self._view = view
        self._access = access
        self._journal = journal
        self._images = images
        self._plain = {
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/metrics": self._metrics,
            "/status": self._status,
        }

    def answer(self, request: Request) -> Response:
        """The response. Raises Refused."""
        try:
            self._access.check(request)
        except Refused as refusal:
            if refusal.response.status is HTTPStatus.UNAUTHORIZED and request.path == "/":
                return _file(_ASK_FOR_TOKEN, _PAGE["/"][1], status=HTTPStatus.UNAUTHORIZED)
            raise
        if request.method not in ("GET", "HEAD"):
            raise Refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered", {"Allow": "GET, HEAD"})
        if request.path in _PAGE:
            welcome = self._access.welcome(request) if request.path == "/" else None
            return welcome or _file(*_PAGE[request.path])
        if request.path in self._plain:
            return self._plain[request.path](request)
        if request.path.startswith(_IMAGES) and request.path.endswith(_IMAGE):
            return self._image(request.path.removeprefix(_IMAGES).removesuffix(_IMAGE))
        raise Refused(HTTPStatus.NOT_FOUND, "there is /, /healthz, /readyz, /metrics and /status")

    def _health(self, request: Request) -> Response:
        del request
        return Response.text("ok")

    def _readiness(self, request: Request) -> Response:
        missing = not_ready(self._view(), wanted=request.query.get("stream", []))
        if not missing:
            return Response.text("ready")
        lines = [f"{name}: {why}" if name else why for name, why in missing.items()]
        return Response.text("\n".join(["not ready", *lines]), status=HTTPStatus.SERVICE_UNAVAILABLE)

    def _metrics(self, request: Request) -> Response:
        del request
        view = self._view()
        return Response(metrics_text(view, is_ready=not not_ready(view)).encode(), CONTENT_TYPE)

    def _status(self, request: Request) -> Response:
        del request
        view = self._view()
        plain = status_json(view, is_ready=not not_ready(view), messages=self._journal.to_json())
        plain["images"] = self._images is not None
        return Response(json.dumps(plain, allow_nan=False).encode(), "application/json")

    def _image(self, stream: str) -> Response:
        view = self._view()
        names = [] if view is None else [one.stream.name for one in view.streams]
        if self._images is None or stream not in names:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no such image")
        self._images.keep(names)
        jpeg = self._images.jpeg(stream)
        if jpeg is None:
            raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, "no frame came by", {"Retry-After": "1"})
        return Response(jpeg, "image/jpeg")


def _file(name: str, content_type: str, *, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(files("sightline.server").joinpath("page", name).read_bytes(), content_type, status)


TOKEN_VARIABLE = "SIGHTLINE_TOKEN"  # noqa: S105  the name of a variable


class Watched(Protocol):
    """What is watched: a `sightline.Pipeline`."""

    @property
    def description(self) -> PipelineDescription:
        """What the pipeline is."""
        ...

    def view(self) -> RunView | None:
        """The run at this moment."""
        ...

    def probe(self, element_id: str, look: Callable[[Batch], None]) -> None:
        """Call `look` with every batch that leaves a step."""
        ...

    def on_message(self, listener: Callable[[Message], None]) -> None:
        """Call `listener` with every message."""
        ...


class Listener:
    """Answers requests until it is closed; a context manager. `url` is where the page is."""

    def __init__(self, server: Server, *, routes: Routes, host: str) -> None:
        self._server = server
        self.port = server.port
        self.url = f"http://{Address(host or server.host, server.port)}/"
        server.start(routes.answer)

    def close(self) -> None:
        """Stop listening; harmless when called again."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def listen(
    pipeline: Watched, address: str = "127.0.0.1:8080", *, token: str | None = None, images: str | None = None
) -> Listener:
    """Serve a pipeline's health, metrics, status and page over HTTP, also while it is not running.

    To be called before the pipeline is started. `token` (else the environment's SIGHTLINE_TOKEN) is what every request
    then needs; it can only be left out where nobody but this machine gets in. `images` is the id of the step behind
    which the page's live images are taken: the last one that draws when not given.

    Raises ConfigurationError.

    >>> from sightline import Pipeline
    >>> from sightline.server import listen
    >>> pipeline = Pipeline(sources={"test": {"pattern": "bars", "frames": 3}})
    >>> with listen(pipeline, "127.0.0.1:0") as listener:
    ...     report = pipeline.run()
    """
    wanted = Address.parse(address)
    token = os.environ.get(TOKEN_VARIABLE) or None if token is None else token
    point = viewpoint(pipeline.description, wanted=images)
    _, (host, _) = wanted.resolve()
    check_token(token, is_loopback=is_loopback(host), address=str(wanted))
    server = Server(wanted)
    journal, encode = Journal(), encoder()
    shown = None if encode is None or point is None else Images(encode)
    if shown is not None and point is not None:
        pipeline.probe(point, shown.look)
    pipeline.on_message(journal.note)
    routes = Routes(pipeline.view, access=Access(token=token, port=server.port), journal=journal, images=shown)
    return Listener(server, routes=routes, host=wanted.host)
