"""The worked packages in examples/extensions are found, documented, checked and run as `pip install` leaves them."""

from __future__ import annotations

import json
import os
import socket
import socketserver
import sqlite3
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from examples.extensions.centroid_tracker.centroid_tracker import CentroidOptions
from examples.extensions.corner_head.corner_head import CORNERS
from examples.extensions.lingering_rule.lingering_rule import Lingering
from examples.extensions.tcp_source.tcp_source import RawTcp
from examples.extensions.tcp_transport.tcp_transport import Tcp
from onnx import TensorProto, helper, numpy_helper

from sightline.testing.rule_conformance import RuleConformance
from sightline.testing.source_conformance import SourceConformance
from sightline.testing.tracker_conformance import TrackerConformance
from sightline.testing.transport_conformance import TransportConformance
from sightline_plugins.heads.conformance import HeadConformance
from sightline_plugins.heads.head import Array
from tests.conftest import REPOSITORY
from tests.ports import free_port

FOLDER = REPOSITORY / "examples" / "extensions"
PACKAGES = sorted(path.parent.name for path in FOLDER.glob("*/pyproject.toml"))
LONGEST = 60


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that holds all worked packages as they are installed."""
    site = tmp_path / "site"
    for name in PACKAGES:
        project = tomllib.loads((FOLDER / name / "pyproject.toml").read_text())["project"]
        metadata = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
        groups = [
            f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
            for group, entries in project["entry-points"].items()
        ]
        (metadata / "entry_points.txt").write_text("\n".join(groups))
        for module in (FOLDER / name).glob("*.py"):
            (site / module.name).write_text(module.read_text())
    return site


def sightline(*arguments: str, installed: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sightline.cli.main", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@contextmanager
def server(frames: int, *, size_wh: tuple[int, int]) -> Iterator[int]:
    """A server that sends gray frames to one client and closes the connection; yields its port."""
    width, height = size_wh
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            client, _ = listening.accept()
            with client, suppress(ConnectionError):
                client.sendall(bytes([128]) * (width * height * 3 // 2 * frames))

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


@pytest.mark.parametrize("name", PACKAGES)
def test_a_worked_package_is_short(name: str) -> None:
    lines = [
        line for module in (FOLDER / name).glob("*.py") for line in module.read_text().splitlines() if line.strip()
    ]

    assert len(lines) < LONGEST


@pytest.mark.parametrize("name", ["lingering", "rawtcp", "events_db", "tcp"])
def test_an_extension_has_a_page(installed: Path, tmp_path: Path, name: str) -> None:
    done = sightline("elements", name, installed=installed, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert name in done.stdout


def test_a_source_of_another_package_reads_its_protocol(installed: Path, tmp_path: Path) -> None:
    with server(5, size_wh=(64, 48)) as port:
        (tmp_path / "lab.yaml").write_text(
            f"sources: {{lab: {{uri: 'i420+tcp://127.0.0.1:{port}', size: [64, 48]}}}}\n"
            "pipeline: [jsonl: {path: 'lab.jsonl'}]\n"
        )
        done = sightline("run", "lab.yaml", installed=installed, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "lab.jsonl").read_text().splitlines()]
    assert [line["frame"] for line in lines] == [0, 1, 2, 3, 4]
    assert lines[0]["size"] == [64, 48]


def test_a_sink_of_another_package_writes_events(installed: Path, tmp_path: Path) -> None:
    clip = REPOSITORY / "sample_videos" / "street.mp4"
    (tmp_path / "events.yaml").write_text(
        f"sources: {{street: {{uri: {clip}, duration: 4s}}}}\n"
        "pipeline:\n"
        f"  - replay: {{path: {clip.with_suffix('.mot.txt')}, format: mot, ids: true}}\n"
        "  - lines: {road: {from: [0.18, 0.62], to: [0.82, 0.58]}}\n"
        "  - events_db: out/events.db\n"
    )
    done = sightline("run", "events.yaml", installed=installed, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    with sqlite3.connect(tmp_path / "out" / "events.db") as database:
        rows = database.execute("SELECT stream, kind, rule FROM events").fetchall()
    database.close()
    assert rows
    assert set(rows) == {("street", "line", "road")}


def test_a_tracker_of_another_package_is_chosen_by_its_name(installed: Path, tmp_path: Path) -> None:
    clip = REPOSITORY / "sample_videos" / "street.mp4"
    (tmp_path / "track.yaml").write_text(
        f"sources: {{street: {{uri: {clip}, duration: 1s}}}}\n"
        "pipeline:\n"
        f"  - replay: {{path: {clip.with_suffix('.mot.txt')}, format: mot}}\n"
        "  - track: {algorithm: centroid, max_distance: 30}\n"
        "  - jsonl: out/street.jsonl\n"
    )
    done = sightline("run", "track.yaml", installed=installed, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out" / "street.jsonl").read_text().splitlines()]
    first, last = ({obj["track_id"] for obj in line["objects"]} for line in (lines[0], lines[-1]))
    assert len(first & last) > len(first) / 2


def test_a_rule_of_another_package_reports_events(installed: Path, tmp_path: Path) -> None:
    clip = REPOSITORY / "sample_videos" / "street.mp4"
    (tmp_path / "lingering.yaml").write_text(
        f"sources: {{street: {{uri: {clip}, duration: 4s}}}}\n"
        "pipeline:\n"
        f"  - replay: {{path: {clip.with_suffix('.mot.txt')}, format: mot, ids: true}}\n"
        "  - lingering: {after: 2s, distance: 20}\n"
        "  - jsonl: out/street.jsonl\n"
    )
    done = sightline("run", "lingering.yaml", "--report", "report.json", installed=installed, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out" / "street.jsonl").read_text().splitlines()]
    stays = [event["track_id"] for line in lines for event in line.get("events", ()) if event["kind"] == "lingering"]
    report = json.loads((tmp_path / "report.json").read_text())
    assert stays
    assert report["totals"]["lingering-1"]["street"]["lingering"]["objects"] == len(stays)


def test_a_head_of_another_package_has_a_name(installed: Path, tmp_path: Path) -> None:
    code = "from sightline_plugins.heads.registry import HEADS; print(HEADS['corners'].name)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout == "corners\n", done.stderr


def test_an_engine_of_another_package_computes_a_model(installed: Path, tmp_path: Path) -> None:
    clip = REPOSITORY / "sample_videos" / "street.mp4"
    lines = []
    for engine in ("opencv", "onnxruntime"):
        (tmp_path / "detect.yaml").write_text(
            f"sources: {{street: {{uri: {clip}, duration: 400ms}}}}\n"
            "pipeline:\n"
            f"  - detect: {{model: {REPOSITORY / 'models' / 'street.onnx'}, engine: {engine}}}\n"
            f"  - jsonl: {engine}.jsonl\n"
        )
        done = sightline("run", "detect.yaml", "--report", "report.json", installed=installed, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        report = json.loads((tmp_path / "report.json").read_text())
        assert report["totals"]["detect-1"]["engine"] == engine
        lines.append([json.loads(line) for line in (tmp_path / f"{engine}.jsonl").read_text().splitlines()])

    assert [len(line["objects"]) for line in lines[0]] == [len(line["objects"]) for line in lines[1]]
    assert sum(len(line["objects"]) for line in lines[0]) > 0


def test_an_engine_that_is_not_installed_is_reported_by_its_name(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "detect.yaml").write_text(
        "sources: {test: {pattern: bars, frames: 3}}\n"
        f"pipeline: [detect: {{model: {REPOSITORY / 'models' / 'street.onnx'}, engine: opencvv}}]\n"
    )
    done = sightline("check", "detect.yaml", installed=installed, folder=tmp_path)

    assert done.returncode == 2
    assert "there is no engine 'opencvv'; did you mean 'opencv'?" in done.stdout + done.stderr


class TestRawTcp(SourceConformance):
    source = RawTcp(uri="i420+tcp://127.0.0.1:1", size=(64, 48))
    unreadable = source

    @contextmanager
    def input(self) -> Iterator[RawTcp]:
        with server(5, size_wh=(64, 48)) as port:
            yield RawTcp(uri=f"i420+tcp://127.0.0.1:{port}", size=(64, 48))
            socket.create_connection(("127.0.0.1", port)).close()  # the server ends although nobody has read


class TestCentroidTracker(TrackerConformance):
    options = CentroidOptions()


class LineServer(socketserver.ThreadingTCPServer):
    """Answers `ok` to every line, and keeps them."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        self.lines: list[bytes] = []
        self.connections: list[socket.socket] = []
        super().__init__(("127.0.0.1", port), LineHandler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self) -> None:
        """End it, and its connections."""
        self.shutdown()
        self.server_close()
        for connection in self.connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class LineHandler(socketserver.StreamRequestHandler):
    server: LineServer

    def handle(self) -> None:
        self.server.connections.append(self.connection)
        with suppress(OSError):
            for line in self.rfile:
                self.server.lines.append(line.rstrip(b"\n"))
                self.wfile.write(b"ok\n")


