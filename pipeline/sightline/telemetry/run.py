"""The telemetry of one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from sightline.graph import Message, MessageKind
from sightline.graph.telemetry import TelemetryOptions
from sightline.redaction import redact
from sightline.runtime.stats.counters import TelemetryStats
from sightline.runtime.stats.snapshot import RunView
from sightline.runtime.tracing import FrameSampler, FrameTrace, Tracer
from sightline.telemetry.export import MetricSender, SpanSender
from sightline.telemetry.metrics import metrics_of
from sightline.telemetry.resource import make_resource
from sightline.telemetry.spans import spans_of


class RunTelemetry:
    """Sends traces of sampled frames, and the metrics of a run, to a collector. One warning reports that it does not
    take them; what is lost is counted in `stats`, and the run goes on as if nothing had happened.
    """

    def __init__(self, options: TelemetryOptions, *, pipeline: str, post: Callable[[Message], None]) -> None:
        self.stats = TelemetryStats()
        self._options = options
        self._post = post
        self._lock = Lock()
        self._has_warned = False
        self._where = "the collector" if options.endpoint is None else _shown(options.endpoint)
        self._resource = make_resource(pipeline, purpose="`telemetry`")
        self._metrics: MetricSender | None = None
        self._spans = SpanSender(
            endpoint=options.endpoint, headers=options.headers or {}, stats=self.stats, trouble=self._report
        )
        sampler = FrameSampler(options.sample, most_per_second=options.max_rate)
        self.tracer = Tracer(sampler, export=self._export) if options.sample else None
        """Traces frames; None when none is to be."""

    def start(self, view: Callable[[], RunView]) -> None:
        """Begin to send metrics."""
        options = self._options
        if options.metrics:
            self._metrics = MetricSender(
                lambda: metrics_of(view(), self._resource),
                endpoint=options.endpoint,
                headers=options.headers or {},
                interval_seconds=options.interval / 1e9,
                stats=self.stats,
                trouble=self._report,
            )
            self._metrics.start()

    def stop(self, *, seconds: float) -> None:
        """End the traces that are open, and send what waits and the last metrics, for so long at most."""
        end = time.monotonic() + seconds
        if self.tracer is not None:
            self.tracer.close("the run has ended")
        senders: list[SpanSender | MetricSender] = (
            [self._spans] if self._metrics is None else [self._spans, self._metrics]
        )
        for sender in senders:
            sender.begin_to_close()
        for sender in senders:
            sender.close(seconds=max(end - time.monotonic(), 0.0))

    def _export(self, trace: FrameTrace) -> None:
        with self._lock:
            self.stats.traces += 1
        self._spans.send(spans_of(trace, self._resource))

    def _report(self, what: str, problem: str) -> None:
        with self._lock:
            is_new, self._has_warned = not self._has_warned, True
        if is_new:
            text = f"{self._where} does not take the {what}: {problem}; what it does not take is dropped and counted"
            self._post(Message(MessageKind.WARNING, text))


def _shown(endpoint: str) -> str:
    """Return an endpoint without credentials and without its query, which may hold a token."""
    return redact(endpoint.partition("?")[0])
