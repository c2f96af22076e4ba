from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse

from sightline import Pipeline
from sightline.devices import Device
from sightline.errors import (
    DeliveryError,
    DestinationLost,
    DestinationRefused,
    MissingExtra,
    RecordRefused,
    RecordsRejected,
)
from sightline.graph import Site
from sightline.graph.transport import Record, Transport
from sightline.testing.transport_conformance import TransportConformance
from sightline_plugins.delivery.otlp import Otlp
from tests.integration.delivery.web_server import Exchange, Request, web_server
from tests.integration.telemetry.collector import Collector, collector, logs_of, protobuf

SITE = Site(Device(), element_id="logs", pipeline="yard")


def record(seq: int, *, stream: str = "gate", body: bytes | None = None, **more: Any) -> Record:
    content = json.dumps({"stream": stream, "seq": seq}).encode() if body is None else body
    return Record(stream, 3, seq, "events", "", content, 1_700_000_000_000_000_000 + seq, **more)


def records(count: int) -> list[Record]:
    return [record(seq) for seq in range(count)]


def transport(url: str, **options: Any) -> Transport:
    return Otlp(url=url, **{"timeout": "20s", **options}).transport(SITE)


def delivered(*batch: Record, **options: Any) -> Collector:
    """What a collector has when these records were delivered."""
    with collector() as found, closing(transport(found.url, **options)) as logs:
        logs.connect()
        logs.deliver(batch)
    return found


def failure(script: Callable[[Exchange, Request], None], count: int = 1, **options: Any) -> DeliveryError:
    with web_server(script) as web, closing(transport(web.url, **options)) as logs:
        try:
            logs.connect()
            logs.deliver(records(count))
        except DeliveryError as error:
            return error
    pytest.fail("it was delivered")


def rejecting(count: int, why: str = "") -> Callable[[Exchange, Request], None]:
    partial = ExportLogsPartialSuccess(rejected_log_records=count, error_message=why)
    body = ExportLogsServiceResponse(partial_success=partial).SerializeToString()
    return lambda exchange, request: protobuf(exchange, 200, body)


def answering(status: int, text: str = "", **headers: str) -> Callable[[Exchange, Request], None]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda exchange, request: exchange.answer(status, text, named)


class TestContract(TransportConformance):
    @pytest.fixture
    def element(self) -> Iterator[Otlp]:
        with ExitStack() as self._serving:
            self._collector = self._serving.enter_context(collector())
            yield Otlp(url=self._collector.url)

    def received(self) -> list[bytes]:
        return [str(log.body).encode() for log in self._collector.logs]

    def stop(self) -> None:
        self._serving.close()


class TestLogRecords:
    def test_a_record_becomes_a_log_record_with_its_identity(self) -> None:
        (log,) = delivered(record(7)).logs

        assert json.loads(log.body) == {"stream": "gate", "seq": 7}
        assert log.event_name == "sightline.events"
        assert log.time_unix_nano == 1_700_000_000_000_000_007
        assert log.attributes == {
            "sightline.stream": "gate",
            "sightline.epoch": 3,
            "sightline.seq": 7,
            "sightline.record": "events",
            "log.record.uid": "yard/logs/gate/3/7",
        }

    def test_a_body_that_is_no_text_is_sent_as_bytes(self) -> None:
        (log,) = delivered(record(0, body=b"\x00\xff", content_type="application/protobuf")).logs

        assert log.body == b"\x00\xff"

    def test_the_resource_names_service_instance_host_and_pipeline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
        first, second = (delivered(record(0)).logs[0].resource for _ in range(2))

        assert (first["service.name"], first["sightline.pipeline"]) == ("sightline", "yard")
        assert first["host.name"] == os.uname().nodename
        assert first["service.instance.id"] != second["service.instance.id"]

    def test_the_variables_of_opentelemetry_go_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_SERVICE_NAME", "cameras")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "site=north,service.instance.id=one")

        found = delivered(record(0)).logs[0].resource

        assert [found[name] for name in ("service.name", "site", "service.instance.id")] == ["cameras", "north", "one"]

    def test_requests_hold_up_to_a_batch_in_order(self) -> None:
        found = delivered(*records(250), batch=100)

        assert [len(logs_of(request)) for request in found.accepted] == [100, 100, 50]
        assert [log.attributes["sightline.seq"] for log in found.logs] == list(range(250))

    def test_compressed_requests_arrive(self) -> None:
        found = delivered(*records(50), compression="gzip")

        assert found.accepted[0].headers["Content-Encoding"] == "gzip"
        assert len(found.logs) == 50

    @pytest.mark.parametrize(
        ("path", "wanted"),
        [
            ("", "/v1/logs"),
            ("/", "/v1/logs"),
            ("/otlp/", "/otlp/v1/logs"),
            ("/v1/logs", "/v1/logs"),
            ("/x?token=a", "/x/v1/logs?token=a"),
        ],
    )
    def test_the_path_of_logs_is_added_to_a_base_url(self, path: str, wanted: str) -> None:
        with collector() as found, closing(transport(found.url + path)) as logs:
            logs.deliver(records(1))

        assert [request.path for request in found.accepted] == [wanted]

    def test_own_headers_are_sent_with_the_content_type_of_protobuf(self) -> None:
        (request,) = delivered(record(0), headers={"X-Scope-OrgID": "north"}).accepted

        assert request.headers["X-Scope-OrgID"] == "north"
        assert request.headers["Content-Type"] == "application/x-protobuf"


