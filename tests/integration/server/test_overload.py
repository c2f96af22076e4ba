"""More live streams than the machine carries: served fairly, soon enough, drops counted, and the overload said."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from sightline import Element, Operator, Pipeline
from sightline.graph import Message, MessageKind, Site, SourceElement, SourceReader, Threading
from sightline.media import Batch, Frame, Stream
from sightline.runtime.stats.report import Report
from sightline.server import listen
from sightline.testing import assert_accounted, make_frames
from tests.integration.figures import Record
from tests.integration.server.conftest import ask, wait_for

STREAMS = 64
FPS, CALM_FPS = 25, 2
SLOW_SECONDS = 0.002
"""Time of the slow step for one frame: at most 500 frames a second of the 1,600 that come."""
SHARE = 30
"""Frames of each stream, once all are there, by which it is judged whether all get the same."""
WINDOW_NS = 2_000_000_000
"""How long frames must be dropped before overload is reported; usually five seconds."""
CALM = threading.Event()
"""From now on the step takes no time, and cameras send five frames a second."""


class Camera(SourceElement):
    """A live stream that waits for nobody."""

    name: ClassVar[str] = "camera"

    @property
    def live(self) -> bool:
        return True

    def build(self, site: Site, *, stream: Stream) -> SourceReader:
        del site
        return _CameraReader(stream)


class _CameraReader(SourceReader):
    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._over = threading.Event()

    def frames(self) -> Iterator[Frame]:
        surface = make_frames(1)[0].surface
        begun = due = time.monotonic()
        index = 0
        while not self._over.wait(max(0.0, due - time.monotonic())):
            yield Frame(self._stream, index, round((due - begun) * 1e9), surface)
            index += 1
            due += 1 / (CALM_FPS if CALM.is_set() else FPS)

    def stop(self) -> None:
        super().stop()
        self._over.set()


class Slow(Element):
    """Takes its time for every frame, until all is calm."""

    name: ClassVar[str] = "slow"
    threading: ClassVar[Threading] = Threading.OWN

    def build(self, site: Site) -> Operator:
        return _Slow()


class _Slow(Operator):
    def process(self, batch: Batch) -> Batch:
        CALM.wait(SLOW_SECONDS * len(batch))
        return batch


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of a run."""

    report: Report
    messages: list[Message]
    status: dict[str, Any]
    metrics: str
    shares: list[int]
    answer_seconds: float


@pytest.fixture(scope="module")
def seen() -> Seen:
    """Many cameras and a slow step, until overload is reported and a little longer; then calm."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sightline.runtime.stats.overload._WINDOW_NS", WINDOW_NS)
        return watched()


def watched() -> Seen:
    """The same, with whatever window."""
    CALM.clear()
    messages: list[Message] = []
    sources = {f"camera-{number:02}": Camera() for number in range(STREAMS)}
    pipeline = Pipeline(sources=sources, steps=[Slow()])
    pipeline.on_message(messages.append)

    def said(kind: MessageKind) -> bool:
        return any(message.kind is kind for message in messages)

    with listen(pipeline, "127.0.0.1:0") as listener:
        pipeline.start()
        wait_for(lambda: said(MessageKind.OVERLOADED))
        before = processed(pipeline)
        wait_for(lambda: processed(pipeline)["camera-00"] >= before["camera-00"] + SHARE)
        shares = [count - before[name] for name, count in processed(pipeline).items()]
        status, metrics = ask(listener.port, "/status").json(), ask(listener.port, "/metrics").text
        asked = time.monotonic()
        ask(listener.port, "/healthz")
        answer_seconds = time.monotonic() - asked
        CALM.set()
        wait_for(lambda: said(MessageKind.KEEPS_UP))
        pipeline.stop()
        report = pipeline.wait()
    return Seen(report, messages, status, metrics, shares, answer_seconds)


def processed(pipeline: Pipeline) -> dict[str, int]:
    """Frames that went all the way so far."""
    return {one.name: one.processed for one in pipeline.status()}


def test_every_frame_is_accounted_for_and_drops_are_counted(seen: Seen) -> None:
    assert_accounted(seen.report, stopped=True)
    assert all(stream.dropped["overloaded"] > 0 for stream in seen.report.streams)


@pytest.mark.row(id="D4")
def test_all_streams_get_the_same_share(seen: Seen, figure: Record) -> None:
    ratio = max(seen.shares) / min(seen.shares)

    figure("most to least frames of a stream", ratio, limit=1.2, unit="x")
    assert ratio <= 2


@pytest.mark.row(id="D4")
def test_latency_is_bounded(seen: Seen, figure: Record) -> None:
    worst_ms = max(stream["latency_ms"]["p95"] for stream in seen.status["streams"])

    figure("95th percentile of latency, of the worst stream", worst_ms / 1000, limit=2.0, unit="s")


def test_queues_stay_short(seen: Seen) -> None:
    assert all(link["depth"] <= link["capacity"] <= 8 for link in seen.status["links"])


def test_overload_is_said_once_with_its_cause_and_so_is_its_end(seen: Seen) -> None:
    said = [one for one in seen.messages if one.kind in (MessageKind.OVERLOADED, MessageKind.KEEPS_UP)]

    assert [one.kind for one in said] == [MessageKind.OVERLOADED, MessageKind.KEEPS_UP]
    assert said[0].text.startswith("overloaded: ")
    assert said[0].text.endswith(f"{STREAMS} live streams are dropped; the busiest step is slow-1")


def test_status_and_metrics_say_it(seen: Seen) -> None:
    assert seen.status["overloaded"] is True
    assert all(stream["overloaded"] for stream in seen.status["streams"])
    assert "\nsightline_overloaded 1\n" in seen.metrics
    assert '\nsightline_stream_overloaded{stream="camera-00"} 1\n' in seen.metrics


@pytest.mark.row(id="D4")
def test_questions_are_answered_meanwhile(seen: Seen, figure: Record) -> None:
    figure("`/healthz` answered after", seen.answer_seconds, limit=0.5, unit="s")
