"""The route that tells whoever asks what the server takes them for."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from sightline.api import SessionInfo
from sightline.server.guard import identity_of


def router() -> APIRouter:
    """Make the route; it is about no pipeline."""
    router = APIRouter(tags=["session"])

    @router.get("/api/v1/session", summary="Show who asks")
    def show_session(request: Request) -> SessionInfo:
        identity = identity_of(request.scope)
        assert identity is not None  # the guard lets nobody else in
        return SessionInfo(name=identity.name, role=str(identity.role))

    return router