class TestTcpTransport(TransportConformance):
    server: LineServer

    @pytest.fixture
    def element(self) -> Iterator[Tcp]:
        self.server = LineServer()
        yield Tcp(url=f"tcp://127.0.0.1:{self.server.server_address[1]}")
        self.server.end()

    def received(self) -> Sequence[bytes]:
        return self.server.lines

    def stop(self) -> None:
        self.server.end()


def test_a_transport_of_another_package_delivers_events(installed: Path, tmp_path: Path) -> None:
    clip = REPOSITORY / "sample_videos" / "street.mp4"
    lines = LineServer()
    (tmp_path / "events.yaml").write_text(
        f"sources: {{street: {{uri: {clip}, duration: 4s}}}}\n"
        "pipeline:\n"
        f"  - replay: {{path: {clip.with_suffix('.mot.txt')}, format: mot, ids: true}}\n"
        "  - lines: {road: {from: [0.18, 0.62], to: [0.82, 0.58]}}\n"
        f"  - tcp: {{url: 'tcp://127.0.0.1:{lines.server_address[1]}', send: [events]}}\n"
    )
    done = sightline("run", "events.yaml", "--report", "report.json", installed=installed, folder=tmp_path)
    lines.end()

    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in lines.lines]
    assert records
    assert [one["seq"] for one in records] == list(range(len(records)))
    assert {(one["record"], one["kind"], one["rule"]) for one in records} == {("events", "line", "road")}
    report = json.loads((tmp_path / "report.json").read_text())["deliveries"]["tcp-1"]
    assert (report["delivered"], report["waiting"], report["state"]) == (len(records), 0, "connected")


