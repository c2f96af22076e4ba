"""Links."""

from __future__ import annotations

import threading

import pytest

from sightline.errors import EndOfLink, LinkClosed
from sightline.runtime.scheduling.link import DropReason, Link, LinkPolicy


def test_items_come_out_in_the_order_they_went_in() -> None:
    link: Link[int] = Link(3)
    for number in range(3):
        link.send(number)

    assert [link.receive() for _ in range(3)] == [0, 1, 2]


def test_what_was_sent_before_the_end_is_still_received() -> None:
    link: Link[int] = Link(2)
    link.send(1)
    link.end()

    assert link.receive() == 1
    with pytest.raises(EndOfLink):
        link.receive()


def test_sending_into_a_closed_link_is_refused() -> None:
    link: Link[int] = Link(2)
    link.close()

    with pytest.raises(LinkClosed):
        link.send(1)


def test_closing_hands_what_is_left_to_on_drop() -> None:
    dropped: list[int] = []
    link: Link[int] = Link(3, on_drop=lambda item, reason: dropped.append(item))
    link.send(1)
    link.send(2)

    link.close()

    assert dropped == [1, 2]


def test_a_latest_link_lets_the_oldest_give_way() -> None:
    dropped: list[int] = []
    link: Link[int] = Link(2, policy=LinkPolicy.LATEST, on_drop=lambda item, reason: dropped.append(item))
    for number in range(5):
        link.send(number)

    assert (dropped, [link.receive(), link.receive()]) == ([0, 1, 2], [3, 4])


def test_a_drop_tells_its_reason() -> None:
    reasons: list[DropReason] = []
    link: Link[int] = Link(1, policy=LinkPolicy.LATEST, on_drop=lambda item, reason: reasons.append(reason))
    link.send(1)
    link.send(2)
    link.close()

    assert reasons == [DropReason.OVERLOADED, DropReason.STOPPED]


def test_what_comes_after_the_end_pushes_nothing_out() -> None:
    link: Link[int] = Link(1, policy=LinkPolicy.LATEST)
    link.send(1)
    link.end()

    with pytest.raises(LinkClosed):
        link.send(2)

    assert link.receive() == 1


def test_on_ready_is_called_for_items_and_for_the_end() -> None:
    calls: list[None] = []
    link: Link[int] = Link(2, on_ready=lambda: calls.append(None))

    link.send(1)
    link.end()

    assert len(calls) == 2


def test_every_item_sent_is_received_or_dropped() -> None:
    link: Link[int] = Link(2, policy=LinkPolicy.LATEST)
    for number in range(7):
        link.send(number)
    link.receive()
    link.close()

    counts = link.statistics
    assert counts.sent == counts.received + counts.dropped == 7


def test_a_full_blocking_link_makes_the_sender_wait_for_room() -> None:
    link: Link[int] = Link(1)
    link.send(1)
    sender = threading.Thread(target=link.send, args=(2,))
    sender.start()

    received = [link.receive(), link.receive()]
    sender.join(60)

    assert received == [1, 2]
    assert not sender.is_alive()


def test_a_link_that_grows_wakes_a_sender_that_waits_for_room() -> None:
    link: Link[int] = Link(1)
    link.send(1)
    sender = threading.Thread(target=link.send, args=(2,))
    sender.start()
    assert sender.is_alive()

    link.capacity = 2
    sender.join(timeout=60)

    assert not sender.is_alive()
    assert [link.receive(), link.receive()] == [1, 2]


def test_closing_wakes_a_sender_that_waits_for_room() -> None:
    link: Link[int] = Link(1)
    link.send(1)
    refused: list[bool] = []

    def send() -> None:
        try:
            link.send(2)
        except LinkClosed:
            refused.append(True)

    sender = threading.Thread(target=send)
    sender.start()
    link.close()
    sender.join(60)

    assert refused == [True]


def test_ending_wakes_a_receiver_that_waits() -> None:
    link: Link[int] = Link(1)
    ended: list[bool] = []

    def receive() -> None:
        try:
            link.receive()
        except EndOfLink:
            ended.append(True)

    receiver = threading.Thread(target=receive)
    receiver.start()
    link.end()
    receiver.join(60)

    assert ended == [True]
