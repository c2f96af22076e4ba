"""`otlp`: records become log records of OpenTelemetry."""

from __future__ import annotations

import gzip
import re
import ssl
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, Field

from sightline.errors import DestinationRefused, MissingExtra, RecordsRejected
from sightline.graph import CheckContext, Problem, Site
from sightline.graph.http_headers import check_headers
from sightline.graph.transport import Record, Transport
from sightline.telemetry.resource import make_resource
from sightline_plugins.delivery.http_client import Answer
from sightline_plugins.delivery.http_destination import HttpDestination, credential_problems
from sightline_plugins.delivery.refusals import deliver_in_parts
from sightline_plugins.delivery.tls import TlsDelivery
from sightline_plugins.delivery.urls import readable_url

if TYPE_CHECKING:
    from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs

_OWN = re.compile("connection|content-length|content-type|content-encoding|host|transfer-encoding")
_PATH = "/v1/logs"
_PROTOBUF = "application/x-protobuf"
_REFUSED_RECORD = (400, 413, 422)
_SCOPE = "sightline.records"


def _checked_headers(headers: dict[str, str]) -> dict[str, str]:
    check_headers(headers, own=_OWN, by="otlp")
    return headers


class Otlp(TlsDelivery):
    """Send records to an OpenTelemetry collector, as log records (OTLP over HTTP, binary Protobuf).

    `url` is the collector (`http://collector:4318`), or the whole path to its logs when that ends in `/v1/logs`. The
    body of a log record is the record as text, or as bytes where the format is binary. `event_name` is
    `sightline.KIND`, and the attributes are `sightline.stream`, `sightline.epoch`, `sightline.seq`, `sightline.record`
    (the kind) and `log.record.uid` (`PIPELINE/STEP/STREAM/EPOCH/SEQ`), which is the same when a record comes twice. The
    time is when the record was made. The resource has `service.name` (`sightline`, or OTEL_SERVICE_NAME),
    `service.instance.id`, `host.name`, `sightline.pipeline` and what OTEL_RESOURCE_ATTRIBUTES adds.

    After 408, 425, 429, 5xx or no answer, the request is sent again later, and not before the time in `Retry-After`.
    After 400, 413 or 422 it is halved until the refused record is found. When the collector rejects some records of a
    request (partial success), the request is not sent again, as OTLP demands: its records are set aside with the
    reason, and those rejected are counted as refused.

    Needs `pip install 'sightline[otel]'`.

    ```yaml
    - otlp: {url: "http://127.0.0.1:4318", send: [events, status]}
    ```
    """

    name: ClassVar[str] = "otlp"
    schemes: ClassVar[tuple[str, ...]] = ("http", "https")
    tls_schemes: ClassVar[tuple[str, ...]] = ("https",)

    url: Annotated[str, AfterValidator(readable_url), Field(repr=False)]
    """The collector. Credentials belong into environment variables: `${NAME}`."""
    batch: Annotated[int, Field(ge=1, le=10_000)] = 500
    """Maximum number of records in a request."""
    headers: Annotated[Annotated[dict[str, str], AfterValidator(_checked_headers)] | None, Field(repr=False)] = None
    """Headers of each request, such as `Authorization`. Their values are treated as secrets."""
    compression: Literal["none", "gzip"] = "none"
    """How requests are compressed."""

    def check(self, context: CheckContext) -> Iterator[Problem]:
        """Check the URL, the headers, the certificates, and that the extra is installed."""
        yield from super().check(context)
        parts = urlsplit(self.url)
        if "{" in parts.netloc + parts.path + parts.query:
            yield Problem("all records go to one URL: it takes no placeholders", ("url",))
        yield from credential_problems(self.url, self.headers or {})

    def destination(self) -> str:
        """Return the URL without credentials and without its query, which may hold a token."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{_path(parts.path)}"

    def transport(self, site: Site) -> Transport:
        """Make the transport, without connecting. Raises MissingExtra without OpenTelemetry's packages,
        ConfigurationError when a certificate cannot be loaded.
        """
        try:
            import opentelemetry.proto.collector.logs.v1.logs_service_pb2  # noqa: F401
        except ModuleNotFoundError as error:
            raise MissingExtra("opentelemetry-proto", extra="otel", purpose="`otlp`") from error
        return OtlpTransport(self, pipeline=site.pipeline, element_id=site.element_id, tls=self.tls_context())


class OtlpTransport(Transport):
    """Posts requests of log records over one connection that is kept open."""

    def __init__(self, element: Otlp, *, pipeline: str, element_id: str, tls: ssl.SSLContext | None) -> None:
        """Raises MissingExtra without OpenTelemetry's packages."""
        self._element = element
        self._sender = f"{pipeline}/{element_id}"
        self._collector = HttpDestination(
            element.url,
            where=element.destination(),
            headers=element.headers or {},
            tls=tls,
            timeout_seconds=element.timeout / 1e9,
        )
        self._target = quote(_path(urlsplit(element.url).path), safe="/%:@!$&'()*+,;=~") + self._collector.query
        self._headers = {"Content-Type": _PROTOBUF}
        if element.compression == "gzip":
            self._headers["Content-Encoding"] = "gzip"
        self._head = _head(pipeline)

    def connect(self) -> None:
        """Open the connection."""
        self._collector.connect()

    def deliver(self, records: Sequence[Record]) -> None:
        """Post the records. Raises RecordRefused, RecordsRejected, DestinationLost, DestinationRefused."""
        deliver_in_parts(records, self._post, size=self._element.batch)

    def close(self) -> None:
        """Close the connection."""
        self._collector.close()

    def _post(self, records: Sequence[Record]) -> None:
        answer = self._collector.post(self._target, body=self._body(records), headers=self._headers)
        self._collector.judge(answer, text=_error_text(answer), refused_record=_REFUSED_RECORD)
        where = self._collector.where
        if _media_type(answer) == "text/html":
            raise DestinationRefused(f"{where} answers with a web page: it is no OTLP receiver; correct `url`")
        rejected, said = _partial_success(answer)
        if rejected > 0:
            rejected, text = min(rejected, len(records)), self._collector.excerpt(said)
            message = f"{where} rejected {rejected} of {len(records)} records" + (f": {text}" if text else "")
            raise RecordsRejected(message, among=len(records), rejected=rejected)

    def _body(self, records: Sequence[Record]) -> bytes:
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

        request = ExportLogsServiceRequest(resource_logs=[self._head])
        logs = request.resource_logs[0].scope_logs[0].log_records
        for record in records:
            _add_log_record(logs, record, sender=self._sender)
        body = request.SerializeToString()
        return gzip.compress(body, compresslevel=1) if self._element.compression == "gzip" else body


