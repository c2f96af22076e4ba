"""Send spans to a collector, in a thread of OpenTelemetry's batch processor; what does not arrive is counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Lock

from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from sightline.runtime.stats.counters import TelemetryStats
from sightline.runtime.threads import Worker
from sightline.telemetry.session import ObservedSession, quiet

_TIMEOUT_SECONDS = 10.0
_MOST_SPANS = 2048
_SPANS_IN_A_REQUEST = 512
_INTERVAL_MS = 5_000
_SILENT = "it does not answer in time"

Trouble = Callable[[str, str], None]
"""Gets what is not sent (`traces`), and why, whenever an export fails."""


class SpanSender:
    """Keeps up to 2048 spans until they are sent. From any thread; nothing here waits for the collector."""

    def __init__(
        self, *, endpoint: str | None, headers: Mapping[str, str], stats: TelemetryStats, trouble: Trouble
    ) -> None:
        """Raises ConfigurationError for variables of OpenTelemetry that cannot be used."""
        self._stats = stats
        self._exporter = _CountingExporter(endpoint=endpoint, headers=headers, sender=self, trouble=trouble)
        self._lock = Lock()
        self._waiting = 0
        self._is_over = False
        self._processor = BatchSpanProcessor(
            self._exporter,
            max_queue_size=_MOST_SPANS,
            schedule_delay_millis=_INTERVAL_MS,
            max_export_batch_size=_SPANS_IN_A_REQUEST,
        )

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        """Take the spans of a trace: all of them, or none where there is no room."""
        with self._lock:
            if self._is_over or self._waiting + len(spans) > _MOST_SPANS:
                self._stats.spans_dropped += len(spans)
                return
            self._waiting += len(spans)
        for span in spans:
            self._processor.on_end(span)

    def close(self, *, seconds: float) -> None:
        """Send what waits, for so long at most; count the rest as dropped."""
        closing = _Closing(self._processor)
        closing.start()
        if not closing.wait(seconds):
            self._exporter.stop_sending(late=seconds > 0)
        with self._lock:
            self._is_over = True
            self._stats.spans_dropped += self._waiting
            self._waiting = 0

    def count(self, spans: int, *, dropped: int) -> None:
        """Count spans that were sent, of which some are lost."""
        with self._lock:
            if self._is_over:
                return
            self._waiting -= spans
            self._stats.spans += spans - dropped
            self._stats.spans_dropped += dropped


class _Closing(Worker):
    """Ends the batch processor, which takes as long as its exports take."""

    def __init__(self, processor: BatchSpanProcessor) -> None:
        super().__init__("telemetry-close")
        self._processor = processor

    def work(self) -> None:
        """End it."""
        with quiet():
            self._processor.shutdown()  # type: ignore[no-untyped-call]


class _CountingExporter(SpanExporter):
    """Sends by OpenTelemetry's exporter, counts, and reports trouble. It logs nothing."""

    def __init__(
        self, *, endpoint: str | None, headers: Mapping[str, str], sender: SpanSender, trouble: Trouble
    ) -> None:
        self._session = ObservedSession(timeout_seconds=_TIMEOUT_SECONDS)
        self._sender = sender
        self._trouble = trouble
        self._has_ended = False
        self._lock = Lock()
        with quiet():
            self._inner = OTLPSpanExporter(
                endpoint=None if endpoint is None else at(endpoint, "/v1/traces"),
                headers=dict(headers),
                session=self._session,
            )

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        result = SpanExportResult.FAILURE
        if not self._has_ended:
            with quiet():
                result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            rejected = rejected_of(ExportTraceServiceResponse, self._session.body, "rejected_spans")
            problem = f"it rejected {rejected} of {len(spans)} spans" if rejected else self._session.problem
            lost = min(rejected, len(spans)) if self._session.problem is None else len(spans)
        else:
            problem, lost = self._session.problem or _SILENT, len(spans)
        self._sender.count(len(spans), dropped=lost)
        if problem is not None and not self._has_ended:
            self._trouble("traces", problem)
        return result

    def shutdown(self) -> None:
        """End the exporter, when all is sent."""
        self.stop_sending(late=False)

    def stop_sending(self, *, late: bool) -> None:
        """Send nothing more, and repeat nothing; harmless when called again. `late` says that the collector had time,
        and did not take what waits.
        """
        with self._lock:
            has_ended, self._has_ended = self._has_ended, True
        if has_ended:
            return
        if late:
            self._trouble("traces", self._session.problem or _SILENT)
        with quiet():
            self._inner.shutdown()  # type: ignore[no-untyped-call]


def at(endpoint: str, path: str) -> str:
    """Return the URL of a signal below the base URL of a collector; a query stays behind the path.

    >>> at("http://127.0.0.1:4318/otlp/?tenant=north", "/v1/traces")
    'http://127.0.0.1:4318/otlp/v1/traces?tenant=north'
    """
    base, mark, query = endpoint.partition("?")
    return f"{base.rstrip('/')}{path}{mark}{query}"


def rejected_of(response: type[Message], body: bytes, field: str) -> int:
    """Return how much a collector rejected of what it took (partial success); 0 when its answer does not say."""
    try:
        return max(int(getattr(response.FromString(body).partial_success, field)), 0)
    except DecodeError:
        return 0
