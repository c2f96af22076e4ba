"""`sightline serve`: several pipelines, each in a process of its own, that do not touch each other."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sightline.client import Client
from tests.integration.dashboard.browser import browser, page, until
from tests.integration.figures import Record
from tests.integration.server.conftest import Lint, wait_for
from tests.integration.server.live_client import watching
from tests.integration.server.several import (
    API,
    PATIENCE_SECONDS,
    Server,
    frames_in,
    pipeline_text,
    serving,
)

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["browser", "page"]  # fixtures

FUNCTIONS = """
import atexit
import ctypes
from pathlib import Path

hoard = []

atexit.register(lambda: Path("ended").touch())

def crash_when_asked(batch):
    if Path("crash").exists():
        Path("crash").unlink()
        ctypes.string_at(0)

def leak(batch):
    hoard.append(b"x" * 10_000_000)

def look(batch):
    pass

def hang(batch):
    ctypes.PyDLL(None).sleep(3600)  # holds the interpreter's lock
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with functions that steps can call, and one for pipelines."""
    (tmp_path / "functions.py").write_text(FUNCTIONS)
    (tmp_path / "pipelines").mkdir()
    return tmp_path


def put(folder: Path, name: str, *steps: str, **options: str) -> Path:
    file = folder / "pipelines" / f"{name}.yaml"
    file.write_text(pipeline_text(name, *steps, **options))
    return file


def is_alive(pid: int) -> bool:
    """Whether a process runs; what has ended may stay in the list of processes until somebody asks for its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.row(id="D5")
def test_a_pipeline_that_crashes_is_back_and_the_others_lose_no_frame(folder: Path, figure: Record) -> None:
    put(folder, "gate")
    put(folder, "yard")
    put(folder, "ill", "{apply: 'functions:crash_when_asked'}")
    with serving(folder, "pipelines") as server:
        server.wait_until_ready("gate", "yard", "ill")
        pids = {name: server.pipeline(name)["pid"] for name in ("gate", "yard", "ill")}

        begun = time.monotonic()
        (folder / "crash").touch()
        wait_for(lambda: server.pipeline("ill")["restarts"] == 1, seconds=PATIENCE_SECONDS)
        server.wait_until_ready("ill")
        seconds = time.monotonic() - begun

        ill = server.pipeline("ill")
        assert (ill["last_exit"]["signal"], ill["state"]) == ("SIGSEGV", "running")
        assert "string_at" in ill["last_exit"]["reason"]
        assert ill["pid"] != pids["ill"]
        assert {name: server.pipeline(name)["pid"] for name in ("gate", "yard")} == {
            name: pids[name] for name in ("gate", "yard")
        }
        seen = len(frames_in(folder / "gate.jsonl"))
        wait_for(lambda: len(frames_in(folder / "gate.jsonl")) > seen, seconds=PATIENCE_SECONDS)
        assert server.end() == 0

    missing = 0
    for name in ("gate", "yard"):
        frames = frames_in(folder / f"{name}.jsonl")
        assert len(frames) > 0
        missing += len(set(range(frames[-1] + 1)) - set(frames)) + (frames != sorted(frames))
    figure("a segfault in one of three: ready again", seconds, limit=5.0, unit="s")
    figure("a segfault in one of three: frames that the others lose", missing, limit=0, unit="frames")


@pytest.mark.row(id="D5")
def test_a_pipeline_that_leaks_is_started_again(folder: Path, figure: Record) -> None:
    put(folder, "leaky", "{apply: 'functions:leak'}")
    with serving(folder, "pipelines", "--memory-limit", "600MB") as server:
        largest = 0

        def is_over() -> bool:
            nonlocal largest
            now = server.pipeline("leaky")
            largest = max(largest, now.get("resident_bytes") or 0)
            return bool(now["restarts"])

        wait_for(is_over, seconds=PATIENCE_SECONDS)

        assert "may hold 600 MB" in server.pipeline("leaky")["last_exit"]["reason"]
        figure(
            "a step that leaks 250 MB a second: memory beyond the limit",
            max(0, largest / 1e6 - 600),
            limit=250,
            unit="MB",
        )