class TestAnswers:
    @pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
    def test_a_collector_that_is_busy_is_lost_for_as_long_as_it_asks(self, status: int) -> None:
        error = failure(answering(status, "later", Retry_After="7"))

        assert type(error) is DestinationLost
        assert error.retry_after_ns == 7 * 10**9

    @pytest.mark.parametrize("status", [401, 403, 404, 405, 415])
    def test_a_collector_that_does_not_take_logs_there_refuses(self, status: int) -> None:
        assert type(failure(answering(status, "no"), 5)) is DestinationRefused

    def test_one_record_that_is_refused_does_not_take_its_neighbours_along(self) -> None:
        taken: list[int] = []

        def script(exchange: Exchange, request: Request) -> None:
            seqs = [int(log.attributes["sightline.seq"]) for log in logs_of(request)]
            if 13 in seqs:
                protobuf(exchange, 400, Status(code=3, message="bad record").SerializeToString())
            else:
                taken.extend(seqs)
                protobuf(exchange, 200)

        error = failure(script, 40)

        assert (type(error), error.delivered) == (RecordRefused, 13)
        assert str(error).endswith("answers 400: bad record")
        assert taken == list(range(13))

    def test_a_partial_success_says_among_how_many_records_some_were_rejected(self) -> None:
        error = failure(rejecting(3, "no room"), 40, batch=20)

        assert isinstance(error, RecordsRejected)
        assert (error.delivered, error.among, error.rejected) == (0, 20, 3)
        assert str(error).endswith("rejected 3 of 20 records: no room")

    def test_a_warning_without_rejected_records_is_a_success(self) -> None:
        with web_server(rejecting(0, "old names")) as web, closing(transport(web.url)) as logs:
            logs.deliver(records(2))

        assert len(web.requests) == 1

    @pytest.mark.parametrize("body", [b"", b"OK", b"\xff\xff\xff"])
    def test_an_acknowledgement_with_any_body_counts(self, body: bytes) -> None:
        with web_server(lambda exchange, _: protobuf(exchange, 200, body)) as web:
            with closing(transport(web.url)) as logs:
                logs.deliver(records(2))

            assert len(web.requests) == 1

    def test_a_web_page_is_no_collector(self) -> None:
        error = failure(answering(200, "<html>", Content_Type="text/html; charset=utf-8"))

        assert type(error) is DestinationRefused
        assert "is no OTLP receiver" in str(error)

    def test_a_collector_that_hangs_is_lost(self) -> None:
        def script(exchange: Exchange, request: Request) -> None:
            exchange.asked.ending.wait()

        error = failure(script, timeout="500ms")

        assert type(error) is DestinationLost
        assert "no answer within 0.5 s" in str(error)

    @pytest.mark.parametrize("answer", [b"\x00\xff" * 100, b"HTTP/1.1 banana\r\n\r\n", b""])
    def test_what_is_no_answer_is_lost(self, answer: bytes) -> None:
        def script(exchange: Exchange, request: Request) -> None:
            exchange.raw(answer)
            exchange.break_off()

        assert type(failure(script)) is DestinationLost

    def test_answers_are_shown_without_the_headers_that_they_echo(self) -> None:
        error = failure(answering(503, "got tok3n-canary"), headers={"Authorization": "Bearer tok3n-canary"})

        assert "canary" not in str(error)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.logs.v1.logs_service_pb2", None)

    with pytest.raises(MissingExtra, match=r"pip install 'sightline\[otel\]'"):
        transport("http://127.0.0.1")


def test_secrets_are_not_in_the_representation() -> None:
    element = Otlp(url="https://u:pa55@x/?k=t0ken", headers={"A": "hea2er"})

    assert not [secret for secret in ("pa55", "t0ken", "hea2er") if secret in repr(element) + element.destination()]


def test_rejected_records_are_set_aside_and_never_sent_again(tmp_path: Path) -> None:
    with web_server(rejecting(2, "too old")) as web:
        report = Pipeline(
            name="site",
            sources={"gate": {"pattern": "counter", "size": [64, 48], "frames": 5}},
            steps=[{"otlp": {"url": web.url}}],
            outbox={"linger": "60s"},
            outputs=tmp_path,
        ).run()
        seqs = [log.attributes["sightline.seq"] for request in web.requests for log in logs_of(request)]

    (delivery,) = report.deliveries
    lines = (tmp_path / "out" / "site.outbox.refused.jsonl").read_text().splitlines()
    assert seqs == [0, 1, 2, 3, 4]
    assert [json.loads(line)["seq"] for line in lines] == seqs
    assert "rejected 2 of" in json.loads(lines[0])["reason"]
    assert delivery.refused == sum(min(2, len(logs_of(request))) for request in web.requests)
    assert (delivery.delivered, delivery.depth) == (5 - delivery.refused, 0)


def test_events_of_a_rule_arrive_as_logs(tmp_path: Path) -> None:
    rows = [f"{n + 1},-1,{4 + n},{10 + 2 * n},30,30,0.9,-1,-1,-1" for n in range(40)]
    (tmp_path / "det.txt").write_text("\n".join(rows))
    with collector() as found:
        Pipeline(
            sources={"gate": {"pattern": "counter", "frames": 40}},
            steps=[
                {"replay": {"path": str(tmp_path / "det.txt"), "label": "car"}},
                "track",
                {"lines": {"gate_in": {"from": [0, 0.2], "to": [1, 0.2]}}},
                {"otlp": {"url": found.url, "send": "events"}},
            ],
            outbox={"linger": "60s"},
            outputs=tmp_path,
        ).run()

    (log,) = found.logs
    body = json.loads(log.body)
    assert (log.event_name, body["rule"], body["record"]) == ("sightline.events", "gate_in", "events")
    assert log.attributes["sightline.stream"] == "gate"
