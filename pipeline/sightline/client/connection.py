"""The connection to a server: requests, their time limits, and what answers mean."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import msgspec
from urllib3 import PoolManager, Timeout
from urllib3.exceptions import HTTPError, LocationParseError
from urllib3.response import BaseHTTPResponse

from sightline.client.errors import ApiError, Unavailable, UnexpectedAnswer, Unreachable, error_of
from sightline.errors import ConfigurationError

URL_VARIABLE, TOKEN_VARIABLE = "SIGHTLINE_URL", "SIGHTLINE_TOKEN"
DEFAULT_URL = "http://127.0.0.1:8080"
_TRIES = 4
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 5.0
_CHANGE_SECONDS = 400.0
"""How long a change may take beside its probation: the server gives building models 330 s."""
Query = Mapping[str, str | float | Sequence[str] | None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered: the content, and the tag of the configuration where the answer has one."""

    content: bytes
    etag: str | None

    def json(self) -> object:
        """The content, read as JSON. Raises UnexpectedAnswer."""
        try:
            return msgspec.json.decode(self.content)
        except ValueError as error:
            raise UnexpectedAnswer(f"the answer is not JSON: {error}; is this a server of Sightline?") from error


class Connection:
    """Asks one server; may be used from several threads.

    Reading is tried again, up to three times, when the connection fails or the server has no time. What changes
    something is sent once: whether it was carried out cannot be known when the connection breaks off. Redirects are
    refused, because the token would go elsewhere, and so are certificates that `ca_file`, else the system, does not
    know. Proxies of the environment are not used.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout_seconds: float = 30.0,
        ca_file: Path | None = None,
    ) -> None:
        """Nothing is asked yet. Raises ConfigurationError."""
        self.url = _checked_url(url or os.environ.get(URL_VARIABLE) or DEFAULT_URL)
        token = os.environ.get(TOKEN_VARIABLE) if token is None else token
        self._headers = {"Accept": "application/json", "User-Agent": "sightline-client"}
        if token:
            if not all("!" <= letter <= "~" for letter in token):
                raise ConfigurationError("the token has letters that no token has: spaces, line ends or others")
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout_seconds = timeout_seconds
        if ca_file is not None and not ca_file.is_file():
            raise ConfigurationError(f"{ca_file}: there is no such file of certificates")
        self._pool = PoolManager(
            num_pools=1, maxsize=4, retries=False, ca_certs=None if ca_file is None else str(ca_file)
        )

    def close(self) -> None:
        """Close the connections; harmless when called again."""
        self._pool.clear()

    def read(self, path: str, *, query: Query | None = None) -> Answer:
        """Ask for something. Raises ClientError."""
        wait_seconds = _FIRST_WAIT_SECONDS
        for tries_left in reversed(range(_TRIES)):
            try:
                return self._answer("GET", path, query=query)
            except (Unreachable, Unavailable):
                if not tries_left:
                    raise
            time.sleep(wait_seconds)
            wait_seconds = min(wait_seconds * 3, _LONGEST_WAIT_SECONDS)
        raise AssertionError("the last try returns or raises")

    def write(
        self,
        method: str,
        path: str,
        *,
        json: object = msgspec.UNSET,
        yaml: str | None = None,
        image: bytes | None = None,
        if_match: str | None = None,
        prove_seconds: float | None = None,
        query: Query | None = None,
    ) -> Answer:
        """Change something, or have something done, once. `if_match` is the tag that the configuration must have (`*`:
        any), `prove_seconds` the probation to wait for. Raises ClientError.
        """
        headers, body = {}, None
        if if_match is not None:
            headers["If-Match"] = if_match if if_match == "*" else f'"{if_match}"'
        if yaml is not None:
            headers["Content-Type"], body = "application/yaml", yaml.encode()
        elif image is not None:
            headers["Content-Type"], body = _image_type(image), image
        elif json is not msgspec.UNSET:
            headers["Content-Type"], body = "application/json", msgspec.json.encode(json)
        return self._answer(
            method,
            path,
            query={**(query or {}), "prove": prove_seconds},
            body=body,
            headers=headers,
            seconds=max(self._timeout_seconds, _CHANGE_SECONDS + (prove_seconds or 0)),
        )

    def open(
        self,
        path: str,
        *,
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float,
        body: bytes | None = None,
        method: str = "GET",
    ) -> BaseHTTPResponse:
        """Return an answer whose content is still to be read; whoever asked for it releases it. Raises ClientError."""
        fields = [
            (name, str(one))
            for name, value in (query or {}).items()
            if value is not None
            for one in ([value] if isinstance(value, str | int | float) else value)
        ]
        try:
            response = self._pool.urlopen(
                method,
                f"{self.url}{path}?{urlencode(fields)}" if fields else f"{self.url}{path}",
                headers={**self._headers, **(headers or {})},
                body=body,
                timeout=Timeout(connect=min(self._timeout_seconds, seconds), read=seconds),
                preload_content=False,
                redirect=False,
            )
        except HTTPError as error:
            raise self._unreachable(error) from error
        if response.status >= HTTPStatus.MULTIPLE_CHOICES:
            raise self._refusal(response)
        return response

    def _answer(
        self,
        method: str,
        path: str,
        *,
        query: Query | None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Answer:
        seconds = self._timeout_seconds if seconds is None else seconds
        response = self.open(path, query=query, headers=headers, seconds=seconds, body=body, method=method)
        etag = response.headers.get("ETag")
        return Answer(self._content(response), None if etag is None else etag.removeprefix("W/").strip('"'))

    def _content(self, response: BaseHTTPResponse) -> bytes:
        try:
            return response.read()
        except HTTPError as error:
            raise self._unreachable(error) from error
        finally:
            response.release_conn()

    def _refusal(self, response: BaseHTTPResponse) -> ApiError | UnexpectedAnswer:
        content = self._content(response)
        if response.status < HTTPStatus.BAD_REQUEST:
            return UnexpectedAnswer(f"{self.url} sends elsewhere ({response.status}): give the address of the server")
        try:
            return error_of(response.status, msgspec.json.decode(content))
        except ValueError:
            return error_of(response.status, None)

    def _unreachable(self, error: HTTPError) -> Unreachable:
        cause = getattr(error, "reason", None) or error
        text = str(cause).partition("): ")[2] or str(cause)  # without the object of the library
        return Unreachable(f"{self.url} does not answer: {text}")


def _image_type(image: bytes) -> str:
    """The media type of an encoded image by its first bytes; what is something else is for the server to refuse."""
    known = {b"\x89PNG": "image/png", b"RIFF": "image/webp", b"BM": "image/bmp"}
    return next((name for beginning, name in known.items() if image.startswith(beginning)), "image/jpeg")


def _checked_url(url: str) -> str:
    """Return the address without the slash at its end. Raises ConfigurationError."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname is not None and (parts.port or 1) > 0
    except (ValueError, LocationParseError):
        valid = False
    if not valid:
        raise ConfigurationError(f"{url!r} is no address of a server: give one such as {DEFAULT_URL}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigurationError("the address of a server has neither a user nor a query: give the token as a token")
    return url.rstrip("/")
