"""The application in front of several pipelines: what all have together, and the way to each."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Path
from pydantic import BaseModel, TypeAdapter
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from sightline.api import PipelineState
from sightline.errors import ConfigurationError
from sightline.runtime.stats.metrics import Families, Process
from sightline.server.answers import Kept
from sightline.server.api import session
from sightline.server.api.document import note_roles
from sightline.server.api.served import Admin
from sightline.server.application import DOCUMENT, empty_application
from sightline.server.audit import Actor, AuditLog
from sightline.server.credentials import token_file
from sightline.server.guard import Refused, refusal
from sightline.server.journal import Journal
from sightline.server.metrics import CONTENT_TYPE, families_text
from sightline.server.pages import dashboard_router
from sightline.server.supervisor.behind import PAGES, PIPELINES
from sightline.server.supervisor.exchange import fetch
from sightline.server.supervisor.exposition import merged
from sightline.server.supervisor.lifecycle import SupervisedState, SupervisedStatus
from sightline.server.supervisor.proxy import pass_on
from sightline.server.supervisor.supervisor import Action, Supervisor

_ASK_SECONDS = 2.0
_DOCUMENT_SECONDS = 30.0
_ACT_SECONDS = 30.0
_WELL = frozenset({SupervisedState.ENDED, SupervisedState.STOPPED})
_Name = Annotated[str, Path(description="The name of a pipeline.")]


class ExitInfo(BaseModel):
    """How the last worker of a pipeline ended. `log` holds the last lines that it wrote on standard error."""

    at: float
    ran_seconds: float
    reason: str
    code: int | None
    signal: str | None
    log: list[str]


class SupervisedInfo(PipelineState):
    """A pipeline of this server and its supervision. `why` says what keeps it from running, or from being ready; times
    are epoch seconds. What only the pipeline knows (`streams`, `etag`) is None or empty while it does not answer.

    `failures_in_a_row` is what the wait for the next attempt grows with; `restarts` counts all attempts but the first.
    """

    file: str
    state: SupervisedState
    since: float
    why: str
    pid: int | None
    resident_bytes: int | None
    restarts: int
    failures_in_a_row: int
    next_attempt_seconds: float | None
    last_exit: ExitInfo | None
    url: str


def front_of(supervisor: Supervisor, journal: Journal) -> FastAPI:
    """Make the application, without access control. `journal` has the messages about all pipelines."""
    application = empty_application(document_url=None)
    front = _Front(supervisor, journal, own_document=application.openapi)
    application.include_router(dashboard_router())
    application.include_router(front.monitoring())
    application.include_router(note_roles(session.router()))
    application.include_router(front.api())
    application.router.routes.append(Mount(PAGES.rstrip("/"), app=front.to_page))
    application.router.routes.append(Mount(PIPELINES, app=front.to_api))
    return application


class _Front:
    """Answers what is about all pipelines, and passes on what is about one."""

    def __init__(self, supervisor: Supervisor, journal: Journal, *, own_document: Callable[[], dict[str, Any]]) -> None:
        self._supervisor = supervisor
        self._own_document = own_document
        self._journal = journal
        self._document: dict[str, Any] | None = None
        self._audit = AuditLog(token_file().with_name("audit.jsonl"))
        self._metrics = Kept(self._make_metrics)
        self._status = Kept(self._make_status)

    def monitoring(self) -> APIRouter:
        """The routes that are not part of the documented API."""
        router = APIRouter(include_in_schema=False)
        known: dict[str, Callable[..., Any]] = {
            "/healthz": self._answer_health,
            "/readyz": self._answer_readiness,
            "/metrics": self._answer_metrics,
            "/status": self._answer_status,
            DOCUMENT: self._answer_document,
        }
        for path, answer in known.items():
            router.add_api_route(path, answer, methods=["GET", "HEAD"])
        return router

    def api(self) -> APIRouter:
        """The routes of the API that the front answers itself."""
        router = APIRouter(prefix=PIPELINES, tags=["pipelines"])

        @router.get("", summary="The pipelines of this server")
        async def list_pipelines() -> list[SupervisedInfo]:
            statuses = self._supervisor.pipelines()
            known = await asyncio.gather(*(self._ask(one.name, PIPELINES) for one in statuses))
            return [_info(one, state) for one, state in zip(statuses, map(_state_in, known), strict=True)]

        @router.post("/{pipeline}/start", status_code=HTTPStatus.ACCEPTED, summary="Run a pipeline that does not run")
        def start_pipeline(pipeline: _Name, actor: Admin) -> SupervisedInfo:
            return self._act(pipeline, "start", actor)

        @router.post("/{pipeline}/stop", status_code=HTTPStatus.ACCEPTED, summary="Finish a pipeline and leave it so")
        def stop_pipeline(pipeline: _Name, actor: Admin) -> SupervisedInfo:
            return self._act(pipeline, "stop", actor)

        @router.post("/{pipeline}/restart", status_code=HTTPStatus.ACCEPTED, summary="Run a pipeline anew")
        def restart_pipeline(pipeline: _Name, actor: Admin) -> SupervisedInfo:
            return self._act(pipeline, "restart", actor)

        return note_roles(router)

    async def to_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is below `/pipelines/NAME/`."""
        await self._to_worker(PAGES, scope, receive, send)

    async def to_api(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is below `/api/v1/pipelines/NAME`."""
        await self._to_worker(f"{PIPELINES}/", scope, receive, send)

    async def _to_worker(self, prefix: str, scope: Scope, receive: Receive, send: Send) -> None:
        name, slash, _ = scope["path"].removeprefix(prefix).partition("/")
        pipeline = self._supervisor.find(name)
        if pipeline is not None and prefix == PAGES and not slash and scope["type"] == "http":
            await RedirectResponse(f"{name}/", HTTPStatus.TEMPORARY_REDIRECT)(scope, receive, send)
        elif pipeline is not None and pipeline.is_answering:
            await pass_on(pipeline.socket, scope, receive, send)
        else:
            status = None if pipeline is None else pipeline.status()
            answer = _absent(scope["path"], name, status)
            if scope["type"] == "http":
                await answer(scope, receive, send)
            else:
                await WebSocket(scope, receive, send).send_denial_response(answer)

    def _act(self, name: str, action: Action, actor: Actor) -> SupervisedInfo:
        if self._supervisor.find(name) is None:
            raise Refused(HTTPStatus.NOT_FOUND, _no_such(name))
        with self._audit.change(actor, f"{action} pipeline", target=name):
            status = self._supervisor.request(name, action).result(_ACT_SECONDS)
            if status is None:  # its file has gone meanwhile
                raise ConfigurationError(_no_such(name))
        return _info(status)

    async def _answer_health(self) -> Response:
        return PlainTextResponse("ok\n")

    async def _answer_readiness(self) -> Response:
        """503 while a pipeline that is to run is not ready; one that has ended, or was stopped, is as it should be."""
        late = [one for one in self._supervisor.pipelines() if not one.ready and one.state not in _WELL]
        if not late:
            return PlainTextResponse("ready\n")
        lines = [f"{one.name}: {one.state}" + (f": {one.why}" if one.why else "") for one in late]
        return PlainTextResponse("\n".join(["not ready", *lines, ""]), HTTPStatus.SERVICE_UNAVAILABLE)

    async def _answer_metrics(self) -> Response:
        return Response(await self._metrics.get(), headers={"Content-Type": CONTENT_TYPE})

    async def _answer_status(self) -> Response:
        return Response(await self._status.get(), media_type="application/json")

    async def _answer_document(self) -> Response:
        """The document of the front, with the routes about one pipeline once a worker has told them."""
        for status in self._supervisor.pipelines():
            if self._document is not None:
                break
            if answer := await self._ask(status.name, DOCUMENT, timeout_seconds=_DOCUMENT_SECONDS):
                self._document = _joined(json.loads(answer), self._own_document())
        return JSONResponse(self._document or self._own_document())

    async def _make_status(self) -> bytes:
        process = Process.now()
        plain = {
            "time": round(time.time(), 3),
            "pipelines": [asdict(one) for one in self._supervisor.pipelines()],
            "messages": self._journal.to_json(),
            "process": {"resident_bytes": process.resident_bytes, "threads": process.threads},
        }
        return json.dumps(plain, allow_nan=False).encode()

    async def _make_metrics(self) -> bytes:
        statuses = self._supervisor.pipelines()
        texts = await asyncio.gather(*(self._ask(one.name, "/metrics") for one in statuses))
        answered = {one.name: text.decode() for one, text in zip(statuses, texts, strict=True) if text}
        return (_own_metrics(statuses) + merged(answered)).encode()

    async def _ask(self, name: str, path: str, *, timeout_seconds: float = _ASK_SECONDS) -> bytes:
        """What a worker answers; nothing when it does not."""
        pipeline = self._supervisor.find(name)
        if pipeline is None or not pipeline.is_answering:
            return b""
        try:
            status, body = await fetch(pipeline.socket, path, timeout_seconds=timeout_seconds)
        except OSError:
            return b""
        return body if status == HTTPStatus.OK else b""


def _own_metrics(statuses: tuple[SupervisedStatus, ...]) -> str:
    families = Families()
    states = [
        ({"pipeline": one.name, "state": str(state)}, int(one.state is state))
        for one in statuses
        for state in SupervisedState
    ]
    families.gauge("supervised_state", "1 for the state that the pipeline is in.", states)
    ready = [({"pipeline": one.name}, int(one.ready)) for one in statuses]
    families.gauge("supervised_ready", "1 while the pipeline runs and is ready.", ready)
    restarts = [({"pipeline": one.name}, one.restarts) for one in statuses]
    families.counter("supervised_restarts", "How often the pipeline was started again.", restarts)
    failures = [({"pipeline": one.name}, one.failures_in_a_row) for one in statuses]
    families.gauge("supervised_failures_in_a_row", "Failures since a run of a minute.", failures)
    held = Process.now().resident_bytes
    if held is not None:
        families.gauge("supervisor_resident_memory_bytes", "Memory of the server in front.", [({}, held)])
    return families_text(families.all)


def _joined(worker: dict[str, Any], front: dict[str, Any]) -> dict[str, Any]:
    """One document of two; what both describe is as the front does it."""
    paths = {path: {**worker["paths"].get(path, {}), **front["paths"].get(path, {})} for path in worker["paths"]}
    schemas = {**worker["components"]["schemas"], **front["components"]["schemas"]}
    return {
        **front,
        "paths": {**paths, **{path: one for path, one in front["paths"].items() if path not in paths}},
        "components": {**front["components"], "schemas": schemas},
    }


def _state_in(answer: bytes) -> PipelineState | None:
    """What a worker says of its pipeline; None when it does not answer."""
    return TypeAdapter(list[PipelineState]).validate_json(answer)[0] if answer else None


def _info(status: SupervisedStatus, known: PipelineState | None = None) -> SupervisedInfo:
    own = {"streams": None, "etag": "", "saved": True} if known is None else known.model_dump()
    return SupervisedInfo.model_validate({**own, **asdict(status)})


def _absent(path: str, name: str, status: SupervisedStatus | None) -> Response:
    """The answer instead of that of a worker which is not there."""
    if status is None:
        return refusal(path, HTTPStatus.NOT_FOUND, _no_such(name))
    text = f"the pipeline {name!r} is {str(status.state).replace('_', ' ')}" + (f": {status.why}" if status.why else "")
    seconds = max(1, round(status.next_attempt_seconds or 1))
    return refusal(path, HTTPStatus.SERVICE_UNAVAILABLE, text, {"Retry-After": str(seconds)})


def _no_such(name: str) -> str:
    return f"there is no pipeline {name!r}: see {PIPELINES}"
