"""Links between threads."""

from __future__ import annotations

import threading
from time import monotonic_ns

import pytest

from sightline.errors import EndOfLink, LinkClosed
from sightline.runtime.scheduling.link import Link, LinkPolicy, SharedCondition, open_link
from sightline.runtime.stats.counters import DropReason
from tests.waiting import wait_until


def test_items_come_out_in_the_order_they_went_in() -> None:
    link: Link[int] = open_link(3)
    for number in range(3):
        link.sender.send(number)

    assert [link.receiver.receive() for _ in range(3)] == [0, 1, 2]


def test_what_was_sent_before_the_end_is_still_received() -> None:
    link: Link[int] = open_link(2)
    link.sender.send(1)
    link.sender.end()

    assert link.receiver.receive() == 1
    with pytest.raises(EndOfLink):
        link.receiver.receive()


def test_sending_into_a_closed_link_is_refused() -> None:
    link: Link[int] = open_link(2)
    link.receiver.close()

    with pytest.raises(LinkClosed):
        link.sender.send(1)


def test_closing_hands_what_is_left_to_on_drop() -> None:
    dropped: list[int] = []
    link: Link[int] = open_link(3, on_drop=lambda item, reason: dropped.append(item))
    link.sender.send(1)
    link.sender.send(2)

    link.receiver.close()

    assert dropped == [1, 2]


def test_a_latest_link_lets_the_oldest_give_way() -> None:
    dropped: list[int] = []
    link: Link[int] = open_link(2, policy=LinkPolicy.LATEST, on_drop=lambda item, reason: dropped.append(item))
    for number in range(5):
        link.sender.send(number)

    assert (dropped, [link.receiver.receive(), link.receiver.receive()]) == ([0, 1, 2], [3, 4])


def test_a_drop_tells_its_reason() -> None:
    reasons: list[DropReason] = []
    link: Link[int] = open_link(1, policy=LinkPolicy.LATEST, on_drop=lambda item, reason: reasons.append(reason))
    link.sender.send(1)
    link.sender.send(2)
    link.receiver.close()

    assert reasons == [DropReason.OVERLOADED, DropReason.STOPPED]


def test_what_comes_after_the_end_pushes_nothing_out() -> None:
    link: Link[int] = open_link(1, policy=LinkPolicy.LATEST)
    link.sender.send(1)
    link.sender.end()

    with pytest.raises(LinkClosed):
        link.sender.send(2)

    assert link.receiver.receive() == 1


def test_on_ready_is_called_for_items_and_for_the_end() -> None:
    calls: list[None] = []
    link: Link[int] = open_link(2, on_ready=lambda: calls.append(None))

    link.sender.send(1)
    link.sender.end()

    assert len(calls) == 2


def test_every_item_sent_is_received_or_dropped() -> None:
    link: Link[int] = open_link(2, policy=LinkPolicy.LATEST)
    for number in range(7):
        link.sender.send(number)
    link.receiver.receive()
    link.receiver.close()

    counts = link.receiver.stats
    assert counts.sent == counts.received + counts.dropped == 7


def test_a_full_blocking_link_makes_the_sender_wait_for_room() -> None:
    link: Link[int] = open_link(1)
    link.sender.send(1)
    sender = threading.Thread(target=link.sender.send, args=(2,))
    sender.start()

    received = [link.receiver.receive(), link.receiver.receive()]
    sender.join(60)

    assert received == [1, 2]
    assert not sender.is_alive()


def test_a_link_that_grows_wakes_a_sender_that_waits_for_room() -> None:
    link: Link[int] = open_link(1)
    link.sender.send(1)
    sender = threading.Thread(target=link.sender.send, args=(2,))
    sender.start()
    assert sender.is_alive()

    link.sender.resize(2)
    sender.join(timeout=300)

    assert not sender.is_alive()
    assert [link.receiver.receive(), link.receiver.receive()] == [1, 2]


def test_closing_wakes_a_sender_that_waits_for_room() -> None:
    link: Link[int] = open_link(1)
    link.sender.send(1)
    refused: list[bool] = []

    def send() -> None:
        try:
            link.sender.send(2)
        except LinkClosed:
            refused.append(True)

    sender = threading.Thread(target=send)
    sender.start()
    link.receiver.close()
    sender.join(60)

    assert refused == [True]


def test_ending_wakes_a_receiver_that_waits() -> None:
    link: Link[int] = open_link(1)
    ended: list[bool] = []

    def receive() -> None:
        try:
            link.receiver.receive()
        except EndOfLink:
            ended.append(True)

    receiver = threading.Thread(target=receive)
    receiver.start()
    link.sender.end()
    receiver.join(60)

    assert ended == [True]


def test_links_of_one_receiver_share_its_condition() -> None:
    condition = SharedCondition()
    one: Link[int] = open_link(1, condition=condition)
    other: Link[int] = open_link(1, condition=condition)
    found: list[int] = []

    def receive_from_any() -> None:
        with condition.ready:
            condition.ready.wait_for(lambda: one.receiver.depth or other.receiver.depth)
            found.extend(link.receiver.take() for link in (one, other) if link.receiver.depth)

    receiver = threading.Thread(target=receive_from_any)
    receiver.start()
    other.sender.send(7)
    receiver.join(60)

    assert found == [7]


def test_taking_from_an_empty_link_does_not_wait() -> None:
    link: Link[int] = open_link(1)

    with pytest.raises(EndOfLink):
        link.receiver.take()


def test_the_oldest_item_stays_in_the_link() -> None:
    link: Link[int] = open_link(2)
    link.sender.send(1)
    link.sender.send(2)

    assert (link.receiver.oldest(), link.receiver.depth) == (1, 2)


def test_the_time_that_a_sender_waits_for_room_is_counted() -> None:
    link: Link[int] = open_link(1)
    began = monotonic_ns()

    def has_waited() -> bool:
        """Make room a moment after a sender was started; whether it has waited for that."""
        link.sender.send(0)
        sender = threading.Thread(target=link.sender.send, args=(1,))
        sender.start()
        threading.Event().wait(0.01)
        assert [link.receiver.receive(), link.receiver.receive()] == [0, 1]
        sender.join()
        return link.receiver.stats.send_wait_ns > 0

    wait_until(has_waited)

    assert link.receiver.stats.send_wait_ns <= monotonic_ns() - began
