"""Traces of frames as spans of OpenTelemetry.

The trace of a frame is one span `frame`, from the beginning of its reading to the end of the last step, and below it a
span for each part of its way:

- `read`: reading and decoding, in the source's thread.
- `wait LINK`: waiting in a link, with the name that the link has in the metrics.
- `batch`: waiting for the other frames of its batch.
- the id of a step, such as `detect-1`: from the call of the element to its result. The wait in a link during which a
  result is pending is below its step.
"""

from __future__ import annotations

import random
from importlib.metadata import version

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags

from sightline.runtime.tracing import FrameTrace, Span, SpanKind

Attributes = dict[str, str | int | float | bool]
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
SCOPE = InstrumentationScope("sightline", version("sightline"))


def spans_of(trace: FrameTrace, resource: Resource) -> list[ReadableSpan]:
    """Return the spans of a complete trace, the one of the frame first."""
    root = _context(trace.trace_id, trace.span_id)
    spans = tuple(trace.spans)  # a branch may still add some to the trace of a frame that was lost
    contexts = {id(span): _context(trace.trace_id, random.getrandbits(63) + 1) for span in spans}
    whole = ReadableSpan(
        "frame",
        context=root,
        resource=resource,
        attributes=_of_frame(trace),
        links=[Link(_context(*mate)) for mate in trace.batch_mates],
        status=Status() if trace.lost is None else Status(StatusCode.ERROR, trace.lost),
        start_time=trace.epoch_ns(trace.began_ns),
        end_time=trace.epoch_ns(trace.ended_ns),
        instrumentation_scope=SCOPE,
    )
    parts = [
        ReadableSpan(
            f"wait {span.name}" if span.kind is SpanKind.WAIT else span.name,
            context=contexts[id(span)],
            parent=root if span.parent is None else contexts[id(span.parent)],
            resource=resource,
            attributes=_of_part(trace, span),
            status=Status(),
            start_time=trace.epoch_ns(span.began_ns),
            end_time=trace.epoch_ns(span.ended_ns or trace.ended_ns),
            instrumentation_scope=SCOPE,
        )
        for span in spans
        if span.parent is None or id(span.parent) in contexts
    ]
    return [whole, *parts]


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)


def _of_frame(trace: FrameTrace) -> Attributes:
    found: Attributes = {
        "sightline.stream": trace.stream.name.encode(errors="replace").decode(),
        "sightline.frame.index": trace.index,
        "sightline.frame.pts": trace.pts_ns / 1e9,
        "sightline.frame.damaged": trace.is_damaged,
    }
    if trace.batch_id is not None:
        found |= {"sightline.batch.id": trace.batch_id, "sightline.batch.size": trace.batch_size}
    if trace.finished_ns is not None:
        found["sightline.frame.latency"] = (trace.finished_ns - trace.arrived_ns) / 1e9
    return found


def _of_part(trace: FrameTrace, span: Span) -> Attributes:
    found: Attributes = {"thread.name": span.thread}
    if span.kind is SpanKind.READ:
        found["sightline.read.cpu_time"] = span.cpu_ns / 1e9
    if span.kind is SpanKind.WAIT:
        found["sightline.link"] = span.name
    if span.kind is SpanKind.STEP:
        found |= {
            "sightline.element": span.name,
            "sightline.element.type": span.element,
            "sightline.element.frames": span.frames,
        }
    if span.kind is not SpanKind.READ and trace.batch_id is not None:
        found["sightline.batch.id"] = trace.batch_id
    return found
