"""A collector that is away, slow or lies never slows or stops a run: one warning, and what is lost is counted."""

from __future__ import annotations

import base64
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from sightline import Pipeline
from sightline.graph import Message, MessageKind
from sightline.runtime.stats.report import Report
from tests.integration.delivery.web_server import Exchange, Request, web_server
from tests.integration.telemetry.collector import protobuf
from tests.ports import free_port

FRAMES = 40
SECRET = "canary-7041"


def run(endpoint: str, **options: Any) -> tuple[Report, list[Message]]:
    """Run with every frame traced; the run must come to its end as if there were no collector."""
    pipeline = Pipeline(
        sources={"gate": {"pattern": "counter", "size": [64, 48], "frames": FRAMES}},
        telemetry={"endpoint": endpoint, "sample": 1.0, "max_rate": 1000, "metrics": False, **options},
    )
    messages: list[Message] = []
    pipeline.on_message(messages.append)
    return pipeline.run(), messages


def warnings(messages: list[Message]) -> list[str]:
    return [message.text for message in messages if message.kind is MessageKind.WARNING]


def counted(report: Report) -> tuple[int, int]:
    """How many spans the collector has taken, and how many were dropped."""
    stats = report.telemetry
    assert stats is not None
    assert stats.traces == report.frames == FRAMES
    return stats.spans, stats.spans_dropped


def answering(status: int, text: str = "", **headers: str) -> Callable[[Exchange, Request], None]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange, request: exchange.answer(status, text, named)


def stall(exchange: Exchange, request: Request) -> None:
    exchange.asked.ending.wait()


def drip(exchange: Exchange, request: Request) -> None:
    exchange.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while not exchange.asked.ending.wait(0.05):
        exchange.raw(b".")


def flood(exchange: Exchange, request: Request) -> None:
    exchange.raw(b"HTTP/1.1 200 OK\r\n\r\n")
    while not exchange.asked.ending.is_set():
        exchange.raw(b"." * 65536)


def garbage(exchange: Exchange, request: Request) -> None:
    exchange.raw(b"\x00\xff" * 100)
    exchange.break_off()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (answering(400, "no"), "it answers 400"),
        (answering(404, "no"), "it answers 404"),
        (answering(500, "no"), "it answers 500"),
        (answering(301, Location="http://127.0.0.1:9/"), "it answers 301"),
        (garbage, "no connection, or no answer in HTTP"),
    ],
    ids=["400", "404", "500", "301", "garbage"],
)
def test_a_collector_that_refuses_costs_one_warning_and_the_spans(
    script: Callable[[Exchange, Request], None], said: str
) -> None:
    with web_server(script) as web:
        report, messages = run(web.url)

    sent, dropped = counted(report)
    assert (sent, dropped > 0) == (0, True)
    [warning] = warnings(messages)
    assert warning == f"{web.url} does not take the traces: {said}; what it does not take is dropped and counted"


@pytest.mark.parametrize("status", [429, 503])
def test_a_collector_that_is_busy_is_asked_again_and_not_waited_for(status: int) -> None:
    with web_server(answering(status, Retry_After="60")) as web:
        report, messages = run(web.url)

    assert counted(report)[0] == 0
    assert len(warnings(messages)) == 1


def test_spans_arrive_when_a_busy_collector_has_room_again() -> None:
    requests: list[Request] = []

    def script(exchange: Exchange, request: Request) -> None:
        requests.append(request)
        if len(requests) == 1:
            exchange.answer(503, headers={"Retry-After": "0"})
        else:
            protobuf(exchange, 200)

    with web_server(script) as web:
        report, messages = run(web.url)

    sent, dropped = counted(report)
    assert (sent > 0, dropped) == (True, 0)
    assert warnings(messages) == []


@pytest.mark.parametrize("script", [stall, drip, flood], ids=["stall", "drip", "flood"])
def test_a_collector_that_holds_us_does_not_hold_the_run(script: Callable[[Exchange, Request], None]) -> None:
    with web_server(script) as web:
        report, messages = run(web.url)

    sent, dropped = counted(report)
    assert sent + dropped > 0
    assert len(warnings(messages)) <= 1


def test_a_collector_that_is_away_costs_one_warning() -> None:
    report, messages = run(f"http://127.0.0.1:{free_port()}")

    assert counted(report)[0] == 0
    [warning] = warnings(messages)
    assert "does not take the traces: connection refused" in warning


def test_a_host_that_accepts_and_says_nothing_does_not_hold_the_run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        report, _ = run(f"http://127.0.0.1:{listener.getsockname()[1]}")

    assert counted(report)[0] == 0


def test_rejected_spans_are_counted_as_dropped() -> None:
    partial = ExportTracePartialSuccess(rejected_spans=3, error_message=SECRET)
    body = ExportTraceServiceResponse(partial_success=partial).SerializeToString()
    with web_server(lambda exchange, request: protobuf(exchange, 200, body)) as web:
        report, messages = run(web.url)

    sent, dropped = counted(report)
    assert dropped == 3 * len(web.requests)
    assert sent > dropped
    [warning] = warnings(messages)
    assert "it rejected 3 of" in warning


def test_spans_that_nobody_takes_fill_no_memory() -> None:
    """With room for 2048 spans, later ones are dropped while the collector holds the first."""
    with web_server(stall) as web:
        pipeline = Pipeline(
            sources={"gate": {"pattern": "counter", "size": [64, 48], "frames": 2000}},
            telemetry={"endpoint": web.url, "sample": 1.0, "max_rate": 1000},
        )
        report = pipeline.run()

    stats = report.telemetry
    assert stats is not None
    assert report.frames == 2000
    assert stats.spans_dropped > 2048


@contextmanager
def logged() -> Iterator[list[str]]:
    """Everything that any logger says, at any level."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.name}: {record.getMessage()}")

    handler, root = Keep(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield lines
    finally:
        root.setLevel(level)
        root.removeHandler(handler)


def echo(exchange: Exchange, request: Request) -> None:
    exchange.answer(400, f"you sent {request.headers} to {request.path}", {"Content-Type": "text/plain"})


@pytest.mark.parametrize("where", ["echo", "away"])
def test_secrets_are_in_no_log_message_span_or_report(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"X-Env {SECRET},Y={SECRET}")
    with logged() as lines, web_server(echo) as web:
        host = web.url if where == "echo" else f"http://127.0.0.1:{free_port()}"
        endpoint = host.replace("//", f"//me:{SECRET}@") + f"/?key={SECRET}"
        report, messages = run(endpoint, headers={"X-Key": SECRET})
        bodies = b"".join(request.body for request in web.requests)
        heads = "".join(str(request.headers) for request in web.requests)

    forms = (SECRET, base64.b64encode(f"me:{SECRET}".encode()).decode())
    shown = [*lines, *map(repr, messages), repr(report.to_json()), bodies.decode(errors="replace")]
    assert (SECRET in heads, bool(bodies)) == (where == "echo", where == "echo")
    assert len(warnings(messages)) == 1
    assert [text for text in shown if any(form in text for form in forms)] == []
    assert [line for line in lines if line.startswith("opentelemetry")] == []


def test_another_user_of_the_library_still_hears_its_messages() -> None:
    with logged() as lines:
        run(f"http://127.0.0.1:{free_port()}")
        logging.getLogger("opentelemetry.exporter.otlp.proto.http.trace_exporter").warning("from the application")

    assert [line for line in lines if line.startswith("opentelemetry")] == [
        "opentelemetry.exporter.otlp.proto.http.trace_exporter: from the application"
    ]
