"""Whole pipelines whose destinations hang, refuse or are slow, and that change while records wait for them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sightline import Pipeline
from tests.integration.delivery.mosquitto import broker, subscriber
from tests.integration.delivery.redis_server import RedisServer
from tests.integration.delivery.test_outages import started
from tests.integration.delivery.web_server import Exchange, Request, web_server
from tests.integration.figures import Record
from tests.ports import free_port
from tests.waiting import LIMIT_SECONDS, wait_until

FPS = 100
PASSWORD = "right-8d1f"
WRONG = "wrong-7c2e"
Step = Mapping[str, object]
Identity = tuple[int, int]


def document(*steps: Step, frames: int | None = None, fps: int = FPS, outbox: Step | None = None) -> str:
    """A pipeline with a record for each frame, which also writes the same frames to a file."""
    source = {"pattern": "counter", "size": [64, 48], "fps": fps, "frames": frames, "realtime": True}
    whole = {
        "name": "fault",
        "sources": {"gate": source},
        "outbox": {"linger": "60s", **(outbox or {})},
        "pipeline": [{"jsonl": "out/{stream}.jsonl"}, *steps],
    }
    return json.dumps(whole)  # JSON is YAML


@dataclass
class Run:
    """`sightline run` in a folder, seen from outside."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def report(self) -> Mapping[str, Any]:
        report: Mapping[str, Any] = json.loads((self.folder / "report.json").read_text())
        return report

    def frames(self) -> int:
        path = self.folder / "out" / "gate.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0

    def wait_for(self, frames: int) -> None:
        wait_until(lambda: self.process.poll() is not None or self.frames() >= frames)
        assert self.process.poll() is None, self.log

    def end(self) -> int:
        """Wait for its end, and return the exit code."""
        return self.process.wait(LIMIT_SECONDS)

    def terminate(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.end()


@contextmanager
def run(folder: Path, pipeline: str) -> Iterator[Run]:
    (folder / "fault.yaml").write_text(pipeline)
    command = [sys.executable, "-m", "sightline.cli.main", "run", "fault.yaml", "--report", "report.json"]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process:
        try:
            yield Run(folder, process)
        finally:
            process.kill()


def assert_whole(received: Sequence[Identity], epochs: int = 1) -> None:
    """Nothing is missing: each epoch's records from 0, in order; those that came twice count once."""
    kept = list(dict.fromkeys(received))
    assert kept == sorted(kept)
    for epoch in (known := {epoch for epoch, _ in kept}):
        own = [seq for one, seq in kept if one == epoch]
        assert own == list(range(len(own)))
    assert len(known) == epochs


@pytest.mark.row(id="C3")
@pytest.mark.parametrize("hangs", ["redis", "mqtt"])
def test_a_destination_that_hangs_holds_up_neither_another_nor_the_end(tmp_path: Path, hangs: str) -> None:
    for name in ("redis", "mqtt"):
        (tmp_path / name).mkdir()
    keeps_all = ("allow_anonymous true", "max_inflight_messages 0")
    with (
        started(RedisServer(tmp_path / "redis")) as redis,
        broker(tmp_path / "mqtt", *keeps_all) as mqtt,
        subscriber(mqtt, options=("-q", "1")) as reader,
    ):
        servers = {"redis": redis, "mqtt": mqtt}
        steps = [{name: {"url": f"{name}://127.0.0.1:{one.port}", "timeout": "1s"}} for name, one in servers.items()]

        def received(name: str) -> list[Identity]:
            if name == "mqtt":
                return [(one.body["epoch"], one.body["seq"]) for one in reader.got if one.topic.endswith("frames")]
            entries = redis.entries("sightline:fault:gate:frames")
            return [(int(one["epoch"]), int(one["seq"])) for one in entries]

        [other] = {*servers} - {hangs}
        with run(tmp_path, document(*steps)) as first:
            wait_until(lambda: received("mqtt") and received("redis"))
            servers[hangs].hang()
            before = len(received(other))
            wait_until(lambda: len(received(other)) > before + FPS and "records are kept" in first.log)
            assert first.terminate() == 0
        left = first.report["deliveries"][f"{hangs}-1"]
        made = first.report["streams"]["gate"]["processed"]

        servers[hangs].go_on()
        with run(tmp_path, document(*steps, frames=10)) as second:
            assert second.end() == 0
        wait_until(lambda: all(len({*received(name)}) >= made + 10 for name in servers))
        arrived = {name: received(name) for name in servers}

    assert (left["state"], left["dropped"].get("full", 0)) == ("lost", 0)
    assert left["waiting"] > FPS
    for name in servers:
        assert_whole(arrived[name], epochs=2)


@pytest.mark.row(id="C3")
def test_a_wrong_password_is_reported_once_and_the_next_run_delivers_all(tmp_path: Path) -> None:
    (tmp_path / "redis").mkdir()
    server = RedisServer(tmp_path / "redis", "--requirepass", PASSWORD, cli=("-a", PASSWORD))
    with started(server):

        def step(password: str) -> Step:
            return {"redis": {"url": f"redis://:{password}@127.0.0.1:{server.port}"}}

        with run(tmp_path, document(step(WRONG))) as first:
            wait_until(lambda: "records are kept" in first.log)
            first.wait_for(FPS)
            assert first.terminate() == 0
        made, refused = first.frames(), first.report["deliveries"]["redis-1"]
        log, report = first.log, (tmp_path / "report.json").read_text()

        (tmp_path / "out" / "gate.jsonl").unlink()
        with run(tmp_path, document(step(PASSWORD), frames=10)) as second:
            assert second.end() == 0
        entries = server.entries("sightline:fault:gate:frames")

    assert (refused["state"], refused["delivered"], refused["waiting"]) == ("refused", 0, made)
    assert log.count("records are kept") == 1
    assert WRONG not in log + report
    assert PASSWORD not in second.log
    assert len(entries) == made + 10
    assert_whole([(int(one["epoch"]), int(one["seq"])) for one in entries], epochs=2)


@pytest.mark.row(id="C3")
def test_a_record_that_is_refused_is_set_aside_and_all_others_arrive(tmp_path: Path) -> None:
    accepted: list[Mapping[str, Any]] = []
    bodies: list[list[int]] = []

    def answer(exchange: Exchange, request: Request) -> None:
        records = json.loads(request.body)
        bodies.append([one["frame"] for one in records])
        if any(one["frame"] == 50 for one in records):
            exchange.answer(400, "no such frame")
        else:
            accepted.extend(records)
            exchange.answer(200)

    with (
        web_server(answer) as web,
        run(tmp_path, document({"webhook": {"url": web.url}}, frames=2 * FPS)) as running,
    ):
        code = running.end()

    [line] = (tmp_path / "out" / "fault.outbox.refused.jsonl").read_text().splitlines()
    delivery = running.report["deliveries"]["webhook-1"]
    assert json.loads(json.loads(line)["body"])["frame"] == 50
    assert bodies.count([50]) == 5
    assert [one["seq"] for one in accepted] == [number for number in range(2 * FPS) if number != 50]
    assert (delivery["refused"], delivery["delivered"], delivery["waiting"]) == (1, 2 * FPS - 1, 0)
    assert running.log.count("are set aside") == 1
    assert code == 0


@pytest.mark.row(id="C3")
def test_a_slow_destination_costs_the_oldest_records_and_no_frame_rate(tmp_path: Path, figure: Record) -> None:
    accepted: list[Identity] = []

    def answer_slowly(exchange: Exchange, request: Request) -> None:
        exchange.asked.ending.wait(0.1)
        one = json.loads(request.body)
        accepted.append((one["epoch"], one["seq"]))
        exchange.answer(200)

    with web_server(answer_slowly) as web:
        pipeline = document({"webhook": {"url": web.url, "batch": 1}}, fps=4 * FPS, outbox={"size": "100kB"})
        with run(tmp_path, pipeline) as running:
            wait_until(lambda: "are dropped" in running.log)
            began, frames = time.monotonic(), running.frames()
            running.wait_for(frames + 4 * FPS)
            rate = (running.frames() - frames) / (time.monotonic() - began)
            code = running.terminate()

    delivery = running.report["deliveries"]["webhook-1"]
    assert code == 1
    assert delivery["dropped"]["full"] > FPS
    assert delivery["delivered"] + delivery["waiting"] + delivery["dropped"]["full"] == running.frames()
    while_it_ran, _, summary = running.log.partition("not written completely")
    assert (while_it_ran.count("are dropped"), summary.count("are dropped")) == (1, 1)
    assert 0 < delivery["delivered"] <= len(accepted)
    assert accepted == sorted({*accepted})
    figure("slow destination: lost frame rate", 1 - rate / (4 * FPS), limit=0.02, unit="x")


class Arrived:
    """A web service at a port that opens later, and what it has received by stream."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/{{stream}}"
        self.seqs: dict[str, list[int]] = {}

    def keep(self, exchange: Exchange, request: Request) -> None:
        for one in json.loads(request.body):
            self.seqs.setdefault(one["stream"], []).append(one["seq"])
        exchange.answer(200)

    def count(self) -> int:
        return sum(map(len, self.seqs.values()))

    def whole(self, stream: str) -> bool:
        own = list(dict.fromkeys(self.seqs[stream]))
        return own == list(range(len(own)))


def processed(pipeline: Pipeline, stream: str) -> int:
    return sum(one.processed for one in pipeline.status() if one.name == stream)


@pytest.mark.row(id="C3")
def test_records_that_wait_while_the_options_change_arrive_in_order(tmp_path: Path) -> None:
    arrived, config = Arrived(), tmp_path / "fault.yaml"
    options: dict[str, object] = {"url": arrived.url, "timeout": "2s"}
    config.write_text(document({"webhook": options}))
    pipeline = Pipeline.from_yaml(config, outputs=tmp_path)
    with pipeline:
        for changed in ({"batch": 7}, {"batch": 50, "url": f"{arrived.url}/more"}):
            before = processed(pipeline, "gate")
            wait_until(lambda least=before + 50: processed(pipeline, "gate") > least)  # type: ignore[misc]
            config.write_text(document({"webhook": options | changed}))
            pipeline.reload(config, prove=0).wait()
        with web_server(arrived.keep, port=arrived.port):
            before = processed(pipeline, "gate")
            wait_until(lambda: arrived.count() > before)
            pipeline.stop()
            report = pipeline.wait()

    [delivery] = report.deliveries
    assert arrived.whole("gate")
    assert len({*arrived.seqs["gate"]}) + delivery.depth == processed(pipeline, "gate")


@pytest.mark.row(id="C3")
def test_records_of_streams_that_come_and_go_arrive_in_order(tmp_path: Path) -> None:
    arrived = Arrived()
    source = {"pattern": "counter", "size": [64, 48], "fps": FPS, "realtime": True}
    pipeline = Pipeline(
        sources={"gate": source}, steps=[{"webhook": {"url": arrived.url}}], outputs=tmp_path, name="fault"
    )
    with pipeline:
        wait_until(lambda: processed(pipeline, "gate") > 50)
        pipeline.add_source("yard", source).wait()
        pipeline.remove_source("gate").wait()
        wait_until(lambda: processed(pipeline, "yard") > 50)
        pipeline.add_source("gate", source).wait()
        pipeline.remove_source("yard").wait()
        before = arrived.count()
        with web_server(arrived.keep, port=arrived.port):
            wait_until(lambda: arrived.count() > before + 150)
            pipeline.stop()
            report = pipeline.wait()

    [delivery] = report.deliveries
    assert arrived.whole("gate")
    assert arrived.whole("yard")
    assert sum(len({*own}) for own in arrived.seqs.values()) + delivery.depth == delivery.put


@pytest.mark.row(id="C3")
def test_a_second_pipeline_of_the_same_name_in_a_folder_is_refused_with_one_error(tmp_path: Path) -> None:
    pipeline = document({"webhook": {"url": f"http://127.0.0.1:{free_port()}/"}})
    with run(tmp_path, pipeline) as first:
        wait_until((tmp_path / "out" / "fault.outbox").exists)
        command = [sys.executable, "-m", "sightline.cli.main", "run", "fault.yaml"]
        second = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert first.terminate() == 0

    assert second.returncode == 2
    assert second.stderr.count("is open in another process") == 1
    assert "Traceback" not in second.stderr
