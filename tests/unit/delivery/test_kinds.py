"""What records of each kind hold."""

from __future__ import annotations

import dataclasses
import json
import threading
from pathlib import Path

import pytest

from sightline.errors import ConfigurationError
from sightline.graph import Capability, Message, MessageKind, StreamState
from sightline.media.frame import TimeSource
from sightline.testing import MemoryOutbox, run_element
from sightline_plugins.sinks.jsonl import Jsonl
from tests.unit.delivery.sending import Post, bodies, joined, operator, sent, walk

ALL = ("frames", "objects", "events", "counts")


def test_a_frame_is_what_jsonl_writes_behind_the_envelope(tmp_path: Path) -> None:
    run_element(Jsonl(path="out.jsonl"), walk(), outputs=tmp_path)
    lines = (tmp_path / "out.jsonl").read_bytes().splitlines()

    for number, (record, line) in enumerate(zip(sent(walk()), lines, strict=True)):
        start = b'{"stream":"gate",'
        assert line.startswith(start)
        assert record.body == start + b'"epoch":1,"seq":%d,"record":"frames",' % number + line[len(start) :]


def test_a_record_names_its_place_and_where_it_goes() -> None:
    record = sent(walk(), send="events")[1]

    assert (record.stream, record.epoch, record.seq, record.kind) == ("gate", 1, 1, "events")
    assert record.to == "site/gate/events"
    assert record.content_type == "application/json"


@pytest.mark.parametrize("send", [*ALL, ALL], ids=str)
def test_records_do_not_depend_on_the_size_of_batches(send: str | tuple[str, ...]) -> None:
    options = {"send": send, "interval": "100ms", "labels": ["person"], "max_rate": 10}

    assert [r.body for r in sent(walk(), **options)] == [r.body for r in sent([joined(walk())], **options)]


def test_seq_counts_the_records_of_each_stream_without_gaps() -> None:
    outbox = MemoryOutbox()
    batches = [batch for pair in zip(walk(), walk(stream="yard"), strict=True) for batch in pair]
    run_element(Post(send=ALL), batches, outbox=outbox)

    for stream in ("gate", "yard"):
        own = [record.seq for record in outbox.records if record.stream == stream]
        assert own == list(range(len(own)))
        assert len(own) > 20


def test_the_records_of_a_batch_come_in_the_order_of_its_frames() -> None:
    frames = [body["frame"] for body in bodies([joined(walk())], send=ALL)]

    assert frames == sorted(frames)


def test_an_object_has_its_frame_and_what_was_found() -> None:
    first, second = bodies(walk(1 + 1), send="objects")[:2]

    assert first == {
        "stream": "gate",
        "epoch": 1,
        "seq": 0,
        "record": "objects",
        "frame": 0,
        "index": 0,
        "pts_ns": 0,
        "size": [64, 48],
        "label": "person",
        "class_id": 0,
        "confidence": 0.9,
        "box": [4.0, 10.0, 14.0, 40.0],
        "track_id": 1,
        "attributes": {"color": "red"},
    }
    assert (second["index"], second["label"]) == (1, "car")


def test_an_event_has_its_data_and_the_object_on_the_frame() -> None:
    crossing, leaving = bodies(walk(), send="events")

    assert crossing == {
        "stream": "gate",
        "epoch": 1,
        "seq": 0,
        "record": "events",
        "frame": 3,
        "pts_ns": 120_000_000,
        "kind": "line",
        "rule": "gate_in",
        "step": "lines-1",
        "data": {"direction": "in", "track_id": 1},
        "object": {
            "label": "person",
            "class_id": 0,
            "confidence": 0.9,
            "box": [7.0, 10.0, 17.0, 40.0],
            "attributes": {"color": "red"},
        },
    }
    assert "object" not in leaving


def test_counts_come_at_once_at_intervals_and_at_the_end() -> None:
    found = bodies(walk(), send="counts", interval="120ms")

    assert [body["frame"] for body in found] == [0, 3, 6, 7]
    assert [body.get("final") for body in found] == [None, None, None, True]
    assert found[-1]["lines"] == {"gate_in": {"in": 1, "out": 0}}
    assert found[0]["zones"] == {"plaza": {"inside": 1, "visitors": 1}}


def test_a_label_that_has_gone_is_counted_as_zero() -> None:
    assert bodies(walk(), send="counts")[-1]["objects"] == {"person": 1, "car": 0}


def test_labels_that_are_asked_for_are_counted_before_they_are_seen() -> None:
    assert bodies(walk(), send="counts", labels=["truck", "car"])[0]["objects"] == {"truck": 0, "car": 1}


