"""The routes for monitoring."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any

from anyio import to_thread
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from sightline.runtime.stats.snapshot import RunView
from sightline.server.answers import Kept
from sightline.server.journal import Journal
from sightline.server.metrics import CONTENT_TYPE, metrics_text
from sightline.server.status import not_ready, status_json


class Monitoring:
    """Answers requests about one pipeline."""

    def __init__(
        self,
        view: Callable[[], RunView | None],
        *,
        journal: Journal,
        served: Callable[[], list[str]],
    ) -> None:
        self._view = view
        self._journal = journal
        self._served = served
        self._metrics = Kept(partial(to_thread.run_sync, self._make_metrics))
        self._status = Kept(partial(to_thread.run_sync, self._make_status))

    def router(self) -> APIRouter:
        """The routes; they are not part of the documented API."""
        router = APIRouter(include_in_schema=False)
        known: dict[str, Callable[..., Any]] = {
            "/healthz": self._answer_health,
            "/readyz": self._answer_readiness,
            "/metrics": self._answer_metrics,
            "/status": self._answer_status,
        }
        for path, answer in known.items():
            router.add_api_route(path, answer, methods=["GET", "HEAD"])
        return router

    async def _answer_health(self) -> Response:
        return PlainTextResponse("ok\n")

    def _answer_readiness(self, request: Request) -> Response:
        missing = not_ready(self._view(), wanted=request.query_params.getlist("stream"))
        if not missing:
            return PlainTextResponse("ready\n")
        lines = [f"{name}: {why}" if name else why for name, why in missing.items()]
        return PlainTextResponse("\n".join(["not ready", *lines, ""]), HTTPStatus.SERVICE_UNAVAILABLE)

    async def _answer_metrics(self) -> Response:
        return Response(await self._metrics.get(), headers={"Content-Type": CONTENT_TYPE})

    async def _answer_status(self) -> Response:
        return Response(await self._status.get(), media_type="application/json")

    def _make_metrics(self) -> bytes:
        view = self._view()
        return metrics_text(view, is_ready=not not_ready(view)).encode()

    def _make_status(self) -> bytes:
        view = self._view()
        plain = status_json(view, is_ready=not not_ready(view), messages=self._journal.to_json())
        plain["served"] = self._served()
        return json.dumps(plain, allow_nan=False).encode()
