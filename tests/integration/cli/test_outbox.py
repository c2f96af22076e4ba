"""`sightline outbox`: what waits for a web service is shown, delivered and removed without the pipeline."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cli.conftest import command
from tests.integration.delivery.web_server import Exchange, Request, web_server
from tests.ports import free_port
from tests.waiting import wait_until

from sightline.cli.main import FAILED, INTERRUPTED, WRONG, execute
from sightline.errors import OutputError
from sightline.runtime.delivery.store import OutboxStore

FRAMES = 20
PASSWORD = "correct-horse"
OUTBOX = Path("out/street.outbox")
SIDE_FILES = ("street.outbox-wal", "street.outbox-shm")
Outbox = Callable[..., tuple[int, str, str]]


def configure(*ports: int, frames: int | None = FRAMES) -> None:
    """Write a pipeline into the working directory that posts a record for each frame to each port."""
    steps = "".join(
        f"  - webhook: {{url: 'http://operator:{PASSWORD}@127.0.0.1:{port}/seen', timeout: 5s}}\n" for port in ports
    )
    source = f"{{pattern: counter, size: [64, 48], frames: {frames or 'null'}, realtime: {str(not frames).lower()}}}"
    Path("street.yaml").write_text(
        f"name: street\nsources: {{gate: {source}}}\noutbox: {{linger: 0s}}\npipeline:\n{steps or '  - draw'}\n"
    )


def accept(exchange: Exchange, request: Request) -> None:
    exchange.answer(204)


def waiting() -> dict[str, int]:
    """How many records wait, by destination."""
    if not OUTBOX.exists():
        return {}
    with closing(OutboxStore(OUTBOX, read_only=True)) as store:
        return {name: one.records for name, one in store.waiting().items()}


def frames_of(requests: list[Request]) -> list[int]:
    return [record["frame"] for request in requests for record in json.loads(request.body)]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def outbox(capsys: pytest.CaptureFixture[str]) -> Outbox:
    """Call `sightline outbox`; returns the exit code, the output and what stood on standard error."""

    def called(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = execute(["outbox", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return called


@pytest.fixture
def ports() -> tuple[int, int]:
    """Two ports at which nothing listens; for each 20 records wait, as after a run through an outage."""
    ports = free_port(), free_port()
    configure(*ports)
    assert execute(["run", "street.yaml", "--quiet"]) == 0
    assert waiting() == {"webhook-1": FRAMES, "webhook-2": FRAMES}
    return ports


@pytest.fixture
def running() -> Iterator[None]:
    """A pipeline in another process, which has made records for a destination that is away."""
    configure(free_port(), frames=None)
    log = Path("run.log")
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command("run", "street.yaml", "--quiet"), stdout=file, stderr=file)
    try:
        wait_until(lambda: _has_records() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        yield
    finally:
        process.kill()
        process.wait()


def _has_records() -> bool:
    """Whether records wait, in an outbox that is perhaps being made just now."""
    try:
        return bool(waiting())
    except OutputError:
        return False


class TestShow:
    def test_each_destination_is_a_row(self, outbox: Outbox, ports: tuple[int, int]) -> None:
        code, text, _ = outbox("show", "street.yaml")

        title, head, *rows = text.splitlines()
        assert code == 0
        assert title.endswith("street.outbox:")
        assert head.split() == ["destination", "records", "size", "oldest", "address"]
        assert {row.split()[3] for row in rows} == {"kB"}
        assert [(row.split()[:2], row.split()[-1]) for row in rows] == [
            ([f"webhook-{number}", str(FRAMES)], f"http://127.0.0.1:{port}/seen")
            for number, port in enumerate(ports, start=1)
        ]

    def test_json_has_the_same(self, outbox: Outbox, ports: tuple[int, int]) -> None:
        code, text, _ = outbox("show", "street.yaml", "--json")

        shown: dict[str, Any] = json.loads(text)
        first = shown["destinations"]["webhook-1"]
        assert code == 0
        assert list(shown["destinations"]) == ["webhook-1", "webhook-2"]
        assert first["records"] == FRAMES
        assert first["bytes"] > FRAMES
        assert first["oldest_seconds"] >= 0
        assert first["address"] == f"http://127.0.0.1:{ports[0]}/seen"

    @pytest.mark.parametrize("options", [[], ["--json"]])
    def test_no_password_is_shown(self, outbox: Outbox, ports: tuple[int, int], options: list[str]) -> None:
        assert PASSWORD not in "".join(str(part) for part in outbox("show", "street.yaml", *options))

    @pytest.mark.usefixtures("ports")
    def test_the_file_alone_is_enough(self, outbox: Outbox) -> None:
        code, text, _ = outbox("show", str(OUTBOX))

        assert code == 0
        assert [row.split()[:2] for row in text.splitlines()[2:]] == [["webhook-1", "20"], ["webhook-2", "20"]]

    @pytest.mark.usefixtures("ports")
    def test_a_name_with_special_characters_is_found(self, outbox: Outbox) -> None:
        strange = OUTBOX.rename(OUTBOX.with_name("50%20?a=b#c d.outbox"))

        code, text, _ = outbox("show", str(strange), "--json")

        assert code == 0
        assert json.loads(text)["destinations"]["webhook-1"]["records"] == FRAMES

    @pytest.mark.usefixtures("ports")
    def test_looking_leaves_no_files_behind(self, outbox: Outbox) -> None:
        outbox("show", "street.yaml")

        assert not [name for name in SIDE_FILES if OUTBOX.with_name(name).exists()]

    @pytest.mark.usefixtures("ports")
    def test_records_of_a_step_that_is_gone_are_shown_as_such(self, outbox: Outbox) -> None:
        configure(free_port())

        _, text, _ = outbox("show", "street.yaml")

        assert "no step of the pipeline has this id" in text.splitlines()[-1]

    def test_without_an_outbox_nothing_waits(self, outbox: Outbox) -> None:
        configure(free_port())

        code, text, _ = outbox("show", "street.yaml")

        assert (code, text.endswith("street.outbox: nothing waits\n")) == (0, True)
        assert not OUTBOX.parent.exists()

    @pytest.mark.usefixtures("ports")
    def test_of_an_empty_outbox_nothing_waits(self, outbox: Outbox) -> None:
        outbox("purge", "street.yaml", "--yes")

        assert outbox("show", "street.yaml", "--json")[1].endswith('"destinations": {}\n}\n')
        assert outbox("show", str(OUTBOX))[1] == f"{OUTBOX}: nothing waits\n"

    @pytest.mark.usefixtures("running")
    def test_it_shows_a_run_that_goes_on(self, outbox: Outbox) -> None:
        def records() -> int:
            code, text, said = outbox("show", "street.yaml", "--json")
            assert (code, said) == (0, "")
            return int(json.loads(text)["destinations"]["webhook-1"]["records"])

        first = records()
        wait_until(lambda: records() > first)


@pytest.mark.parametrize("action", [["show"], ["purge", "--yes"]])
@pytest.mark.parametrize("kind", ["text", "database", "folder"])
def test_a_file_that_is_no_outbox_is_one_error(outbox: Outbox, action: list[str], kind: str) -> None:
    path = Path("other.outbox")
    if kind == "text":
        path.write_text("no database\n" * 100)
    elif kind == "database":
        with closing(sqlite3.connect(path)) as database:
            database.execute("CREATE TABLE frames(number INTEGER)")
    else:
        path.mkdir()
    before = path.read_bytes() if path.is_file() else b""

    code, text, said = outbox(*action, str(path))

    reason = "it cannot be read" if kind == "folder" else "it is not an outbox"
    assert (code, text, len(said.splitlines())) == (FAILED, "", 1)
    assert said.startswith("error: cannot ")
    assert said.endswith(f" the outbox other.outbox: {reason}\n")
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize("action", ["show", "drain", "purge"])
def test_a_file_that_is_not_there_is_one_error(outbox: Outbox, action: str) -> None:
    code, text, said = outbox(action, "nothing.outbox")

    assert (code, text) == (WRONG, "")
    assert len(said.splitlines()) == 1
    assert "nothing.outbox" in said


class TestDrain:
    def test_everything_is_delivered(self, outbox: Outbox, ports: tuple[int, int]) -> None:
        first, second = ports
        with web_server(accept, port=first) as one, web_server(accept, port=second) as other:
            code, text, _ = outbox("drain", "street.yaml")

        assert code == 0
        assert text.splitlines() == [
            f"webhook-{number}: 20 records delivered to http://127.0.0.1:{port}/seen, 0 left"
            for number, port in enumerate(ports, start=1)
        ]
        assert frames_of(one.requests) == frames_of(other.requests) == list(range(FRAMES))
        assert waiting() == {}
        assert not [name for name in SIDE_FILES if OUTBOX.with_name(name).exists()]

    def test_a_destination_that_is_away_keeps_its_records(self, outbox: Outbox, ports: tuple[int, int]) -> None:
        code, text, said = outbox("drain", "street.yaml", "--timeout", "1s")

        assert code == FAILED
        assert f"webhook-1: 0 records delivered to http://127.0.0.1:{ports[0]}/seen, 20 left" in text.splitlines()
        assert "refused" in said
        assert waiting() == {"webhook-1": FRAMES, "webhook-2": FRAMES}

    @pytest.mark.usefixtures("ports")
    def test_an_interrupt_keeps_what_is_left(self) -> None:
        with subprocess.Popen(command("outbox", "drain", "street.yaml"), stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            assert "refused" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            said = process.stderr.read()

        assert process.returncode == INTERRUPTED
        assert "Traceback" not in said
        assert waiting() == {"webhook-1": FRAMES, "webhook-2": FRAMES}

    def test_records_of_a_step_that_is_gone_stay(self, outbox: Outbox, ports: tuple[int, int]) -> None:
        configure(ports[0])
        with web_server(accept, port=ports[0]):
            code, _, said = outbox("drain", "street.yaml")

        assert code == 0
        assert said == "webhook-2: no step of the pipeline has this id; its records stay (`sightline outbox purge`)\n"
        assert waiting() == {"webhook-2": FRAMES}

    def test_refused_records_are_counted(self, outbox: Outbox) -> None:
        port = free_port()
        configure(port, frames=1)
        execute(["run", "street.yaml", "--quiet"])
        with web_server(lambda exchange, _: exchange.answer(422, "no"), port=port):
            code, text, _ = outbox("drain", "street.yaml")

        assert code == 0
        assert text.endswith("/seen, 0 left, 1 refused\n")
        assert len(OUTBOX.with_name("street.outbox.refused.jsonl").read_text().splitlines()) == 1

    def test_without_an_outbox_there_is_nothing_to_deliver(self, outbox: Outbox) -> None:
        configure(free_port())

        code, text, _ = outbox("drain", "street.yaml")

        assert (code, text.endswith("street.outbox: nothing to deliver\n")) == (0, True)

    @pytest.mark.usefixtures("ports")
    def test_it_needs_the_pipeline(self, outbox: Outbox) -> None:
        code, _, said = outbox("drain", str(OUTBOX))

        assert code == WRONG
        assert said == f"error: {OUTBOX}: name the YAML file of the pipeline, which says how to deliver\n"


class TestPurge:
    @pytest.mark.usefixtures("ports")
    def test_everything_is_removed(self, outbox: Outbox) -> None:
        code, text, _ = outbox("purge", "street.yaml", "--yes")

        assert (code, text.endswith("street.outbox: 40 records removed\n")) == (0, True)
        assert waiting() == {}
        assert not [name for name in SIDE_FILES if OUTBOX.with_name(name).exists()]

    @pytest.mark.usefixtures("ports")
    def test_one_destination_is_removed(self, outbox: Outbox) -> None:
        code, text, _ = outbox("purge", str(OUTBOX), "--destination", "webhook-2", "--yes")

        assert (code, text) == (0, f"{OUTBOX}: 20 records removed\n")
        assert waiting() == {"webhook-1": FRAMES}

    @pytest.mark.usefixtures("ports")
    def test_an_unknown_destination_is_an_error_that_names_the_known(self, outbox: Outbox) -> None:
        code, _, said = outbox("purge", str(OUTBOX), "--destination", "mqtt-1", "--yes")

        assert code == WRONG
        assert said == (
            f"error: {OUTBOX}: nothing waits for 'mqtt-1'; destinations with records: webhook-1, webhook-2\n"
        )
        assert waiting() == {"webhook-1": FRAMES, "webhook-2": FRAMES}

    @pytest.mark.usefixtures("ports")
    @pytest.mark.parametrize(("answer", "left"), [("y\n", {}), ("n\n", {"webhook-1": FRAMES, "webhook-2": FRAMES})])
    def test_it_asks_first(self, answer: str, left: dict[str, int]) -> None:
        asked = subprocess.run(
            command("outbox", "purge", str(OUTBOX)), input=answer, capture_output=True, text=True, check=False
        )

        assert f"Remove 40 records for all destinations from {OUTBOX}? [y/N]" in asked.stdout
        assert waiting() == left


@pytest.mark.usefixtures("ports")
@pytest.mark.parametrize("action", [["drain"], ["purge", "--yes"]])
def test_an_outbox_in_use_stays_as_it_is(outbox: Outbox, action: list[str]) -> None:
    with closing(OutboxStore(OUTBOX)):
        code, text, said = outbox(*action, "street.yaml")

        assert (code, text) == (WRONG, "")
        assert len(said.splitlines()) == 1
        assert "street.outbox is open in another process" in said
        assert waiting() == {"webhook-1": FRAMES, "webhook-2": FRAMES}
