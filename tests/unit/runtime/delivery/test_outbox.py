"""Records arrive in order, whatever happens to the destination, the disk or the process."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from sightline import Pipeline
from sightline.errors import ConfigurationError, DestinationLost, DestinationRefused, RecordsRejected
from sightline.graph import Message, MessageKind, StreamState
from sightline.graph.transport import Record
from sightline.runtime.delivery.outbox import OutboxLimits
from sightline.runtime.delivery.store import OutboxStore
from sightline.runtime.stats.counters import DeliveryState
from tests.unit.delivery.sending import Post
from tests.unit.runtime.delivery.transports import (
    Destination,
    ForwardClock,
    Hanging,
    Messages,
    Slow,
    close,
    numbers,
    outbox_at,
    put,
)
from tests.waiting import LIMIT_SECONDS, wait_until


def test_records_arrive_in_order(tmp_path: Path) -> None:
    destination, outbox = Destination(), outbox_at(tmp_path)
    mailbox = outbox.mailbox("mqtt-1", address="mqtt://broker", transport=destination)

    for first in range(0, 5_000, 10):
        put(mailbox, numbers(first, first + 10))
    close(outbox, seconds=60)

    assert destination.bodies == numbers(0, 5_000)


def test_records_of_a_stream_are_numbered_without_gaps(tmp_path: Path) -> None:
    destination, outbox = Destination(), outbox_at(tmp_path)
    mailbox = outbox.mailbox("mqtt-1", address="", transport=destination)

    put(mailbox, numbers(0, 3), stream="gate")
    put(mailbox, numbers(0, 2), stream="yard")
    put(mailbox, numbers(3, 5), stream="gate")
    close(outbox, seconds=60)

    assert [record.seq for record in destination.records if record.stream == "gate"] == [0, 1, 2, 3, 4]
    assert [record.seq for record in destination.records if record.stream == "yard"] == [0, 1]


def test_the_epoch_grows_with_each_run(tmp_path: Path) -> None:
    epochs = []
    for _ in range(3):
        outbox = outbox_at(tmp_path)
        mailbox = outbox.mailbox("mqtt-1", address="", transport=Destination())
        epochs.append(mailbox.stamp("gate")[0])
        close(outbox, seconds=60)

    assert epochs == sorted(set(epochs))


def test_records_wait_for_a_destination_that_is_lost(tmp_path: Path) -> None:
    messages, destination = Messages(), Destination(trouble=DestinationLost("no answer from broker"))
    outbox = outbox_at(tmp_path, messages=messages)
    mailbox = outbox.mailbox("mqtt-1", address="mqtt://broker", transport=destination)

    put(mailbox, numbers(0, 100))
    wait_until(lambda: outbox.stats[0].state is DeliveryState.LOST)
    put(mailbox, numbers(100, 200))
    destination.trouble = None
    close(outbox, seconds=60)

    assert destination.bodies == numbers(0, 200)
    assert [message.kind for message in messages] == [MessageKind.DESTINATION_LOST, MessageKind.DESTINATION_BACK]


def test_the_next_run_delivers_what_an_earlier_one_left(tmp_path: Path) -> None:
    messages = Messages()
    for first in (0, 100):
        outbox = outbox_at(tmp_path, messages=messages)
        lost = Destination(trouble=DestinationLost("no answer"))
        put(outbox.mailbox("mqtt-1", address="mqtt://broker", transport=lost), numbers(first, first + 100))
        close(outbox, seconds=0)

    destination, outbox = Destination(), outbox_at(tmp_path)
    put(outbox.mailbox("mqtt-1", address="", transport=destination), numbers(200, 300))
    close(outbox, seconds=60)

    assert destination.bodies == numbers(0, 300)
    assert "100 records for mqtt://broker wait in the outbox" in messages.texts("warning")[0]


def test_each_destination_gets_its_own_records(tmp_path: Path) -> None:
    first, second, outbox = Destination(), Destination(trouble=DestinationLost("away")), outbox_at(tmp_path)

    put(outbox.mailbox("one", address="", transport=first), numbers(0, 50))
    put(outbox.mailbox("two", address="", transport=second), numbers(50, 90))
    wait_until(lambda: len(first.records) == 50)
    second.trouble = None
    close(outbox, seconds=60)

    assert (first.bodies, second.bodies) == (numbers(0, 50), numbers(50, 90))


def test_records_acknowledged_before_a_failure_are_not_delivered_again(tmp_path: Path) -> None:
    class Breaking(Destination):
        def deliver(self, records: object) -> None:
            some = list(records)[:7]  # type: ignore[call-overload]
            super().deliver(some)
            raise DestinationLost("broke off", delivered=len(some))

    destination, outbox = Breaking(), outbox_at(tmp_path)
    put(outbox.mailbox("one", address="", transport=destination), numbers(0, 20))
    close(outbox, seconds=60)

    assert destination.bodies == numbers(0, 20)


def test_progress_within_a_chunk_survives_the_run(tmp_path: Path) -> None:
    class Breaking(Destination):
        def deliver(self, records: object) -> None:
            if self.records:
                raise DestinationLost("away")
            super().deliver(list(records)[:7])  # type: ignore[call-overload]
            raise DestinationLost("broke off", delivered=7)

    first, outbox = Breaking(), outbox_at(tmp_path)
    put(outbox.mailbox("one", address="", transport=first), numbers(0, 20))
    wait_until(lambda: first.records)
    close(outbox, seconds=0)
    second, outbox = Destination(), outbox_at(tmp_path)
    outbox.mailbox("one", address="", transport=second)
    close(outbox, seconds=60)

    assert first.bodies + second.bodies == numbers(0, 20)


def test_a_record_that_is_refused_is_set_aside_and_blocks_nothing(tmp_path: Path) -> None:
    messages, destination = Messages(), Destination(refused=frozenset({b"13"}))
    outbox = outbox_at(tmp_path, messages=messages)

    put(outbox.mailbox("one", address="mqtt://broker", transport=destination), numbers(0, 30))
    close(outbox, seconds=60)

    (line,) = (tmp_path / "run.outbox.refused.jsonl").read_text().splitlines()
    kept = json.loads(line)
    assert (kept["body"], kept["reason"], kept["seq"]) == ("13", "bad record", 13)
    assert destination.bodies == [body for body in numbers(0, 30) if body != b"13"]
    assert (outbox.stats[0].refused, outbox.stats[0].retries, outbox.stats[0].depth) == (1, 4, 0)
    assert len(messages.texts("warning")) == 1


def test_records_among_which_some_were_rejected_are_set_aside_and_not_sent_again(tmp_path: Path) -> None:
    class Rejecting(Destination):
        def deliver(self, records: Sequence[Record]) -> None:
            whole = super().deliver
            bodies = [record.body for record in records]
            if b"5" in bodies:
                start = bodies.index(b"5")
                whole(records[: start + 3])
                raise RecordsRejected("2 of 3 rejected", delivered=start, among=3, rejected=2)
            whole(records)

    messages, destination = Messages(), Rejecting()
    outbox = outbox_at(tmp_path, messages=messages)

    put(outbox.mailbox("one", address="http://collector", transport=destination), numbers(0, 30))
    close(outbox, seconds=60)

    lines = (tmp_path / "run.outbox.refused.jsonl").read_text().splitlines()
    stats = outbox.stats[0]
    assert [(json.loads(line)["body"], json.loads(line)["reason"]) for line in lines] == [
        (body, "2 of 3 rejected") for body in ("5", "6", "7")
    ]
    assert destination.bodies == numbers(0, 30)
    assert (stats.delivered, stats.refused, stats.retries, stats.depth) == (28, 2, 0, 0)
    assert len(messages.texts("warning")) == 1


def test_wrong_credentials_are_a_state_of_their_own(tmp_path: Path) -> None:
    messages = Messages()
    destination = Destination(trouble=DestinationRefused("mqtt://user:secret@broker does not accept the password"))
    outbox = outbox_at(tmp_path, messages=messages)

    put(outbox.mailbox("one", address="", transport=destination), numbers(0, 3))
    wait_until(lambda: outbox.stats[0].state is DeliveryState.REFUSED)
    close(outbox, seconds=0)

    assert "secret" not in messages[0].text
    assert "***" in messages[0].text


def test_a_transport_that_fails_in_its_own_way_ends_nothing(tmp_path: Path) -> None:
    class Broken(Destination):
        def deliver(self, records: object) -> None:
            if not self.calls:
                self.calls += 1
                raise ZeroDivisionError("a mistake of its author")
            super().deliver(records)  # type: ignore[arg-type]

    messages, destination = Messages(), Broken()
    outbox = outbox_at(tmp_path, messages=messages)
    put(outbox.mailbox("one", address="", transport=destination), numbers(0, 3))
    close(outbox, seconds=60)

    assert destination.bodies == numbers(0, 3)
    assert "ZeroDivisionError" in messages[0].text


def test_the_oldest_records_give_way_when_the_outbox_is_full(tmp_path: Path) -> None:
    messages, destination = Messages(), Destination(trouble=DestinationLost("away"))
    outbox = outbox_at(tmp_path, messages=messages, limits=OutboxLimits(size_bytes=200_000))
    mailbox = outbox.mailbox("one", address="mqtt://broker", transport=destination)

    for number in range(100):
        put(mailbox, [f"{number}".encode().rjust(10_000)])
        outbox.commit()
        outbox.tidy()
    destination.trouble = None
    close(outbox, seconds=60)

    got = [int(body) for body in destination.bodies]
    dropped = outbox.stats[0].dropped["full"]
    assert got == sorted(got)
    assert got[-1] == 99
    assert 15 <= len(got) <= 25
    assert dropped == 100 - len(got)
    assert len(messages.texts("sink_degraded")) == 1


def test_small_records_fill_the_outbox_by_what_they_take_on_disk(tmp_path: Path) -> None:
    destination = Destination(trouble=DestinationLost("away"))
    outbox = outbox_at(tmp_path, limits=OutboxLimits(size_bytes=200_000))
    mailbox = outbox.mailbox("one", address="", transport=destination)

    for number in range(200):
        put(mailbox, [b"small"] * 100, stream=f"a camera with a long name {number}")
        outbox.commit()
        outbox.tidy()
    close(outbox, seconds=0)

    database = sqlite3.connect(outbox.path)
    pages, free, size = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    database.close()
    assert 100_000 < (pages - free) * size < 300_000


def test_records_that_are_too_old_are_dropped(tmp_path: Path) -> None:
    destination = Destination(trouble=DestinationLost("away"))
    outbox = outbox_at(tmp_path, limits=OutboxLimits(age_ns=1))
    mailbox = outbox.mailbox("one", address="", transport=destination)

    put(mailbox, numbers(0, 9))
    wait_until(lambda: outbox.stats[0].dropped["age"] == 9)
    destination.trouble = None
    close(outbox, seconds=60)

    assert destination.bodies == []


def test_memory_is_bounded_while_a_destination_is_away(tmp_path: Path) -> None:
    destination, outbox = Destination(trouble=DestinationLost("away")), outbox_at(tmp_path)
    mailbox = outbox.mailbox("one", address="", transport=destination)

    for number in range(1_000):
        put(mailbox, [f"{number}".encode().rjust(20_000)])
        if number % 50 == 49:
            outbox.commit()
    held = outbox._destinations["one"].queue._memory_bytes
    destination.trouble = None
    close(outbox, seconds=120)

    assert held <= 4_000_000
    assert [int(body) for body in destination.bodies] == list(range(1_000))


def test_a_step_that_is_built_anew_goes_on_where_it_was(tmp_path: Path) -> None:
    old, new, outbox = Destination(trouble=DestinationLost("away")), Destination(), outbox_at(tmp_path)
    before = outbox.mailbox("one", address="", transport=old)
    put(before, numbers(0, 10))
    wait_until(lambda: old.connections)

    after = outbox.mailbox("one", address="", transport=new)
    put(before, numbers(10, 20))
    before.close()
    put(after, numbers(20, 30))
    close(outbox, seconds=60)

    assert new.bodies == numbers(0, 30)
    assert [record.seq for record in new.records] == list(range(30))


def test_order_is_kept_when_a_step_is_built_anew_while_its_destination_hangs(tmp_path: Path) -> None:
    old, new, outbox = Hanging(), Destination(), outbox_at(tmp_path)
    before = outbox.mailbox("one", address="", transport=old)
    put(before, numbers(0, 10))
    wait_until(lambda: old.held)

    after = outbox.mailbox("one", address="", transport=new)
    put(after, numbers(10, 20))
    outbox.commit()
    wait_until(lambda: new.records or not outbox._destinations["one"].queue._new)
    old.released.set()
    close(outbox, seconds=60)

    assert new.bodies == numbers(0, 20)


def test_hanging_destinations_do_not_add_up_at_the_end(tmp_path: Path) -> None:
    hanging, outbox = [Hanging() for _ in range(20)], outbox_at(tmp_path)
    for number, one in enumerate(hanging):
        put(outbox.mailbox(f"step-{number}", address="", transport=one), [b"1"])
    wait_until(lambda: all(one.held for one in hanging))

    began = time.monotonic()
    close(outbox, seconds=0)
    seconds = time.monotonic() - began
    for one in hanging:
        one.released.set()

    assert seconds < len(hanging) / 2  # each may take one second
    assert [one.depth for one in outbox.stats] == [1] * len(hanging)


def test_a_slow_destination_gets_fewer_records_at_once(tmp_path: Path) -> None:
    clock = ForwardClock()
    slow, outbox = Slow(clock, ns_per_record=100_000_000), outbox_at(tmp_path, clock=clock)
    put(outbox.mailbox("one", address="", transport=slow), numbers(0, 400))
    wait_until(lambda: len(slow.records) == 400)
    close(outbox, seconds=0)

    assert slow.bodies == numbers(0, 400)
    assert max(slow.batches) <= 32
    assert max(slow.batches[2:]) <= 30
    assert outbox.stats[0].delivered == 400


def test_a_fast_destination_gets_many_records_at_once(tmp_path: Path) -> None:
    clock = ForwardClock()
    fast, outbox = Slow(clock, ns_per_record=1), outbox_at(tmp_path, clock=clock)
    put(outbox.mailbox("one", address="", transport=fast), numbers(0, 5_000))
    close(outbox, seconds=60)

    assert fast.bodies == numbers(0, 5_000)
    assert max(fast.batches) == 500


def test_messages_of_the_run_are_heard(tmp_path: Path) -> None:
    outbox, heard = outbox_at(tmp_path), Messages()
    mailbox = outbox.mailbox("one", address="", transport=Destination())
    mailbox.listen(heard.append)

    outbox.hear(Message(MessageKind.STREAM_LOST, "gate is lost", stream="gate", state=StreamState.LOST))
    mailbox.close()
    outbox.hear(Message(MessageKind.STREAM_BACK, "gate is back", stream="gate", state=StreamState.LIVE))
    close(outbox, seconds=0)

    assert [message.text for message in heard] == ["gate is lost"]


def test_two_processes_cannot_have_one_outbox(tmp_path: Path) -> None:
    outbox = outbox_at(tmp_path)
    outbox.mailbox("one", address="", transport=Destination())

    with pytest.raises(ConfigurationError, match="open in another process"):
        outbox_at(tmp_path).mailbox("one", address="", transport=Destination())
    close(outbox, seconds=0)
    outbox_at(tmp_path).mailbox("one", address="", transport=Destination())


def test_a_file_that_is_no_outbox_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run.outbox").write_text("my diary, which is long enough to be no database")

    with pytest.raises(Exception, match="was not written by Sightline"):
        outbox_at(tmp_path).mailbox("one", address="", transport=Destination())

    assert (tmp_path / "run.outbox").read_text().startswith("my diary")


def test_another_program_can_look_at_what_waits(tmp_path: Path) -> None:
    outbox = outbox_at(tmp_path)
    put(
        outbox.mailbox("one", address="", transport=Destination(trouble=DestinationLost("away"))), [b"first", b"second"]
    )
    outbox.commit()

    store = OutboxStore(tmp_path / "run.outbox", read_only=True)
    waiting = store.waiting()["one"]
    store.close()
    close(outbox, seconds=0)

    assert waiting.records == 2
    assert waiting.oldest_ns is not None
    with sqlite3.connect(tmp_path / "run.outbox") as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_close_that_waits_ends_when_less_patience_is_asked_for(tmp_path: Path) -> None:
    outbox = outbox_at(tmp_path)
    put(outbox.mailbox("one", address="", transport=Destination(trouble=DestinationLost("away"))), numbers(0, 3))
    closing = threading.Thread(target=outbox.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()

    outbox.linger(at_most_ns=0)
    closing.join(LIMIT_SECONDS)

    assert not closing.is_alive()


def test_records_for_a_step_that_is_gone_are_named_and_stay(tmp_path: Path) -> None:
    outbox = outbox_at(tmp_path)
    put(outbox.mailbox("old", address="", transport=Destination(trouble=DestinationLost("away"))), numbers(0, 3))
    close(outbox, seconds=0)

    messages = Messages()
    pipeline = Pipeline(
        sources={"gate": {"pattern": "bars", "frames": 2}},
        steps=[Post(id="new")],
        outbox={"path": "run.outbox", "linger": 0},
        outputs=tmp_path,
    )
    pipeline.on_message(messages.append)
    pipeline.run()

    assert [text for text in messages.texts("warning") if "3 records for 'old', which is no step now" in text]
    store = OutboxStore(tmp_path / "run.outbox", read_only=True)
    assert store.waiting()["old"].records == 3
    store.close()


def test_an_epoch_that_is_given_begins_to_count_anew(tmp_path: Path) -> None:
    destination, outbox = Destination(), outbox_at(tmp_path)
    mailbox = outbox.mailbox("mqtt-1", address="", transport=destination)
    first = mailbox.stamp("gate")[0]
    mailbox.stamp("yard")

    outbox.begin_epoch("gate", first + 9)

    assert [mailbox.stamp("gate") for _ in range(2)] == [(first + 9, 0), (first + 9, 1)]
    assert mailbox.stamp("yard")[1] == 1
    close(outbox, seconds=60)


def test_an_epoch_does_not_go_back(tmp_path: Path) -> None:
    outbox = outbox_at(tmp_path)
    mailbox = outbox.mailbox("mqtt-1", address="", transport=Destination())
    outbox.begin_epoch("gate", 5)
    put(mailbox, numbers(0, 1))
    mailbox.stamp("gate")
    with pytest.raises(ConfigurationError, match="cannot begin the epoch 5: they have had 5; give a higher one"):
        outbox.begin_epoch("gate", 5)
    close(outbox, seconds=60)

    following = outbox_at(tmp_path)
    following.mailbox("mqtt-1", address="", transport=Destination())
    with pytest.raises(ConfigurationError, match="they have had 5"):
        following.begin_epoch("gate", 4)
    close(following, seconds=60)
