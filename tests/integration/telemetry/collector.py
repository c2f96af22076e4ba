"""A real OTLP/HTTP receiver that decodes with `opentelemetry-proto`, and answers as a test says."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tests.integration.delivery.web_server import Asked, Exchange, Request, web_server

Script = Callable[[Exchange, Request], None]
Attributes = Mapping[str, str | int | float | bool]


def value_of(one: AnyValue) -> Any:
    """The value that an `AnyValue` holds."""
    return getattr(one, str(one.WhichOneof("value")))


def attributes(found: Sequence[Any]) -> Attributes:
    """Attributes by name; each is there once."""
    assert len({one.key for one in found}) == len(found)
    return {one.key: value_of(one.value) for one in found}


def body_of(request: Request) -> bytes:
    """The body of a request, unpacked."""
    packed = request.headers["Content-Encoding"] == "gzip"
    return gzip.decompress(request.body) if packed else request.body


@dataclass(frozen=True)
class Log:
    """A log record as a backend sees it."""

    resource: Attributes
    attributes: Attributes
    body: str | bytes
    event_name: str
    time_unix_nano: int


@dataclass
class Collector:
    """What arrived and was acknowledged, in the order in which it came."""

    url: str = ""
    asked: Asked = field(default_factory=Asked)
    accepted: list[Request] = field(default_factory=list)

    def at(self, path: str) -> list[Request]:
        """The requests that were acknowledged at a path."""
        return [request for request in self.accepted if request.path.partition("?")[0] == path]

    @property
    def logs(self) -> list[Log]:
        """The log records of all requests."""
        return [log for request in self.at("/v1/logs") for log in logs_of(request)]

    @property
    def trace_requests(self) -> list[ExportTraceServiceRequest]:
        """The requests with spans."""
        return [ExportTraceServiceRequest.FromString(body_of(request)) for request in self.at("/v1/traces")]

    @property
    def metric_requests(self) -> list[ExportMetricsServiceRequest]:
        """The requests with metrics."""
        return [ExportMetricsServiceRequest.FromString(body_of(request)) for request in self.at("/v1/metrics")]


def logs_of(request: Request) -> list[Log]:
    """The log records of a request."""
    decoded = ExportLogsServiceRequest.FromString(body_of(request))
    return [
        Log(
            attributes(of_resource.resource.attributes),
            attributes(record.attributes),
            value_of(record.body),
            record.event_name,
            record.time_unix_nano,
        )
        for of_resource in decoded.resource_logs
        for of_scope in of_resource.scope_logs
        for record in of_scope.log_records
    ]


def protobuf(exchange: Exchange, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
    """Answer with a message of Protobuf."""
    head = {"Content-Type": "application/x-protobuf", "Content-Length": str(len(body)), **(headers or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    exchange.raw(f"HTTP/1.1 {status} x\r\n{lines}\r\n".encode() + body)


@contextmanager
def collector(script: Script | None = None, *, port: int = 0, into: Collector | None = None) -> Iterator[Collector]:
    """Receive while the context is open. `script` answers instead of accepting, where it is given; what it answers is
    not counted as accepted. `into` goes on collecting what another receiver has begun.
    """
    found = into or Collector()

    def answer(exchange: Exchange, request: Request) -> None:
        if script is not None:
            script(exchange, request)
            return
        found.accepted.append(request)
        protobuf(exchange, 200)

    with web_server(answer, port=port) as asked:
        found.url, found.asked = asked.url, asked
        yield found
