"""Pipelines that are watched over HTTP, as programs and people watch them."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from sightline import Pipeline
from sightline.server import Listener, listen
from sightline.server.credentials import Role, TokenFile
from tests.conftest import missing
from tests.waiting import LIMIT_SECONDS, asked, holds

TOKEN = "0123456789abcdef0123456789abcdef"
Lint = Callable[[str], str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server answered."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


def ask(port: int, path: str, *, method: str = "GET", token: str | None = None, **headers: str) -> Answer:
    """Ask a server on the loopback."""
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return Answer(response.status, response.read(), {name.lower(): value for name, value in response.getheaders()})
    finally:
        connection.close()


def wait_for(condition: Callable[[], T | None], *, seconds: float = LIMIT_SECONDS) -> T:
    """Wait until something is so, and return it; fail when it is not in time."""
    deadline = time.monotonic() + seconds
    while not (found := holds(condition)):
        assert time.monotonic() < deadline, f"it did not become so in time, but {found!r}: {asked(condition)}"
    return found


def endless(**options: object) -> dict[str, object]:
    """A test image without end, at the speed of a slow camera, which leaves the machine to the tests."""
    return {"pattern": "moving", "size": [64, 48], "frames": None, "realtime": True, "fps": 10, **options}


@contextmanager
def watched(pipeline: Pipeline, *, token: str | None = None) -> Iterator[Listener]:
    """Run a pipeline while the block is open, and listen on a free port."""
    with listen(pipeline, "127.0.0.1:0", token=token) as listener, pipeline:
        yield listener


@pytest.fixture
def viewer() -> Iterator[str]:
    """The token of somebody who may look."""
    tokens = TokenFile()
    yield tokens.add("viewer", Role.VIEWER)
    tokens.remove("viewer")


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    """A pipeline of two streams that runs and is watched without a token, for all tests of a module."""
    pipeline = Pipeline(
        name="street", sources={"gate": endless(), "yard north": endless(pattern="bars")}, steps=["draw"]
    )
    with watched(pipeline) as listening:
        wait_for(lambda: ask(listening.port, "/readyz").status == 200)
        yield listening


@pytest.fixture
def lint() -> Lint:
    """Return what the linter of Prometheus says about metrics: nothing when they are right."""
    tool = shutil.which("promtool")
    if tool is None:
        missing("promtool is not installed (Debian: prometheus)")
    command = [str(tool), "check", "metrics"]

    def linted(text: str) -> str:
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=300)
        return done.stdout + done.stderr + ("" if done.returncode == 0 else f"exit code {done.returncode}")

    return linted