def test_rules_of_one_name_in_two_steps_are_both_counted() -> None:
    batch = walk(1)[0]
    doubled = batch.with_overlays(batch.columns.overlays)

    assert set(bodies([doubled], send="counts")[0]["lines"]) == {"gate_in", "gate_in-2"}


def test_states_of_streams_are_sent_as_they_change() -> None:
    outbox = MemoryOutbox()
    step = operator(outbox, send=["status"], streams=["ga*"])
    outbox.tell(Message(MessageKind.STREAM_LOST, "it broke off", stream="gate", state=StreamState.LOST))
    outbox.tell(Message(MessageKind.STREAM_LOST, "it broke off", stream="yard", state=StreamState.LOST))
    outbox.tell(Message(MessageKind.WARNING, "hot", stream="gate"))
    step.close()

    (body,) = [json.loads(record.body) for record in outbox.records]
    assert (body["record"], body["state"], body["text"]) == ("status", "lost", "it broke off")
    assert body["pipeline"] == "pipeline"
    assert body["time"].endswith("Z")


def test_the_time_of_day_is_sent_where_it_is_known() -> None:
    batch = walk(1)[0]
    frame = dataclasses.replace(batch.frames[0], capture_ns=1_000_000_000, time_source=TimeSource.RTCP)

    for body in bodies([dataclasses.replace(batch, frames=(frame,))], send=["frames", "objects", "counts"]):
        assert (body["time"], body["time_source"]) == ("1970-01-01T00:00:01.000Z", "rtcp")


def test_nothing_is_put_after_the_end() -> None:
    outbox = MemoryOutbox()
    step = operator(outbox, send=["status", "counts"])
    step.process(walk(1)[0])
    mailbox = outbox.mailboxes["post-1"]
    step.close()
    mailbox.is_closed = False
    mailbox.tell(Message(MessageKind.STREAM_LOST, "it broke off", stream="gate", state=StreamState.LOST))
    step.close()

    assert [record.kind for record in outbox.records] == ["counts"]


def test_frames_with_nothing_are_left_out_on_request() -> None:
    assert [body["frame"] for body in bodies(walk(), labels="car", empty=False)] == [0, 1, 2, 3, 6]


def test_events_about_objects_of_other_labels_are_left_out_even_when_these_have_gone() -> None:
    assert [body["rule"] for body in bodies(walk(), send="events", labels="person")] == ["gate_in"]
    assert [body["rule"] for body in bodies(walk(), send="events", labels="car")] == ["plaza"]


@pytest.mark.parametrize("rules", ["lines.gate_in", "lines-1.gate_in.in", ["lines-1.gate_in"]])
def test_events_of_other_rules_are_left_out(rules: str | list[str]) -> None:
    assert [body["rule"] for body in bodies(walk(), send="events", rules=rules)] == ["gate_in"]


def test_frames_are_sent_at_most_at_the_rate() -> None:
    assert [body["pts_ns"] for body in bodies(walk(11), max_rate=10)] == [
        0,
        120_000_000,
        200_000_000,
        320_000_000,
        400_000_000,
    ]


def test_objects_are_sent_frame_by_frame_at_most_at_the_rate() -> None:
    frames = [body["frame"] for body in bodies(walk(16), send="objects", max_rate=12.5)]

    assert frames == [0, 0, 4, 4, 8, 10, 12, 14]


def test_a_stream_whose_time_goes_back_is_sent_on() -> None:
    count = len(bodies([*walk(4), *walk(2)], max_rate=1))

    assert count == 2


def test_needs_follow_from_what_is_sent() -> None:
    assert Post().required() == frozenset()
    assert Post(send=["events", "tracks"]).required() == {Capability.EVENTS, Capability.TRACKS}
    assert Post(labels=["car"]).required() == {Capability.OBJECTS}


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match="must be frames, objects, tracks"):
        Post(send="everything")


def test_numbers_are_in_the_order_of_the_records_when_states_come_from_another_thread() -> None:
    outbox = MemoryOutbox()
    step = operator(outbox, send=["frames", "status"])
    message = Message(MessageKind.STREAM_LOST, "it broke off", stream="gate", state=StreamState.LOST)

    def tell() -> None:
        for _ in range(2_000):
            outbox.tell(message)

    thread = threading.Thread(target=tell)
    thread.start()
    for batch in walk(400):
        step.process(batch)
    thread.join()
    step.close()

    assert [record.seq for record in outbox.records] == list(range(2_400))
    assert len({record.kind for record in outbox.records}) == 2
