"""Whole pipelines with the outbox of a run: what they send arrives, in order and without gaps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError
from sightline.graph import Site
from sightline.graph.transport import Record, Transport
from sightline_plugins import Lines, Pattern, Replay, Track
from tests.unit.delivery.sending import Post

FRAMES = 100


class _Arrivals(Transport):
    """Keeps what is delivered."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def connect(self) -> None:
        pass

    def deliver(self, records: Sequence[Record]) -> None:
        self.records += records

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def arrived(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    """What a run over two streams delivered: a car drives down across a line, again and again."""
    folder, arrivals = tmp_path_factory.mktemp("run"), _Arrivals()

    class Delivering(Post):
        """Delivers to a list."""

        def transport(self, site: Site) -> Transport:
            return arrivals

    lines = [f"{n + 1},-1,{4 + 3 * (n % 40)},{10 + 2 * (n % 40)},30,30,0.9,-1,-1,-1" for n in range(FRAMES)]
    (folder / "det.txt").write_text("\n".join(lines))
    send = ["frames", "objects", "tracks", "events", "counts", "status"]
    Pipeline(
        sources={name: Pattern(frames=FRAMES) for name in ("gate", "yard")},
        steps=[
            Replay(path=folder / "det.txt", label="car"),
            Track(),
            Lines.model_validate({"gate_in": {"from": [0, 0.2], "to": [1, 0.2]}}),
            Delivering(send=send, image="crop", interval="2s"),
        ],
        outputs=folder,
    ).run()
    return arrivals.records


@pytest.mark.parametrize("stream", ["gate", "yard"])
def test_records_arrive_in_order_and_without_gaps(arrived: list[Record], stream: str) -> None:
    own = [record.seq for record in arrived if record.stream == stream]

    assert own == list(range(len(own)))


@pytest.mark.parametrize("stream", ["gate", "yard"])
def test_every_kind_arrives(arrived: list[Record], stream: str) -> None:
    kinds = [record.kind for record in arrived if record.stream == stream]

    assert kinds.count("frames") == kinds.count("objects") == FRAMES
    assert {kind: kinds.count(kind) for kind in ("tracks", "events", "counts", "status")} == {
        "tracks": 3,
        "events": 3,
        "counts": 3,
        "status": 2,
    }


def test_a_stream_is_live_and_then_ended(arrived: list[Record]) -> None:
    states: list[Any] = [
        json.loads(record.body)["state"] for record in arrived if (record.stream, record.kind) == ("gate", "status")
    ]

    assert states == ["live", "ended"]


@pytest.mark.parametrize("processes", [1, 2])
def test_an_epoch_is_given_to_streams_that_have_ended_in_pipelines_that_run(processes: int) -> None:
    pipeline = Pipeline(sources={}, keep_running=True, processes=processes)
    with pytest.raises(ConfigurationError, match="'gate' cannot begin an epoch: start the pipeline first"):
        pipeline.add_source("gate", Pattern(frames=None), epoch=7)

    with pipeline:
        pipeline.add_source("gate", Pattern(frames=None), epoch=7).wait()
        with pytest.raises(ConfigurationError, match="the stream 'gate' is running: remove it first"):
            pipeline.add_source("gate", Pattern(frames=None), epoch=8)
        pipeline.remove_source("gate").wait()
        with pytest.raises(ConfigurationError, match="cannot begin the epoch 7: they have had 7; give a higher one"):
            pipeline.add_source("gate", Pattern(frames=None), epoch=7)
        pipeline.add_source("gate", Pattern(frames=None), epoch=8).wait()
