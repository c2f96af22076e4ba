"""The files of the page."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from importlib.resources import files
from types import MappingProxyType

from starlette.responses import Response

PAGE: Mapping[str, str] = MappingProxyType(
    {"/": "index.html", "/page.css": "page.css", "/page.js": "page.js", "/icon.svg": "icon.svg"}
)
"""Files of the page by path."""
_ASK_FOR_TOKEN = "token.html"  # noqa: S105  the name of a file
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


def page_file(name: str, *, package: str = "sightline.server", status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Answer with a file of the folder `page` of a package."""
    content = files(package).joinpath("page", name).read_bytes()
    return Response(content, status, {"Content-Type": _KINDS[name[name.rindex(".") :]]})


def ask_for_token() -> Response:
    """The page where a token is asked for."""
    return page_file(_ASK_FOR_TOKEN, status=HTTPStatus.UNAUTHORIZED)
