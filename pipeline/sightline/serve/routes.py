"""Routes: what is answered to which path."""

from __future__ import annotations

import json
from collections.abc import Callable
from http import HTTPStatus
from importlib.resources import files

from sightline.runtime.view import RunView
from sightline.serve.access import Access
from sightline.serve.exposition import CONTENT_TYPE
from sightline.serve.images import Images
from sightline.serve.journal import Journal
from sightline.serve.messages import Refused, Request, Response
from sightline.serve.metrics import metrics_text
from sightline.serve.status import not_ready, status_json

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
    return Response(files("sightline.serve").joinpath("page", name).read_bytes(), content_type, status)
