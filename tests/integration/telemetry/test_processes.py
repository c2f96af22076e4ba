"""What a collector receives of a pipeline in several processes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from sightline import Pipeline
from tests.integration.telemetry.collector import collector
from tests.integration.telemetry.test_metrics import in_prometheus
from tests.integration.telemetry.test_traces import root_of, traces_of

STREAMS, FRAMES = ("gate", "yard", "dock"), 30


def test_metrics_come_from_all_processes_together_and_traces_from_each(tmp_path: Path) -> None:
    source = {"pattern": "counter", "size": [64, 48], "frames": FRAMES}
    with collector() as found:
        report = Pipeline(
            sources=dict.fromkeys(STREAMS, source),
            steps=["draw", {"jsonl": "all.jsonl"}],
            telemetry={"endpoint": found.url, "sample": 1.0, "max_rate": 1000},
            processes=2,
            outputs=tmp_path,
        ).run()

    metrics = in_prometheus(found.metric_requests[-1])
    processed = {dict(labels)["stream"]: n for (name, labels), n in metrics.items() if name.endswith("processed_total")}
    assert processed == dict.fromkeys(STREAMS, FRAMES)
    traces = traces_of(found)
    assert Counter(root_of(trace).attributes["sightline.stream"] for trace in traces) == dict.fromkeys(STREAMS, FRAMES)
    sent = report.telemetry
    assert sent is not None
    assert (sent.traces, sent.spans, sent.spans_dropped) == (len(traces), sum(map(len, traces)), 0)
    assert sent.exports == len(found.metric_requests)
