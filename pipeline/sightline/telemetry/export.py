"""Send spans and metrics to a collector, each in a thread of its own; what does not arrive is counted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Event, Lock

from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from sightline.runtime.stats.counters import TelemetryStats
from sightline.runtime.threads import Worker
from sightline.telemetry.session import ObservedSession, quiet

_LOG = logging.getLogger(__name__)
_TIMEOUT_SECONDS = 10.0
_MOST_SPANS = 2048
_SPANS_IN_A_REQUEST = 512
_INTERVAL_MS = 5_000
_SILENT = "it does not answer in time"

Trouble = Callable[[str, str], None]
"""Gets what is not sent (`traces`, `metrics`), and why, whenever an export fails."""


class Signal:
    """One kind of telemetry on its way to a collector, by an exporter of OpenTelemetry that logs nothing. One thread at
    a time sends.
    """

    def __init__(self, what: str, *, response: type[Message], rejected: str, trouble: Trouble) -> None:
        """`rejected` is the field of the response that counts what the collector did not take."""
        self.session = ObservedSession(timeout_seconds=_TIMEOUT_SECONDS)
        self._what = what
        self._response = response
        self._rejected = rejected
        self._trouble = trouble
        self._end: Callable[[], None] | None = None
        self._has_ended = False
        self._lock = Lock()

    def open(self, end: Callable[[], None]) -> None:
        """Take what ends the exporter, and interrupts its waiting for another attempt."""
        self._end = end

    def send(self, export: Callable[[], bool], *, count: int) -> int:
        """Export so many items; return how many of them are lost."""
        if self._has_ended:
            return count
        self.session.problem = None
        with quiet():
            try:
                is_sent = export()
            except Exception:  # noqa: BLE001  somebody's exporter; the session knows what went wrong
                is_sent = False
        problem, lost = self.session.problem, count
        if not is_sent:
            problem = problem or _SILENT
        elif problem is None:
            lost = min(_rejected_of(self._response, self.session.body, self._rejected), count)
            problem = f"it rejected {lost} of {count}" if lost else None
        if problem is not None and not self._has_ended:
            self._trouble(self._what, problem)
        return lost

    def stop_sending(self, *, is_late: bool) -> None:
        """Send nothing more, and repeat nothing; harmless when called again. `is_late` says that the collector had
        time, and did not take what waits.
        """
        with self._lock:
            has_ended, self._has_ended = self._has_ended, True
        if has_ended:
            return
        if is_late:
            self._trouble(self._what, self.session.problem or _SILENT)
        if self._end is not None:
            with quiet():
                self._end()


class SpanSender:
    """Keeps up to 2048 spans until they are sent. From any thread; nothing here waits for the collector."""

    def __init__(
        self, *, endpoint: str | None, headers: Mapping[str, str], stats: TelemetryStats, trouble: Trouble
    ) -> None:
        self._stats = stats
        self._signal = Signal("traces", response=ExportTraceServiceResponse, rejected="rejected_spans", trouble=trouble)
        with quiet():
            exporter = OTLPSpanExporter(
                endpoint=at(endpoint, "/v1/traces"), headers=dict(headers), session=self._signal.session
            )
        self._signal.open(exporter.shutdown)
        self._lock = Lock()
        self._waiting = 0
        self._is_over = False
        self._processor = BatchSpanProcessor(
            _CountingExporter(exporter, signal=self._signal, count=self._count),
            max_queue_size=_MOST_SPANS,
            schedule_delay_millis=_INTERVAL_MS,
            max_export_batch_size=_SPANS_IN_A_REQUEST,
        )
        self._closing = _Closing(self._processor)

    def send(self, spans: Sequence[ReadableSpan]) -> None:
        """Take the spans of a trace: all of them, or none where there is no room."""
        with self._lock:
            if self._is_over or self._waiting + len(spans) > _MOST_SPANS:
                self._stats.spans_dropped += len(spans)
                return
            self._waiting += len(spans)
        for span in spans:
            self._processor.on_end(span)

    def begin_to_close(self) -> None:
        """Take no more spans, and send those that wait."""
        self._closing.start()

    def close(self, *, seconds: float) -> None:
        """Wait so long at most for those that are sent; count the rest as dropped."""
        if not self._closing.wait(seconds):
            self._signal.stop_sending(is_late=seconds > 0)
        with self._lock:
            self._is_over = True
            self._stats.spans_dropped += self._waiting
            self._waiting = 0

    def _count(self, spans: int, dropped: int) -> None:
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
    """Sends by another exporter, and counts; called by the thread of the batch processor."""

    def __init__(self, exporter: SpanExporter, *, signal: Signal, count: Callable[[int, int], None]) -> None:
        self._exporter = exporter
        self._signal = signal
        self._count = count

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans."""
        lost = self._signal.send(
            lambda: self._exporter.export(spans) is SpanExportResult.SUCCESS,
            count=len(spans),
        )
        self._count(len(spans), lost)
        return SpanExportResult.FAILURE if lost else SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """End the exporter, when all is sent."""
        self._signal.stop_sending(is_late=False)


