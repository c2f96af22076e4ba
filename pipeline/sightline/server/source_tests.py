"""Tests of sources that somebody wants to add: each in a process of its own, bounded in number and time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from threading import Lock

from pydantic import ValidationError

from sightline.api import SourceSample
from sightline.graph.source import SourceElement
from sightline.runtime.sources.sample import SampleRequest
from sightline.server.guard import Refused

DEADLINE_SECONDS = 20.0
_SILENCE_SECONDS = 8.0
_MOST_AT_ONCE = 3
_LARGEST_WH = (1280, 720)
_COMMAND = (sys.executable, "-m", "sightline.runtime.sources.sample")


class SourceTests:
    """Takes a first image of sources. One test at a time for each client, and three in all; used from any thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._clients: set[str] = set()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False

    def run(self, source: SourceElement, *, stream: str, client: str) -> SourceSample:
        """Read a source until there is an image, for twenty seconds at most. It must have been judged.

        Raises Refused when the client has a test under way, or too many others have.
        """
        request = SampleRequest(
            kind=source.name,
            options=source.model_dump(mode="json", by_alias=True, exclude_unset=True),
            stream=stream,
            silence_seconds=_SILENCE_SECONDS,
            largest_wh=_LARGEST_WH,
        )
        with self.turn(client):
            return self._sampled(request)

    def close(self) -> None:
        """End all tests that are under way; there will be no others."""
        with self._lock:
            self._is_closed = True
            for process in self._processes:
                process.kill()

    @contextmanager
    def turn(self, client: str) -> Iterator[None]:
        """Take the turn of a client while the block runs. Raises Refused when it has one, or too many others have."""
        with self._lock:
            if client in self._clients:
                text = "a test that you have asked for is under way: wait until it has ended"
                raise Refused(HTTPStatus.TOO_MANY_REQUESTS, text, {"Retry-After": "5"})
            if len(self._clients) >= _MOST_AT_ONCE or self._is_closed:
                text = "others test sources just now: try again in some seconds"
                raise Refused(HTTPStatus.SERVICE_UNAVAILABLE, text, {"Retry-After": "5"})
            self._clients.add(client)
        try:
            yield
        finally:
            with self._lock:
                self._clients.discard(client)

    def _sampled(self, request: SampleRequest) -> SourceSample:
        begun = time.monotonic()
        process = subprocess.Popen(  # noqa: S603  the interpreter that runs this
            _COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        with self._lock:
            self._processes.add(process)
            if self._is_closed:
                process.kill()
        try:
            output, _ = process.communicate(request.model_dump_json().encode(), timeout=DEADLINE_SECONDS)
            return SourceSample.model_validate_json(output)
        except subprocess.TimeoutExpired:
            text = f"no image came within {DEADLINE_SECONDS:.0f} s; the network may be slow, or key frames far apart"
            return SourceSample(seconds=time.monotonic() - begun, reason="late", message=text)
        except ValidationError:
            text = f"what came cannot be decoded: the process that read it has ended ({process.returncode})"
            return SourceSample(seconds=time.monotonic() - begun, reason="unreadable", message=text)
        finally:
            process.kill()
            process.wait()
            with self._lock:
                self._processes.discard(process)
