"""HTTP for OpenTelemetry's exporters: answers are bounded, and nobody's words reach a log.

The exporters take a session of `requests`. This one reads at most 64 KiB of an answer and no longer than its time
limit, and remembers how the last exchange went. Texts of errors and answers may hold headers and URLs, so they are not
used: a few words of our own say what went wrong.
"""

from __future__ import annotations

import io
import logging
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

_MOST_ANSWER_BYTES = 64 << 10
_PIECE_BYTES = 8 << 10


class ObservedSession(requests.Session):
    """A session for one exporter, used by one thread at a time.

    `problem` says why the last exchange was no success, None when it was one; `body` is the body of the last answer.
    """

    def __init__(self, *, timeout_seconds: float) -> None:
        super().__init__()
        self.problem: str | None = None
        self.body = b""
        for scheme in ("http://", "https://"):
            self.mount(scheme, _Adapter(self, timeout_seconds=timeout_seconds))

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Follow no redirects: telemetry goes to the endpoint, and nowhere else."""
        del resp
        return None


class _Adapter(HTTPAdapter):
    def __init__(self, session: ObservedSession, *, timeout_seconds: float) -> None:
        super().__init__()
        self._session = session
        self._timeout_seconds = timeout_seconds

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: dict[str, str] | None = None,
    ) -> requests.Response:
        """Send a request, and return the answer with what could be read of its body in time."""
        del stream
        end = time.monotonic() + self._timeout_seconds
        session = self._session
        session.body = b""
        try:
            response = super().send(request, stream=True, timeout=timeout, verify=verify, cert=cert, proxies=proxies)
        except Exception as error:
            session.problem = _words(error)
            raise
        session.problem = None if 200 <= response.status_code < 300 else f"it answers {response.status_code}"
        session.body = _beginning(response, end=end)
        response.raw = io.BytesIO(session.body)
        return response


def _beginning(response: requests.Response, *, end: float) -> bytes:
    """Read the beginning of a body. If it is longer, breaks off or takes too long, the connection is closed."""
    found = bytearray()
    try:
        while len(found) < _MOST_ANSWER_BYTES and time.monotonic() < end:
            piece = response.raw.read1(_PIECE_BYTES, decode_content=False)
            if not piece:
                response.raw.release_conn()
                return bytes(found)
            found += piece
    except (HTTPError, OSError):
        pass
    response.close()
    return bytes(found[:_MOST_ANSWER_BYTES])


def _words(error: Exception) -> str:
    """Return what went wrong, without words of the library, which may hold the URL."""
    if isinstance(error, requests.Timeout):
        return "it does not answer in time"
    causes = list(_causes(error))
    if any(isinstance(one, ssl.SSLError) for one in causes) or isinstance(error, requests.exceptions.SSLError):
        return "TLS failed"
    reason = next((one.strerror for one in causes if isinstance(one, OSError) and one.strerror), None)
    return reason.lower() if reason else "no connection, or no answer in HTTP"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those that led to it."""
    seen: set[int] = set()
    left = [error]
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inner = (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
        left += [cause for cause in inner if isinstance(cause, BaseException)]


_HERE = threading.local()


def _is_loud(record: logging.LogRecord) -> bool:
    del record
    return not getattr(_HERE, "is_quiet", False)


@contextmanager
def quiet() -> Iterator[None]:
    """Let OpenTelemetry log nothing in this thread, while the block is open: its texts may hold headers and URLs.

    Whoever else uses the library in this process hears its messages as before.
    """
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("opentelemetry."):
            logging.getLogger(name).addFilter(_is_loud)
    before, _HERE.is_quiet = getattr(_HERE, "is_quiet", False), True
    try:
        yield
    finally:
        _HERE.is_quiet = before
