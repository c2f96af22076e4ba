"""The counts of streams whose worker was lost."""

from __future__ import annotations

import pytest

from sightline import Pipeline
from sightline.config import InvalidConfiguration
from sightline.errors import ConfigurationError
from sightline.graph import Message, MessageKind, PipelineDescription, StreamState
from sightline.graph.site import SystemClock
from sightline.media import Stream
from sightline.runtime.processes.streams import Done, RunStreams
from sightline.runtime.stats.counters import DropReason, StreamStats
from sightline_plugins import Apply, Jsonl, Mqtt
from tests.unit.runtime.elements import Synthetic


def running(*, camera: bool) -> tuple[RunStreams, list[Message]]:
    """A stream of which a worker has told 10 received and 6 processed frames, and then another two that are done."""
    messages: list[Message] = []
    streams = RunStreams({"gate": Synthetic(camera=camera)}, clock=SystemClock(), post=messages.append)
    streams.update([StreamStats(Stream("gate", live=camera), state=StreamState.LIVE, received=10, processed=6)])
    streams.done({"gate": Done(6, 5, 500, 8)})
    streams.done({"gate": Done(2, 7, 700, 12)})
    return streams, messages


def counts(streams: RunStreams) -> tuple[StreamState, int, int, int]:
    (stats,) = streams.all
    return stats.state, stats.received, stats.processed, stats.dropped[DropReason.WORKER_LOST]


def test_a_file_is_read_again_behind_what_was_processed() -> None:
    streams, _ = running(camera=False)

    assert streams.lost(["gate"], reason="worker 1 ended", delay_seconds=0.1, is_hopeless=False) == 0
    assert counts(streams) == (StreamState.LOST, 8, 8, 0)
    assert [one.received for one in streams.former(["gate"])] == [8]


def test_frames_of_a_camera_that_were_under_way_are_lost() -> None:
    streams, messages = running(camera=True)

    assert streams.lost(["gate"], reason="worker 1 ended", delay_seconds=0.1, is_hopeless=True) == 4
    assert counts(streams) == (StreamState.LOST, 12, 8, 4)
    assert [one.kind for one in messages] == [MessageKind.STREAM_LOST]


def test_a_file_that_no_worker_gets_further_with_fails() -> None:
    streams, messages = running(camera=False)

    assert streams.lost(["gate"], reason="worker 1 ended", delay_seconds=0.1, is_hopeless=True) == 4
    assert counts(streams) == (StreamState.FAILED, 12, 8, 4)
    assert [one.text for one in messages] == ["worker 1 ended, again and again"]


def test_a_stream_ends_with_a_worker_that_is_not_replaced() -> None:
    streams, _ = running(camera=True)

    assert streams.lost(["gate"], reason="worker 1 ended", delay_seconds=None, is_hopeless=False) == 4
    assert counts(streams)[0] is StreamState.ENDED
    assert streams.is_over("gate")


def test_steps_that_need_one_process_are_refused() -> None:
    pipeline = Pipeline(
        sources={"a": Synthetic(), "b": Synthetic()},
        steps=[Apply(function="math:sin"), Mqtt(url="mqtt://127.0.0.1", send="events", image="crop")],
        processes=2,
    )

    with pytest.raises(InvalidConfiguration) as raised:
        pipeline.check()

    assert "pipeline.0.apply: cannot be part of a pipeline in several processes, because its function" in str(
        raised.value
    )
    assert "pipeline.1.mqtt: cannot be part of a pipeline in several processes, because `image`" in str(raised.value)


def test_frames_of_several_processes_cannot_be_iterated_over() -> None:
    pipeline = Pipeline(sources={"a": Synthetic(), "b": Synthetic()}, processes=2)

    with pytest.raises(ConfigurationError, match="frames cannot be iterated over"):
        next(iter(pipeline))


@pytest.mark.parametrize(
    ("processes", "streams", "stays", "count"),
    [(4, 8, False, 4), (4, 3, False, 3), (4, 0, True, 4), (1, 8, False, 1), ("auto", 1, False, 1)],
)
def test_there_are_no_more_processes_than_streams(processes: object, streams: int, stays: bool, count: int) -> None:
    sources = {f"cam{number}": Synthetic() for number in range(streams)}
    description = PipelineDescription.model_validate(
        {
            "sources": sources,
            "steps": (Jsonl(path="a.jsonl"),),
            "processes": {"count": processes},
            "keep_running": stays,
        }
    )

    assert description.process_count == count