def test_a_pipeline_that_hangs_is_killed_with_its_stacks_and_started_again(folder: Path) -> None:
    put(folder, "stuck", "{apply: 'functions:hang'}")
    with serving(folder, "pipelines", "--hang-timeout", "3s") as server:
        wait_for(lambda: server.pipeline("stuck")["restarts"], seconds=PATIENCE_SECONDS)

        last = server.pipeline("stuck")["last_exit"]
        assert last["reason"].startswith("it gave no answer for")
        assert "in hang" in server.text()


def test_workers_of_a_server_that_is_killed_close_their_outputs(folder: Path) -> None:
    put(folder, "gate", "{apply: 'functions:look'}")
    with serving(folder, "pipelines") as server:
        server.wait_until_ready("gate")
        worker = server.pipeline("gate")["pid"]
        wait_for(lambda: frames_in(folder / "gate.jsonl"), seconds=PATIENCE_SECONDS)

        server.end(signal.SIGKILL)
        wait_for(lambda: not is_alive(worker), seconds=PATIENCE_SECONDS)

    assert (folder / "ended").exists(), "it was killed"
    text = (folder / "gate.jsonl").read_text()
    assert text.endswith("\n")
    assert frames_in(folder / "gate.jsonl") == list(range(text.count("\n")))


def test_files_of_a_folder_are_followed(folder: Path) -> None:
    put(folder, "gate")
    with serving(folder, "pipelines") as server:
        server.wait_until_ready("gate")

        wrong = folder / "pipelines" / "yard.yaml"
        wrong.write_text(pipeline_text("yard", "frobnicate"))
        assert "frobnicate" in server.wait_for_state("yard", "invalid")["why"]
        put(folder, "yard")
        server.wait_until_ready("yard")

        put(folder, "short", source="{pattern: bars, size: [64, 48], frames: 5}")
        assert server.wait_for_state("short", "ended")["restarts"] == 0
        assert frames_in(folder / "short.jsonl") == [0, 1, 2, 3, 4]

        gate = server.pipeline("gate")["pid"]
        (folder / "pipelines" / "gate.yaml").unlink()
        server.wait_for_state("gate", None)
        assert not is_alive(gate)


def referred(document: object) -> set[str]:
    """The schemas that a document refers to."""
    return set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))


