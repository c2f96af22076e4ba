"""Clients that mean ill: the pipeline goes on, who asks properly is answered, and nothing is left behind."""

from __future__ import annotations

import pytest
from benchmarks.hostile_clients import ATTACKS, TOKEN, attacking, health_seconds, served_pipeline

from sightline.server import listen
from tests.integration.server.conftest import wait_for
from tests.open_files import open_files

FRAMES = 50


@pytest.mark.parametrize("name", ATTACKS)
def test_the_pipeline_goes_on_and_nothing_is_left_behind(name: str) -> None:
    pipeline = served_pipeline()
    with listen(pipeline, "127.0.0.1:0", token=TOKEN) as listener, pipeline:
        wait_for(lambda: all(one.processed for one in pipeline.status()))
        files = len(open_files())
        with attacking(name, listener.port):
            before = [one.processed for one in pipeline.status()]
            for _ in range(5):
                health_seconds(listener.port)
            goal = [count + FRAMES for count in before]
            wait_for(lambda: all(one.processed >= want for one, want in zip(pipeline.status(), goal, strict=True)))
            health_seconds(listener.port)
        wait_for(lambda: len(open_files()) <= files)
        pipeline.stop()
        report = pipeline.wait()

    assert {reason for stream in report.streams for reason, count in stream.dropped.items() if count} <= {"stopped"}
