"""A disk that is full under the outbox: reported, nothing stops, and nothing is lost that memory can hold."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.graph import Message, MessageKind
from sightline_plugins import Webhook
from tests.disks import fill
from tests.integration.delivery.web_server import Asked, web_server
from tests.integration.figures import Record
from tests.ports import free_port
from tests.waiting import wait_until

FPS = 100


def running(folder: Path, *, port: int, messages: list[Message]) -> Pipeline:
    """A pipeline with a record for each frame, and its outbox on the small disk."""
    pipeline = Pipeline(
        sources={"gate": {"pattern": "counter", "size": [64, 48], "fps": FPS, "frames": None, "realtime": True}},
        steps=[Webhook(url=f"http://127.0.0.1:{port}/", body="lines", timeout="60s")],
        outbox={"path": str(folder / "run.outbox")},
    )
    pipeline.on_message(messages.append)
    pipeline.start()
    return pipeline


def stopped(pipeline: Pipeline, asked: Asked) -> tuple[list[int], int]:
    """End the pipeline; the frames that the server has, and how many wait for the next run."""
    pipeline.stop()
    report = pipeline.wait()
    assert not report.lost_outputs
    frames = [json.loads(line)["frame"] for request in asked.requests for line in request.body.splitlines()]
    return frames, report.deliveries[0].depth


def said(messages: list[Message], kind: MessageKind) -> bool:
    return any(message.kind is kind for message in messages)


@pytest.mark.row(id="C4")
def test_a_full_disk_is_reported_and_nothing_is_lost(tmpfs: Path, figure: Record) -> None:
    port, messages = free_port(), list[Message]()
    pipeline = running(tmpfs, port=port, messages=messages)
    wait_until(lambda: pipeline.status()[0].processed > 20)

    filled = time.monotonic()
    fill(tmpfs / "rubbish")
    wait_until(lambda: said(messages, MessageKind.SINK_DEGRADED))
    figure("a full disk under the outbox is reported", time.monotonic() - filled, limit=2.0, unit="s")
    degraded = pipeline.status()[0].processed
    wait_until(lambda: pipeline.status()[0].processed > degraded + 2 * FPS)
    freed = time.monotonic()
    (tmpfs / "rubbish").unlink()
    wait_until(lambda: said(messages, MessageKind.SINK_RECOVERED))
    figure("the outbox is written again", time.monotonic() - freed, limit=10.0, unit="s")

    with web_server(lambda exchange, _: exchange.answer(200), port=port) as asked:
        wait_until(lambda: asked.requests)
        frames, left = stopped(pipeline, asked)

    assert frames == list(range(pipeline.status()[0].processed - left))


def test_records_are_delivered_while_the_disk_is_full(tmpfs: Path) -> None:
    messages = list[Message]()
    with web_server(lambda exchange, _: exchange.answer(200)) as asked:
        pipeline = running(tmpfs, port=int(asked.url.rsplit(":")[-1].strip("/")), messages=messages)
        wait_until(lambda: asked.requests)
        fill(tmpfs / "rubbish")
        wait_until(lambda: said(messages, MessageKind.SINK_DEGRADED))
        before = len(asked.requests)
        wait_until(lambda: len(asked.requests) > before + 20)
        frames, left = stopped(pipeline, asked)

    assert frames == list(range(pipeline.status()[0].processed - left))