def operations(document: Any, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """The method and path of each operation, with names instead of parameters."""
    paths = {path: re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "1"), path) for path in document["paths"]}
    return [(method.upper(), paths[path]) for path, methods in document["paths"].items() for method in methods]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of one pipeline that is ready, for tests that change nothing."""
    folder = tmp_path_factory.mktemp("shown")
    file = folder / "gate.yaml"
    file.write_text(pipeline_text("gate", "draw"))
    with serving(folder, str(file)) as server:
        server.wait_until_ready("gate")
        yield server


def test_live_video_passes_the_front(shown: Server) -> None:
    with watching(shown.port, shown.viewer, pipeline="gate", stream="cam") as client:
        numbers = [image.about["found"]["frame"] for image in client.images(5)]

    assert numbers == sorted(set(numbers))


def test_the_page_shows_all_and_leads_to_each(shown: Server, page: Page) -> None:
    page.goto(f"http://127.0.0.1:{shown.port}/?token={shown.viewer}")
    until(page, "document.querySelector('.card .badge')?.textContent === 'ready'")

    page.click(".card a")
    until(page, "document.querySelector('#summary .badge')?.textContent === '1 of 1 streams live'")
    assert page.url.startswith(f"http://127.0.0.1:{shown.port}/#/gate")


@pytest.fixture
def gate(folder: Path) -> Iterator[Server]:
    """A server of one pipeline that is ready."""
    file = put(folder, "gate", "draw")
    with serving(folder, str(file)) as server:
        server.wait_until_ready("gate")
        yield server


def _document_of(server: Server) -> dict[str, Any] | None:
    """The document of the API, when a pipeline has told its routes: a busy one may not answer in time."""
    document: dict[str, Any] = server.ask("/api/v1/openapi.json").json()
    return document if f"{API}/{{pipeline}}/streams" in document["paths"] else None


def test_a_server_is_asked_about_all_and_passes_on_what_is_about_one(gate: Server, folder: Path, lint: Lint) -> None:
    assert gate.ask("/readyz").text == "ready\n"
    assert gate.ask("/pipelines/gate/readyz").text == "ready\n"
    assert gate.ask("/pipelines/gate").headers["location"] == "gate/"
    assert gate.ask("/pipelines/gate/").text.startswith("<!doctype html>")
    assert gate.ask("/pipelines/gate/dashboard/app.js").status == 200
    assert [one["name"] for one in gate.ask("/pipelines/gate/status").json()["streams"]] == ["cam"]
    wait_for(lambda: gate.ask(f"{API}/gate/streams/cam/image.jpg").body.startswith(b"\xff\xd8"))
    assert gate.ask("/").text.startswith("<!doctype html>")
    assert gate.ask(f"{API}/gate").json()["pipeline"] == "gate"
    document = wait_for(lambda: _document_of(gate))
    for path in ("", "/{pipeline}/restart", "/{pipeline}/streams", "/{pipeline}/configuration"):
        assert f"{API}{path}" in document["paths"]
    assert "SupervisedInfo" in json.dumps(document["paths"][API])
    assert referred(document) <= set(document["components"]["schemas"])
    with Client(f"http://127.0.0.1:{gate.port}", token=gate.admin) as client:
        # A busy pipeline may not answer the server in time.
        listed = wait_for(lambda: next((one for one in client.pipelines() if one.streams is not None), None))
        assert (listed.name, listed.running, listed.ready, listed.streams) == ("gate", True, True, 1)
        client.pipeline("gate").put_stream("yard", {"pattern": "bars"}, if_match=listed.etag)
        assert [one.name for one in client.pipeline("gate").streams()] == ["cam", "yard"]
    assert gate.ask(f"{API}/gate", token="").status == 401
    assert gate.ask("/pipelines/yard/").status == 404
    live = 'sightline_stream_state{pipeline="gate",stream="cam",state="live"} 1'
    metrics = wait_for(lambda: next((text for text in [gate.ask("/metrics").text] if live in text), None))
    assert 'sightline_supervised_state{pipeline="gate",state="running"} 1' in metrics
    assert 'sightline_pipeline_running{pipeline="gate"} 1' in metrics
    assert lint(metrics) == ""

    # who may do what
    assert gate.ask("/pipelines/gate/", token="").status == 401
    for method, path in operations(document, {"pipeline": "gate", "stream": "cam", "element": "draw-1"}):
        assert gate.ask(path, method=method, token="").status == 401, (method, path)
        if method != "GET":
            assert gate.ask(path, method=method, token=gate.viewer).status == 403, (method, path)
    for action in ("start", "stop", "restart"):
        assert gate.ask(f"{API}/yard/{action}", method="POST").status == 404
    assert gate.pipeline("gate")["restarts"] == 0

    # steering
    before = gate.pipeline("gate")["pid"]
    assert gate.ask(f"{API}/gate/stop", method="POST").status == 202
    gate.wait_for_state("gate", "stopped")
    assert gate.ask("/api/v1/openapi.json").json() == document
    assert gate.ask("/readyz").status == 200
    assert gate.ask("/pipelines/gate/status").status == 503
    assert gate.ask(f"{API}/gate/start", method="POST").status == 202
    gate.wait_until_ready("gate")
    between = gate.pipeline("gate")["pid"]
    assert gate.ask(f"{API}/gate/restart", method="POST").status == 202
    wait_for(lambda: gate.pipeline("gate")["pid"] not in (before, between, None), seconds=PATIENCE_SECONDS)
    gate.wait_until_ready("gate")
    assert gate.end(signal.SIGINT) == 130
    changes = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    assert [(one["actor"], one["action"]) for one in changes if "actor" in one] == [
        ("anna", action) for action in ("put stream", "stop pipeline", "start pipeline", "restart pipeline")
    ]
    assert "Traceback" not in gate.text()