def _path(path: str) -> str:
    """Return the path of the logs of a collector whose base path this is, or the path itself if it is that already."""
    path = path.rstrip("/")
    return path if path.endswith(_PATH) else path + _PATH


def _head(pipeline: str) -> ResourceLogs:
    """Return what is the same in all requests: the resource and the scope, without log records."""
    from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
    from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs, ScopeLogs

    found = make_resource(pipeline, purpose="`otlp`")
    head = ResourceLogs(scope_logs=[ScopeLogs(scope=InstrumentationScope(name=_SCOPE))])
    for name, value in found.attributes.items():
        _set(head.resource.attributes.add(key=name).value, value)
    return head


def _set(to: Any, value: object) -> None:
    """Set an `AnyValue`."""
    if isinstance(value, int):
        to.int_value = value
    else:
        to.string_value = str(value)


def _add_log_record(logs: Any, record: Record, *, sender: str) -> None:
    log = logs.add(
        time_unix_nano=record.time_ns,
        observed_time_unix_nano=record.time_ns,
        severity_number=9,
        severity_text="INFO",
        event_name=f"sightline.{record.kind}",
    )
    try:
        log.body.string_value = record.body.decode()
    except UnicodeDecodeError:
        log.body.bytes_value = record.body
    stream = record.stream.encode(errors="replace").decode()
    for name, value in (
        ("sightline.stream", stream),
        ("sightline.epoch", record.epoch),
        ("sightline.seq", record.seq),
        ("sightline.record", record.kind),
        ("log.record.uid", f"{sender}/{stream}/{record.epoch}/{record.seq}"),
    ):
        _set(log.attributes.add(key=name).value, value)


def _media_type(answer: Answer) -> str:
    return (answer.headers.get("Content-Type") or "").partition(";")[0].strip().lower()


def _partial_success(answer: Answer) -> tuple[int, str]:
    """Return how many records a collector rejected, and why; 0 when its answer does not say."""
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse

    if _media_type(answer) != _PROTOBUF:
        return 0, ""
    try:
        found = ExportLogsServiceResponse.FromString(answer.body).partial_success
    except DecodeError:
        return 0, ""
    return found.rejected_log_records, found.error_message


def _error_text(answer: Answer) -> str:
    """Return what an answer with an error says: the message of a `google.rpc.Status`, or text."""
    from google.protobuf.message import DecodeError
    from google.rpc.status_pb2 import Status

    if _media_type(answer) != _PROTOBUF:
        return answer.text
    try:
        return str(Status.FromString(answer.body).message)
    except DecodeError:
        return ""
