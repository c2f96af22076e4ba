"""What goes wrong for a client of a server.

ClientError
├── Unreachable             nobody answers there, or the connection broke off
├── UnexpectedAnswer        something answered that is no server of Sightline, or one of another version
└── ApiError                the server refuses; `status` is the one of HTTP
    ├── AccessDenied        401, 403: the token is missing or wrong, or its role does not suffice
    ├── NotFound            404: there is no such pipeline, stream, step, rule or version
    ├── Conflict            409: it cannot be done as the pipeline is
    │   └── Reverted        the change was tried, and taken back
    ├── Stale               412: the configuration has changed since it was read
    ├── Invalid             422: what was sent is wrong; `problems` says where
    ├── Unavailable         429, 502, 503, 504: not now
    ├── Refused             another 4xx: it cannot be carried out as it was asked
    └── ServerFault         another 5xx: the server failed; its log says why
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from sightline.errors import ConfigurationError, SightlineError


class ClientError(SightlineError):
    """A server could not be asked, or refused."""


class Unreachable(ClientError):
    """Nobody answers at the address in time, its certificate is not trusted, or the connection broke off.

    After a change it is not known whether the change was made.
    """


class UnexpectedAnswer(ClientError):
    """What was answered is not what a server of this version answers."""


class ApiError(ClientError):
    """The server refuses. The message is its sentence, `status` the status of HTTP."""

    def __init__(self, detail: str, *, status: int) -> None:
        super().__init__(detail)
        self.status = status


class AccessDenied(ApiError):
    """The token is missing or wrong (401), or its role does not suffice (403)."""


class NotFound(ApiError, ConfigurationError):
    """There is no such pipeline, stream, step, rule or version."""


class Conflict(ApiError):
    """It cannot be done as the pipeline is now."""


class Reverted(Conflict):
    """A change was applied, did not prove itself, and was taken back; the pipeline is as before.

    `element` and `stream` say where it was seen.
    """

    def __init__(self, detail: str, *, status: int, element: str | None, stream: str | None) -> None:
        super().__init__(detail, status=status)
        self.element = element
        self.stream = stream


class Stale(ApiError):
    """The configuration has changed since it was read; `etag` is the tag of the present one. Nothing has changed."""

    def __init__(self, detail: str, *, status: int, etag: str | None) -> None:
        super().__init__(detail, status=status)
        self.etag = etag


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something that is wrong, and the dotted path of where it is."""

    path: str
    message: str


class Invalid(ApiError, ConfigurationError):
    """What was sent is wrong, or may not be sent by the API; `problems` says where and why. Nothing has changed."""

    def __init__(self, detail: str, *, status: int, problems: tuple[Mistake, ...]) -> None:
        super().__init__(detail, status=status)
        self.problems = problems


class Unavailable(ApiError):
    """It cannot be done now; try again later."""


class Refused(ApiError, ConfigurationError):
    """It cannot be carried out as it was asked."""


class ServerFault(ApiError):
    """The server failed; its log says why."""


_KINDS: Mapping[int, type[ApiError]] = {
    HTTPStatus.UNAUTHORIZED: AccessDenied,
    HTTPStatus.FORBIDDEN: AccessDenied,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.TOO_MANY_REQUESTS: Unavailable,
    HTTPStatus.BAD_GATEWAY: Unavailable,
    HTTPStatus.SERVICE_UNAVAILABLE: Unavailable,
    HTTPStatus.GATEWAY_TIMEOUT: Unavailable,
}


def error_of(status: int, content: object) -> ApiError:
    """Make the error that an answer means; `content` is its JSON, or whatever came instead."""
    found: Mapping[str, Any] = content if isinstance(content, Mapping) else {}
    detail = found.get("detail")
    text = detail if isinstance(detail, str) and detail else f"the server answered {status}"
    if status == HTTPStatus.CONFLICT and "element" in found:
        return Reverted(text, status=status, element=_text(found["element"]), stream=_text(found.get("stream")))
    if status == HTTPStatus.PRECONDITION_FAILED:
        return Stale(text, status=status, etag=_text(found.get("etag")))
    if status == HTTPStatus.UNPROCESSABLE_ENTITY:
        return Invalid(text, status=status, problems=_mistakes(found.get("problems")))
    kind = _KINDS.get(status) or (Refused if status < HTTPStatus.INTERNAL_SERVER_ERROR else ServerFault)
    return kind(text, status=status)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _mistakes(given: object) -> tuple[Mistake, ...]:
    listed = given if isinstance(given, list) else []
    found = [one for one in listed if isinstance(one, Mapping)]
    return tuple(Mistake(str(one.get("path", "")), str(one.get("message", ""))) for one in found)
