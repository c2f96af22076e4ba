"""Routes about the pipeline as a whole: what it is, how it is, and what it has done."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Depends

from sightline.api import PipelineState
from sightline.server.api.served import PIPELINE, Served
from sightline.server.guard import Refused
from sightline.server.status import not_ready, status_json


def router_of(served: Served) -> APIRouter:
    """Make the routes."""
    router = APIRouter(tags=["pipelines"])
    pipeline = served.pipeline

    @router.get("/api/v1/pipelines", summary="List the pipelines")
    def list_pipelines() -> list[PipelineState]:
        view, configuration = pipeline.view(), pipeline.configuration
        return [
            PipelineState(
                name=served.name,
                running=view is not None and view.is_running,
                ready=not not_ready(view),
                streams=len(configuration.description.sources),
                etag=configuration.etag,
                saved=configuration.is_of_file,
            )
        ]

    @router.get(PIPELINE, summary="Show how a pipeline is", dependencies=[Depends(served.known)])
    def show_pipeline() -> dict[str, Any]:
        """Streams, steps, queues, deliveries and messages with all counters, as on the page."""
        view = pipeline.view()
        return status_json(view, is_ready=not not_ready(view), messages=served.journal.to_json())

    @router.get(f"{PIPELINE}/report", summary="Show the report of the last run", dependencies=[Depends(served.known)])
    def show_report() -> dict[str, Any]:
        """The report in the form of `sightline run --report`, once the run is over."""
        report = pipeline.report
        if report is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is no report before the run is over; see the pipeline itself")
        return report.to_json()

    return router
