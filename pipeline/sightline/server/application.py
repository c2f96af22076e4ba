"""The one web application of a run: what it is made of, and how it is served."""

from __future__ import annotations

import os
from collections.abc import Callable
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from sightline.errors import ConfigurationError
from sightline.graph import Message, Mounts, PipelineDescription
from sightline.media import Batch
from sightline.redaction import redact
from sightline.runtime.stats.snapshot import RunView
from sightline.server.address import Address, is_loopback
from sightline.server.credentials import OneToken, TokenFile
from sightline.server.guard import Guard, Refused, refusal
from sightline.server.images import Images, encoder, viewpoint
from sightline.server.journal import Journal
from sightline.server.limits import Limits
from sightline.server.monitoring import Monitoring
from sightline.server.serving import Certificate, ServerThread

if TYPE_CHECKING:
    from typing import Self

TOKEN_VARIABLE = "SIGHTLINE_TOKEN"  # noqa: S105  the name of a variable
STEPS = "/steps"


class Watched(Protocol):
    """What is served: a `sightline.Pipeline`."""

    @property
    def description(self) -> PipelineDescription:
        """What the pipeline is."""
        ...

    @property
    def mounts(self) -> Mounts:
        """What its elements serve."""
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


def application_of(pipeline: Watched, *, images: str | None) -> FastAPI:
    """Make the application, without access control. Raises ConfigurationError when no step has the id `images`.

    To be called before the pipeline is started. `images` as in `listen`.
    """
    point = viewpoint(pipeline.description, wanted=images)
    journal, encode = Journal(), encoder()
    shown = None if encode is None or point is None else Images(encode)
    if shown is not None and point is not None:
        pipeline.probe(point, shown.look)
    pipeline.on_message(journal.note)
    mounts = pipeline.mounts
    mounts.is_served = True
    application = FastAPI(
        title="Sightline", openapi_url="/api/v1/openapi.json", docs_url=None, redoc_url=None, redirect_slashes=False
    )
    monitoring = Monitoring(pipeline.view, journal=journal, images=shown, served=lambda: sorted(mounts.present()))
    application.include_router(monitoring.router())
    application.router.routes.append(Mount(STEPS, app=_Steps(mounts)))
    for kind, answer in _ANSWERS.items():
        application.add_exception_handler(kind, answer)
    return application


class _Steps:
    """Passes requests below `/steps/ID/` on to what the element serves."""

    def __init__(self, mounts: Mounts) -> None:
        self._mounts = mounts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the element answer; 404 when it serves nothing."""
        root = scope.get("root_path", "")
        element_id, slash, _ = scope["path"].removeprefix(f"{root}/").partition("/")
        application = self._mounts.present().get(element_id)
        if application is not None and slash:
            await application({**scope, "root_path": f"{root}/{element_id}"}, receive, send)
            return
        answer = refusal(scope["path"], HTTPStatus.NOT_FOUND, f"the step {element_id!r} serves nothing")
        if scope["type"] == "http":
            await answer(scope, receive, send)
        else:
            await WebSocket(scope, receive, send).send_denial_response(answer)


async def _answer_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error.response(request.url.path)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        text = "there is nothing here: see /, /healthz, /readyz, /metrics, /status and /api/v1/openapi.json"
    return refusal(request.url.path, error.status_code, text, error.headers)


async def _answer_invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    lines = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return refusal(request.url.path, HTTPStatus.UNPROCESSABLE_ENTITY, redact("; ".join(lines)))


async def _answer_mistake(request: Request, error: Exception) -> Response:
    return refusal(request.url.path, HTTPStatus.BAD_REQUEST, redact(str(error)))


async def _answer_fault(request: Request, error: Exception) -> Response:
    del error  # the server logs it
    return refusal(request.url.path, HTTPStatus.INTERNAL_SERVER_ERROR, "the answer failed; the log says why")


_ANSWERS = {
    Exception: _answer_fault,
    Refused: _answer_refused,
    HTTPException: _answer_http_error,
    RequestValidationError: _answer_invalid,
    ConfigurationError: _answer_mistake,
}


class Listener:
    """Answers requests until it is closed; a context manager. `url` is where the page is.

    `first_token` is the token that was made because there was none yet; it is kept as a hash only.
    """

    def __init__(self, server: ServerThread, *, url: str, port: int, first_token: str | None) -> None:
        self._server = server
        self.url = url
        self.port = port
        self.first_token = first_token

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
    pipeline: Watched,
    address: str = "127.0.0.1:8080",
    *,
    token: str | None = None,
    images: str | None = None,
    certificate: Certificate | None = None,
) -> Listener:
    """Serve a pipeline's health, metrics, status, page and API over HTTP, also while it is not running.

    To be called before the pipeline is started. `token` (else the environment's SIGHTLINE_TOKEN) is what whoever asks
    has to show; when there is neither, tokens are those of a file (`sightline token`), and on the loopback, where
    monitoring needs none, the first one is made now.
    `images` is the id of the step behind which the page's live images are taken: the last one that draws when not
    given. `certificate` makes it HTTPS.

    Raises ConfigurationError.

    >>> from sightline import Pipeline
    >>> from sightline.server import listen
    >>> pipeline = Pipeline(sources={"test": {"pattern": "bars", "frames": 3}})
    >>> with listen(pipeline, "127.0.0.1:0", token="0123456789abcdef") as listener:
    ...     report = pipeline.run()
    """
    wanted = Address.parse(address)
    token = os.environ.get(TOKEN_VARIABLE) or None if token is None else token
    is_local = is_loopback(wanted.resolve()[1][0])
    known = TokenFile() if token is None else OneToken(token)
    if isinstance(known, TokenFile) and not is_local and not known.entries():
        raise ConfigurationError(
            f"{address} can be reached from other machines, so a token is needed: set SIGHTLINE_TOKEN (or --token),"
            " such as from `openssl rand -hex 16`, make one by `sightline token add`, or listen on 127.0.0.1"
        )
    application = application_of(pipeline, images=images)
    listening = wanted.bind()
    host, port = listening.getsockname()[:2]
    is_open_here = is_local and token is None
    guarded = Guard(Limits(application), credentials=known, is_open_here=is_open_here, port=port)
    server = ServerThread(guarded, listening, certificate=certificate)
    try:
        first = known.begin() if isinstance(known, TokenFile) else None
    except BaseException:
        server.close()
        raise
    scheme = "http" if certificate is None else "https"
    return Listener(server, url=f"{scheme}://{Address(wanted.host or host, port)}/", port=port, first_token=first)