def test_records_for_a_server_that_is_away_are_delivered_by_a_command(installed: Path, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "away.yaml").write_text(
        "name: away\n"
        "sources: {cam: {pattern: bars, frames: 20}}\n"
        "outbox: {linger: 0s}\n"
        f"pipeline: [tcp: {{url: 'tcp://127.0.0.1:{port}'}}]\n"
    )
    done = sightline("run", "away.yaml", installed=installed, folder=tmp_path)
    shown = sightline("outbox", "show", "away.yaml", installed=installed, folder=tmp_path)
    lines = LineServer(port)
    drained = sightline("outbox", "drain", "away.yaml", installed=installed, folder=tmp_path)
    lines.end()
    again = sightline("outbox", "show", "away.yaml", installed=installed, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "20 records for tcp://127.0.0.1" in done.stderr
    assert "tcp-1" in shown.stdout
    assert "20" in shown.stdout
    assert drained.returncode == 0, drained.stderr
    assert [json.loads(line)["frame"] for line in lines.lines] == list(range(20))
    assert "nothing waits" in again.stdout


class TestLingering(RuleConformance):
    element = Lingering.model_validate({"after": "200ms", "distance": 200})
    changed = Lingering(after=80_000_000, distance=10)


class TestCorners(HeadConformance):
    head = CORNERS

    def outputs(self) -> Sequence[Array]:
        return [np.array([[[0.1, 0.1, 0.5, 0.4, 0.9], [0.5, 0.5, 0.9, 0.9, 0.4], [0, 0, 1, 1, 0.1]]], np.float32)]


def test_a_rule_of_another_package_gets_events_counts_and_drawing(installed: Path, tmp_path: Path) -> None:
    clip = REPOSITORY / "sample_videos" / "street.mp4"
    (tmp_path / "loiter.yaml").write_text(
        f"sources: {{street: {{uri: {clip}, duration: 1s}}}}\n"
        "pipeline:\n"
        f"  - replay: {{path: {clip.with_suffix('.mot.txt')}, format: mot, ids: true}}\n"
        "  - lingering: {after: 400ms, distance: 30}\n"
        "  - draw\n"
        "  - jsonl: out/street.jsonl\n"
    )
    done = sightline("run", "loiter.yaml", "--report", "report.json", installed=installed, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out" / "street.jsonl").read_text().splitlines()]
    events = [event for line in lines for event in line.get("events", [])]
    assert {(event["kind"], event["rule"]) for event in events} == {("lingering", "lingering")}
    totals = json.loads((tmp_path / "report.json").read_text())["totals"]["lingering-1"]
    assert totals == {"street": {"lingering": {"objects": len(events)}}}


def test_a_head_of_another_package_is_found_by_the_shape_of_its_outputs(installed: Path, tmp_path: Path) -> None:
    rows = numpy_helper.from_array(np.array([[[0.25, 0.5, 0.5, 1.0, 0.9]]], np.float32), "rows")
    zero = numpy_helper.from_array(np.array(0, np.float32), "zero")
    nodes = [
        helper.make_node("ReduceMax", ["images"], ["most"], keepdims=0),
        helper.make_node("Mul", ["most", "zero"], ["nothing"]),
        helper.make_node("Add", ["rows", "nothing"], ["found"]),
    ]
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, 64, 64])
    found = helper.make_tensor_value_info("found", TensorProto.FLOAT, [1, 1, 5])
    graph = helper.make_graph(nodes, "corners", [images], [found], [rows, zero])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "corners.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "pipeline.yaml").write_text(
        "sources: {cam: {pattern: bars, size: [64, 48], frames: 2}}\n"
        "pipeline: [detect: {model: corners.onnx, labels: [corner]}, jsonl: out.jsonl]\n"
    )
    done = sightline("run", "pipeline.yaml", installed=installed, folder=tmp_path)

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [[obj["box"] for obj in line["objects"]] for line in lines] == [[[16, 24, 32, 48]]] * 2


def test_a_mistake_in_an_extension_is_reported_with_its_place(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.yaml").write_text(
        "sources: {test: {pattern: bars}}\npipeline:\n  - events_db: 'out/{stream}.db'\n"
    )
    done = sightline("check", "wrong.yaml", installed=installed, folder=tmp_path)

    assert done.returncode == 2
    assert "wrong.yaml:3" in done.stderr
    assert "leave {stream} out of the path" in done.stderr