class MetricSender(Worker):
    """Sends what `collect` returns at once, at intervals, and once more at the end, in a thread of its own."""

    def __init__(
        self,
        collect: Callable[[], MetricsData],
        *,
        endpoint: str | None,
        headers: Mapping[str, str],
        interval_seconds: float,
        stats: TelemetryStats,
        trouble: Trouble,
    ) -> None:
        super().__init__("telemetry-metrics")
        self._collect = collect
        self._interval_seconds = interval_seconds
        self._stats = stats
        self._stopping = Event()
        self._signal = Signal(
            "metrics", response=ExportMetricsServiceResponse, rejected="rejected_data_points", trouble=trouble
        )
        with quiet():
            self._exporter = OTLPMetricExporter(
                endpoint=at(endpoint, "/v1/metrics"), headers=dict(headers), session=self._signal.session
            )
        self._signal.open(self._exporter.shutdown)

    def work(self) -> None:
        """Send until it is stopped."""
        self._send()
        while not self._stopping.wait(self._interval_seconds):
            self._send()
        self._send()
        self._signal.stop_sending(is_late=False)

    def begin_to_close(self) -> None:
        """Send once more, and end."""
        self._stopping.set()

    def close(self, *, seconds: float) -> None:
        """Wait so long at most for the end."""
        if not self.wait(seconds):
            self._signal.stop_sending(is_late=seconds > 0)

    def _send(self) -> None:
        try:
            data = self._collect()
        except Exception:  # noqa: BLE001  the thread goes on, and so does the run
            if not self._stats.exports_failed:
                _LOG.exception("the metrics of the run cannot be collected")
            self._stats.exports_failed += 1
            return
        count = sum(
            len(metric.data.data_points)
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        )
        lost = self._signal.send(lambda: self._exporter.export(data) is MetricExportResult.SUCCESS, count=count)
        if lost:
            self._stats.exports_failed += 1
        else:
            self._stats.exports += 1


def at(endpoint: str | None, path: str) -> str | None:
    """Return the URL of a signal below the base URL of a collector; a query stays behind the path.

    >>> at("http://127.0.0.1:4318/otlp/?tenant=north", "/v1/traces")
    'http://127.0.0.1:4318/otlp/v1/traces?tenant=north'
    """
    if endpoint is None:
        return None
    base, mark, query = endpoint.partition("?")
    return f"{base.rstrip('/')}{path}{mark}{query}"


def _rejected_of(response: type[Message], body: bytes, field: str) -> int:
    """Return how much a collector rejected of what it took (partial success); 0 when its answer does not say."""
    try:
        return max(int(getattr(response.FromString(body).partial_success, field)), 0)
    except DecodeError:
        return 0
