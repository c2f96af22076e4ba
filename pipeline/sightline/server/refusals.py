"""What is answered when something is refused or goes wrong, by the error that says so."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sightline.config import InvalidConfiguration
from sightline.config.document import dotted
from sightline.errors import ChangeReverted, ConfigurationError, OutputError, SightlineError, StaleConfiguration
from sightline.redaction import redact
from sightline.server.guard import API, Refused, refusal

PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "Problem details (RFC 9457).",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What is wrong, where, and what to do."},
        "problems": {
            "type": "array",
            "description": "Each mistake in a configuration.",
            "items": {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "message": {"type": "string"},
                    "line": {"type": "integer", "description": "Where the text of the configuration is wrong, from 1."},
                    "column": {"type": "integer"},
                },
            },
        },
        "etag": {"type": "string", "description": "The tag of the configuration now."},
        "element": {"type": ["string", "null"]},
        "stream": {"type": ["string", "null"]},
    },
}
REFUSALS: Mapping[int, str] = MappingProxyType(
    {
        400: "The request cannot be carried out as it is.",
        401: "A token is needed.",
        403: "The role does not suffice, or the request comes from a page of another site.",
        404: "There is no such thing.",
        409: "The change was tried, and taken back.",
        412: "The configuration has changed since it was read.",
        413: "The body is too large.",
        422: "The request or the configuration is wrong; `problems` says where.",
        428: "If-Match is needed.",
        429: "Too many requests.",
        431: "The address and the headers are too long.",
        503: "It cannot be done now.",
    }
)


def _problem(request: Request, status: HTTPStatus, text: str, **more: Any) -> Response:
    """Problem details with more than the text, for the API; a line of text elsewhere."""
    if not request.url.path.startswith(API):
        return refusal(request.url.path, status, text)
    content = {"title": status.phrase, "status": int(status), "detail": text, **more}
    return JSONResponse(content, status, media_type="application/problem+json")


async def _answer_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return error.response(request.url.path)


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    text = str(error.detail)
    if error.status_code == HTTPStatus.NOT_FOUND:
        text = "there is nothing here: see /, /healthz, /readyz, /metrics, /status and /api/v1/openapi.json"
    return refusal(request.url.path, error.status_code, text, error.headers)


async def _answer_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [{"path": ".".join(map(str, one["loc"])), "message": redact(one["msg"])} for one in error.errors()]
    text = "; ".join(f"{one['path']}: {one['message']}" for one in problems)
    return _problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, text, problems=problems)


async def _answer_invalid_configuration(request: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidConfiguration)
    problems = [
        {"path": dotted(one.key), "message": redact(one.message)}
        | ({"line": one.place.line, "column": one.place.column} if one.place.line else {})
        for one in error.problems
    ]
    return _problem(request, HTTPStatus.UNPROCESSABLE_ENTITY, redact(str(error)), problems=problems)


async def _answer_stale(request: Request, error: Exception) -> Response:
    assert isinstance(error, StaleConfiguration)
    return _problem(request, HTTPStatus.PRECONDITION_FAILED, redact(str(error)), etag=error.etag)


async def _answer_reverted(request: Request, error: Exception) -> Response:
    assert isinstance(error, ChangeReverted)
    text = redact(str(error))
    return _problem(request, HTTPStatus.CONFLICT, text, element=error.element, stream=error.stream)


async def _answer_mistake(request: Request, error: Exception) -> Response:
    return _problem(request, HTTPStatus.BAD_REQUEST, redact(str(error)))


async def _answer_conflict(request: Request, error: Exception) -> Response:
    return _problem(request, HTTPStatus.CONFLICT, redact(str(error)))


async def _answer_unavailable(request: Request, error: Exception) -> Response:
    return _problem(request, HTTPStatus.SERVICE_UNAVAILABLE, redact(str(error)))


async def _answer_fault(request: Request, error: Exception) -> Response:
    del error  # the server logs it
    return _problem(request, HTTPStatus.INTERNAL_SERVER_ERROR, "the answer failed; the log says why")


ANSWERS = MappingProxyType(
    {
        Exception: _answer_fault,
        Refused: _answer_refused,
        HTTPException: _answer_http_error,
        RequestValidationError: _answer_invalid_request,
        InvalidConfiguration: _answer_invalid_configuration,
        StaleConfiguration: _answer_stale,
        ChangeReverted: _answer_reverted,
        ConfigurationError: _answer_mistake,
        OutputError: _answer_unavailable,
        SightlineError: _answer_conflict,
    }
)
"""What answers which error: the handler of the nearest class."""
