"""The OpenAPI document: what FastAPI makes of the routes, with who may call them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from sightline.server.api.served import AskedBy
from sightline.server.credentials import Role

_READING = ("GET", "HEAD")
_BEARER = {"type": "http", "scheme": "bearer", "description": "A token: `sightline token add NAME --role ROLE`."}


class Application(FastAPI):
    """An application whose document says of each operation which role it needs (`x-role`)."""

    def openapi(self) -> dict[str, Any]:
        """Return the document (OpenAPI 3.1)."""
        if self.openapi_schema is None:
            document = super().openapi()
            document["components"]["securitySchemes"] = {"token": _BEARER}
            document["security"] = [{"token": []}]
        assert self.openapi_schema is not None
        return self.openapi_schema


def note_roles(router: APIRouter) -> APIRouter:
    """Note at each route of the API which role it needs, for the document."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            role = _role_of(route, min(route.methods or {"GET"}))
            route.openapi_extra = {**(route.openapi_extra or {}), "x-role": str(role)}
    return router


def _role_of(route: APIRoute, method: str) -> Role:
    """The role that a route asks for; else what the guard asks of every route."""
    asked = [call.role for call in _calls(route.dependant) if isinstance(call, AskedBy)]
    return max([Role.VIEWER if method in _READING else Role.OPERATOR, *asked], key=list(Role).index)


def _calls(dependant: Dependant) -> Iterator[object]:
    for one in dependant.dependencies:
        yield one.call
        yield from _calls(one)
