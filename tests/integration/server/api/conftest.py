"""A pipeline that is steered by its API, as clients with several roles do it."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from sightline.server import Listener, credentials, listen
from sightline.server.credentials import Role, TokenFile
from sightline.server.policy import Policy
from tests.integration.server.conftest import endless, wait_for

PIPELINE = "/api/v1/pipelines/street"
GATE = Path(__file__).resolve().parents[4] / "sample_videos" / "gate.mp4"
PLAZA = {"polygon": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]}
REPLAY = {"replay": {"path": str(GATE.with_suffix(".mot.txt")), "format": "mot", "label": "car"}}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def etag(self) -> str:
        return self.headers["etag"].strip('"')


@dataclass(frozen=True, slots=True)
class Client:
    """Somebody who has a token."""

    port: int
    token: str | None

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: object = None,
        *,
        content_type: str = "application/json",
        **headers: str,
    ) -> Answer:
        """Ask; a path without a beginning is about the pipeline."""
        url = path if path.startswith("/") else f"{PIPELINE}/{path}"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{url}", data, method=method)
        if self.token is not None:
            request.add_header("Authorization", f"Bearer {self.token}")
        if data is not None:
            request.add_header("Content-Type", content_type)
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=300) as answer:
                return Answer(answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, {k.lower(): v for k, v in error.headers.items()}, error.read())


@dataclass(frozen=True, slots=True)
class Steered:
    """A pipeline that is served, and clients of each role."""

    pipeline: Pipeline
    listener: Listener
    viewer: Client
    operator: Client
    admin: Client
    nobody: Client
    audit: Path

    def audited(self) -> list[dict[str, Any]]:
        """The lines of the audit log."""
        return [json.loads(line) for line in self.audit.read_text().splitlines()]


def steps() -> list[Any]:
    """Objects that move, tracked and counted, and drawn."""
    return [
        REPLAY,
        "track",
        {"lines": {"gate_in": {"from": [0.1, 0.6], "to": [0.9, 0.6]}}},
        {"zones": {"plaza": PLAZA}},
        "draw",
    ]


@pytest.fixture(scope="module", autouse=True)
def quick_hashes() -> Iterator[None]:
    """The hash of a token takes 0.04 s by design, when it is made and when it is first seen; tests of several clients
    need no such protection. Servers with a process of their own have it (`server/test_several.py`).
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(credentials._SCRYPT, "n", 16)
        yield


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenFile:
    """An empty file of tokens."""
    monkeypatch.delenv("SIGHTLINE_TOKEN", raising=False)
    monkeypatch.setenv("SIGHTLINE_TOKENS", str(tmp_path / "access" / "tokens.json"))
    return TokenFile()


@pytest.fixture
def policy() -> Policy:
    """What clients may name; tests that need more put another one in its place."""
    return Policy()


def street(outputs: Path) -> Pipeline:
    """Two endless streams, and rules."""
    sources = {"gate": endless(), "yard": endless(pattern="bars")}
    return Pipeline(name="street", sources=sources, steps=steps(), outputs=outputs, keep_running=True)


@contextmanager
def steering(pipeline: Pipeline, tokens: TokenFile, policy: Policy) -> Iterator[Steered]:
    """Run and serve a pipeline while the block is open."""
    made = {role: tokens.add(str(role), role) for role in Role}
    with listen(pipeline, "127.0.0.1:0", policy=policy) as listener, pipeline:
        viewer, operator, admin = (Client(listener.port, made[role]) for role in Role)
        nobody, audit = Client(listener.port, None), tokens.path.with_name("audit.jsonl")
        wait_for(lambda: nobody.ask("/readyz").status == 200)
        yield Steered(pipeline, listener, viewer, operator, admin, nobody, audit)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    """The pipeline; tests that need another one put it in its place."""
    return street(tmp_path / "out")


@pytest.fixture
def steered(pipeline: Pipeline, tokens: TokenFile, policy: Policy, tmp_path: Path) -> Iterator[Steered]:
    """The pipeline, running and served."""
    (tmp_path / "out").mkdir(exist_ok=True)
    with steering(pipeline, tokens, policy) as steered:
        yield steered


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steered]:
    """A pipeline, running and served, for all tests of a module that change nothing."""
    folder = tmp_path_factory.mktemp("unchanged")
    (folder / "out").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SIGHTLINE_TOKEN", raising=False)
        patch.setenv("SIGHTLINE_TOKENS", str(folder / "access" / "tokens.json"))
        with steering(street(folder / "out"), TokenFile(), Policy()) as steered:
            yield steered
