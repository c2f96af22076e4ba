"""The files of the dashboard: plain HTML, CSS and JavaScript modules, as they lie in the package."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from http import HTTPStatus
from importlib.resources import files
from pathlib import PurePosixPath

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

_FOLDER = "dashboard"
_OF_LOGIN = {f"/login/{name}": name for name in ("dashboard.css", "login.css", "icon.svg")}
_START, _LOGIN = "index.html", "login.html"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it is sent; kept in memory from when it is first asked for."""

    content: bytes
    compressed: bytes
    tag: str
    kind: str


def dashboard_router() -> APIRouter:
    """Make the routes of the dashboard: `/`, and what it loads below `/dashboard/`."""
    router = APIRouter(include_in_schema=False)
    router.add_api_route("/", _answer_start, methods=["GET", "HEAD"])
    router.add_api_route(f"/{_FOLDER}/{{path:path}}", _answer_file, methods=["GET", "HEAD"])
    return router


def ask_for_token(request: HTTPConnection) -> Response:
    """The page where a token is asked for."""
    return _answer(request, _LOGIN, status=HTTPStatus.UNAUTHORIZED)


def file_of_login(request: HTTPConnection) -> Response | None:
    """A file that the page where a token is asked for loads, which needs none; None for any other path."""
    name = _OF_LOGIN.get(request.url.path)
    return None if name is None else _answer(request, name)


def page_file(name: str, *, package: str) -> Response:
    """Answer with a file of the folder `page` of a package."""
    content = files(package).joinpath("page", name).read_bytes()
    return Response(content, headers={"Content-Type": _KINDS[PurePosixPath(name).suffix]})


async def _answer_start(request: Request) -> Response:
    return _answer(request, _START)


async def _answer_file(request: Request, path: str) -> Response:
    return _answer(request, path)


def _answer(request: HTTPConnection, path: str, *, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """Answer with a file. Browsers ask each time whether theirs is still right, so that an update is seen at once."""
    if path not in _known():
        raise HTTPException(HTTPStatus.NOT_FOUND, "there is no such page")
    file = _file(path)
    headers = {"ETag": f'"{file.tag}"', "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if status is HTTPStatus.OK and file.tag in request.headers.get("if-none-match", ""):
        return Response(None, HTTPStatus.NOT_MODIFIED, headers)
    headers["Content-Type"] = file.kind
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.compressed, status, {**headers, "Content-Encoding": "gzip"})
    return Response(file.content, status, headers)


@cache
def _known() -> frozenset[str]:
    """The paths of all files, so that no other path is ever opened."""
    found, folders = [], [("", files(__package__).joinpath(_FOLDER))]
    while folders:
        prefix, folder = folders.pop()
        for one in folder.iterdir():
            if one.is_dir():
                folders.append((f"{prefix}{one.name}/", one))
            elif PurePosixPath(one.name).suffix in _KINDS:
                found.append(f"{prefix}{one.name}")
    return frozenset(found)


@cache
def _file(path: str) -> _File:
    content = files(__package__).joinpath(_FOLDER, *path.split("/")).read_bytes()
    tag = blake2b(content, digest_size=12).hexdigest()
    return _File(content, gzip.compress(content, mtime=0), tag, _KINDS[PurePosixPath(path).suffix])
