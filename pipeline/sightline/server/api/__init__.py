"""The API: `/api/v1`, described by the OpenAPI document that is made of these routes."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter

from sightline.server.api import (
    analytics,
    capture,
    configuration,
    elements,
    event_details,
    events,
    graph,
    history,
    inspections,
    live,
    pipelines,
    recordings,
    rules,
    search,
    session,
    sources,
    streams,
    system,
    versions,
)
from sightline.server.api.document import note_roles
from sightline.server.api.served import Served


def routers_of(served: Served) -> Iterator[APIRouter]:
    """Make the routes about a pipeline."""
    for part in (
        sources,
        pipelines,
        streams,
        live,
        capture,
        elements,
        graph,
        inspections,
        rules,
        configuration,
        versions,
        events,
        history,
        analytics,
        event_details,
        recordings,
        search,
        system,
    ):
        yield note_roles(part.router_of(served))
    yield note_roles(session.router())
