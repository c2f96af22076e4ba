"""The status of a run as plain data, for the page and for programs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from sightline.redaction import redact
from sightline.runtime.stats.counters import DeliveryStats, ElementStats, StreamStats, snapshot
from sightline.runtime.stats.metrics import Process
from sightline.runtime.stats.report import delivery_json
from sightline.runtime.stats.snapshot import WELL, LinkView, RunView

_MS = 1e6
_NS = 1e9


def not_ready(view: RunView | None, *, wanted: Sequence[str] = ()) -> dict[str, str]:
    """What keeps the wanted streams (all when none is named) from being ready, by name; empty when they are."""
    if view is None or not view.is_running:
        return {"": "the pipeline does not run"}
    states = {one.stream.name: one.state for one in view.streams}
    unknown = {name: "no such stream" for name in wanted if name not in states}
    return unknown | {
        name: str(state) for name, state in states.items() if state not in WELL and (not wanted or name in wanted)
    }


def status_json(view: RunView | None, *, is_ready: bool, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The status; without streams before the pipeline has begun."""
    process = Process.now()
    return {
        "time": round(time.time(), 3),
        "pipeline": None if view is None else view.pipeline,
        "device": None if view is None else view.device,
        "running": view is not None and view.is_running,
        "ready": is_ready,
        "overloaded": view is not None and view.overloaded,
        "seconds": 0.0 if view is None else round(view.running_ns / _NS, 3),
        "streams": [] if view is None else [stream_json(one, view) for one in view.streams],
        "elements": [] if view is None else [_element_json(one, view) for one in view.elements],
        "links": [] if view is None else [_link_json(one) for one in view.links],
        "deliveries": [] if view is None else [_delivery_json(one) for one in view.deliveries],
        "telemetry": None if view is None or view.telemetry is None else snapshot(view.telemetry),
        "gpus": {} if view is None else {use.gpu: use.to_json() for use in view.gpu_memory},
        "messages": list(messages),
        "process": {
            "resident_bytes": process.resident_bytes,
            "threads": process.threads,
            "open_files": process.open_files,
            "cpu_seconds": round(process.cpu_seconds, 3),
        },
    }


def stream_json(stream: StreamStats, view: RunView) -> dict[str, Any]:
    """The status of one stream."""
    rates = view.rates[stream.stream]
    next_ns = stream.next_attempt_ns
    since_ns = None if stream.state_since_ns is None else view.at_ns - stream.state_since_ns
    silent_ns = None if stream.received_ns is None else max(0, view.at_ns - stream.received_ns)
    return {
        "name": stream.stream.name,
        "live": stream.stream.live,
        "state": str(stream.state),
        "state_seconds": None if since_ns is None else round(since_ns / _NS, 3),
        "cause": None if stream.cause is None else redact(stream.cause),
        "error": None if stream.error is None else redact(stream.error),
        "next_attempt_seconds": None if next_ns is None else round(max(0, next_ns - view.at_ns) / _NS, 3),
        **snapshot(stream),
        "present": dict(stream.present),
        "silent_seconds": None if silent_ns is None else round(silent_ns / _NS, 3),
        "total": stream.frame_count,
        "position_seconds": round(stream.position_ns / _NS, 3),
        "codec": stream.codec,
        "decoder": stream.decoded_by,
        "size": None if stream.size_wh is None else list(stream.size_wh),
        "time_source": None if stream.time_source is None else str(stream.time_source),
        "overloaded": rates.overloaded,
        "rates": {
            "received": round(rates.received, 2),
            "finished": round(rates.finished, 2),
            "dropped": round(rates.dropped, 2),
        },
        "latency_ms": {
            "p50": round(stream.latency.percentile_ns(50) / _MS, 1),
            "p95": round(stream.latency.percentile_ns(95) / _MS, 1),
            "max": round(stream.latency.maximum_ns / _MS, 1),
        },
    }


def _element_json(element: ElementStats, view: RunView) -> dict[str, Any]:
    runs = view.models.get(element.element_id)
    plain = {
        "id": element.element_id,
        **snapshot(element),
        "latency_ms_p95": round(element.latency.percentile_ns(95) / _MS, 1),
    }
    return plain if runs is None else {**plain, "engine_runs": runs.runs, "engine_saved_runs": runs.saved}


def _delivery_json(stats: DeliveryStats) -> dict[str, Any]:
    age = 0.0 if stats.oldest_ns is None else max(time.time_ns() - stats.oldest_ns, 0) / _NS
    return {"id": stats.destination, **delivery_json(stats), "oldest_seconds": round(age, 3)}


def _link_json(link: LinkView) -> dict[str, Any]:
    return {
        "name": link.name,
        "stream": None if link.stream is None else link.stream.name,
        "policy": link.policy,
        "depth": link.depth,
        "capacity": link.capacity,
        "oldest_age_seconds": round(link.oldest_age_ns / _NS, 3),
        **snapshot(link.stats),
    }
