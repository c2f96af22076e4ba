"""The metrics: right by the linter of Prometheus, and by what is known to have happened."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping

from sightline import Pipeline
from sightline.graph import StreamState
from sightline.server import Listener, listen
from tests.integration.server.conftest import Lint, ask, endless, wait_for, watched

SAMPLE = re.compile(r"(?P<name>[a-z_]+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")


def samples(text: str) -> dict[str, float]:
    """Every sample by its name and labels."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = SAMPLE.fullmatch(line)
            assert match is not None, line
            key, _, value = line.rpartition(" ")
            assert key not in found, f"twice: {key}"
            found[key] = float(value)
    return found


def metrics(listener: Listener) -> dict[str, float]:
    return samples(ask(listener.port, "/metrics").text)


def test_the_linter_of_prometheus_finds_nothing(listener: Listener, lint: Lint) -> None:
    assert lint(ask(listener.port, "/metrics").text) == ""


def test_the_linter_finds_nothing_before_the_start(lint: Lint) -> None:
    with listen(Pipeline(sources={"gate": endless()}), "127.0.0.1:0") as listener:
        assert lint(ask(listener.port, "/metrics").text) == ""


def test_the_linter_works(lint: Lint) -> None:
    assert "_total" in lint("# HELP a_b_total Wrong.\n# TYPE a_b_total gauge\na_b_total 1\n")


def test_everything_is_in_one_namespace(listener: Listener) -> None:
    assert {key.split("_")[0] for key in metrics(listener)} == {"sightline"}


def test_the_state_of_a_stream_is_one_hot() -> None:
    sources: dict[str, Mapping[str, object]] = {"gate": endless(), "camera": {"uri": "rtsp://127.0.0.1:9/main"}}
    with watched(Pipeline(sources=sources)) as listener:
        lost = 'sightline_stream_state{stream="camera",state="lost"}'
        wait_for(lambda: metrics(listener).get(lost) == 1)
        found = metrics(listener)

    for stream in sources:
        states = [found[f'sightline_stream_state{{stream="{stream}",state="{state}"}}'] for state in StreamState]
        assert sorted(states) == [0] * (len(StreamState) - 1) + [1]


def test_every_frame_ends_in_exactly_one_counter() -> None:
    pipeline = Pipeline(sources={"gate": {"pattern": "bars", "frames": 40}}, steps=["draw"])
    with listen(pipeline, "127.0.0.1:0") as listener:
        report = pipeline.run()
        found = metrics(listener)

    dropped = sum(value for key, value in found.items() if key.startswith("sightline_stream_frames_dropped_total"))
    received, processed, damaged = (
        found[f'sightline_stream_frames_{what}_total{{stream="gate"}}'] for what in ("received", "processed", "damaged")
    )
    assert received == report.streams[0].received == 40
    assert processed + damaged + dropped == received


def test_histograms_add_up() -> None:
    pipeline = Pipeline(sources={"gate": {"pattern": "bars", "frames": 40}}, steps=["draw"])
    with listen(pipeline, "127.0.0.1:0") as listener:
        pipeline.run()
        found = metrics(listener)

    latency = 'sightline_stream_latency_seconds{}{{stream="gate"{}}}'
    buckets = [value for key, value in found.items() if key.startswith("sightline_stream_latency_seconds_bucket")]
    assert buckets == sorted(buckets)
    assert buckets[-1] == found[latency.format("_count", "")] == 40
    assert 0 < found[latency.format("_sum", "")] < 60
    assert (
        found['sightline_element_latency_seconds_count{element="draw-1"}']
        == (found['sightline_element_calls_total{element="draw-1"}'])
    )


def test_queues_and_the_process_are_measured(listener: Listener) -> None:
    found = metrics(listener)

    assert found['sightline_link_capacity{link="source",stream="gate"}'] == 4
    assert found['sightline_link_depth{link="source",stream="gate"}'] <= 4
    assert found['sightline_link_oldest_age_seconds{link="source",stream="gate"}'] < 10
    assert found["sightline_process_resident_memory_bytes"] > 1e7
    assert found["sightline_process_threads"] > 3
    assert found["sightline_process_open_files"] > 3


def test_series_do_not_grow_with_time(listener: Listener) -> None:
    before = set(metrics(listener))
    processed = 'sightline_stream_frames_processed_total{stream="gate"}'
    start = metrics(listener)[processed]
    wait_for(lambda: metrics(listener)[processed] > start + 10)

    assert set(metrics(listener)) == before


def test_a_stream_that_is_added_has_all_its_series_at_once() -> None:
    pipeline = Pipeline(sources={"gate": endless()})
    with watched(pipeline) as listener:
        wait_for(lambda: ask(listener.port, "/readyz").status == 200)
        pipeline.add_source("door", endless()).wait(300)
        found = metrics(listener)

    gate, door = ({key for key in found if f'stream="{name}"' in key} for name in ("gate", "door"))
    assert {key.replace("gate", "door") for key in gate} == door


def test_the_runs_of_a_model_are_counted(repository: object) -> None:
    steps: list[str | Mapping[str, object]] = [
        {"detect": {"model": f"{repository}/models/street.onnx", "every": 4}},
        "track",
    ]
    pipeline = Pipeline(sources={"gate": {"pattern": "bars", "frames": 12}}, steps=steps)
    with listen(pipeline, "127.0.0.1:0") as listener:
        pipeline.run()
        found = metrics(listener)

    assert found['sightline_engine_runs_total{element="detect-1"}'] == 3


def test_the_start_of_a_run_is_a_time_of_day() -> None:
    pipeline = Pipeline(sources={"gate": endless()})
    before = time.time()
    with watched(pipeline) as listener:
        wait_for(lambda: metrics(listener)['sightline_pipeline_running{pipeline="pipeline"}'] == 1)
        started = metrics(listener)["sightline_pipeline_start_time_seconds"]

    assert before - 1 < started <= time.time()
